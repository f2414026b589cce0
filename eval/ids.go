package eval

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"

	"vsetrain/data"
	"vsetrain/internal/files/npy"
)

// IDs are the names that judgements use for the images and captions of a split.
type IDs struct {
	Split    string   // for messages, such as "split test of data/f8k"
	Images   []string // [N]
	Captions []string // [M]

	images, captions numbers
}

// numbers maps the ids of images or captions, in the form of plainID, to their numbers in the split.
type numbers map[string]int32

func (n numbers) of(id string) (number int32, known bool) {
	number, known = n[plainID(id)]
	return number, known
}

// cocoCaptionIDs is the file of MS-COCO's 25,000 caption numbers in the order of the testall split, as in the package
// eccv_caption. If it is in the folder of the judgements, they name captions by these numbers.
const cocoCaptionIDs = "coco_test_ids.npy"

// NewIDs names the images and captions of a split for the judgements in a folder:
//
//   - an image by its line in the ids file, or by its number if there is no such file;
//   - caption j = 0, 1, ... of an image ID by ID#j, as in Flickr8K and Flickr30K;
//   - if the folder holds coco_test_ids.npy, a caption by its number in that file, and an image by the number that
//     original_caption_to_image.json, if it is in the folder, gives for its captions.
//
// A COCO file name (COCO_val2014_000000391895.jpg, 000000391895.jpg) and its number are the same id.
func NewIDs(s *data.Split, folder string) (*IDs, error) {
	own := s.Groups()
	ids := &IDs{Split: fmt.Sprintf("split %s of %s", s.Name(), s.Dir()), Images: make([]string, own.Images()),
		Captions: make([]string, own.Items())}
	for i := range ids.Images {
		ids.Images[i] = s.ImageID(s.RowOf(i))
		for c := range own.Of(i) {
			ids.Captions[c] = ids.Images[i] + "#" + strconv.Itoa(c-own.First(i))
		}
	}
	if err := ids.readCOCO(folder, own); err != nil {
		return nil, err
	}
	return ids, ids.index()
}

// index makes the maps from ids to numbers.
func (ids *IDs) index() (err error) {
	if ids.images, err = numbered(ids.Images, "image"); err == nil {
		ids.captions, err = numbered(ids.Captions, "caption")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", ids.Split, err)
	}
	return nil
}

// readCOCO reads the ids of captions and images from the files in the folder of the judgements, if they exist.
func (ids *IDs) readCOCO(folder string, groups data.Groups) error {
	path := filepath.Join(folder, cocoCaptionIDs)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	f, err := npy.Open(path)
	if err != nil {
		return fmt.Errorf("judgements: %w", err)
	}
	defer f.Close()
	numbers, err := f.Ints()
	if err != nil {
		return fmt.Errorf("judgements: %w", err)
	}
	if len(numbers) != len(ids.Captions) {
		return fmt.Errorf("%s: numbers of %d captions, but %s has %d: these judgements are for another split "+
			"(MS-COCO's 5,000 test images are --split testall)",
			path, len(numbers), ids.Split, len(ids.Captions))
	}
	for c, v := range numbers {
		ids.Captions[c] = strconv.FormatInt(v, 10)
	}
	path = filepath.Join(folder, "original_"+captionToImage+".json")
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var images map[string]idList
	if err := readJSON(path, func(dec *json.Decoder) error { return dec.Decode(&images) }); err != nil {
		return err
	}
	for c, caption := range ids.Captions {
		own := images[caption]
		if len(own) != 1 {
			return fmt.Errorf("%s: expected one image of caption %s, found %d", path, caption, len(own))
		}
		if i := groups.ImageOf(c); c == groups.First(i) {
			ids.Images[i] = own[0]
		} else if own[0] != ids.Images[i] {
			return fmt.Errorf("%s: captions %s and %s of image row %d have images %s and %s; expected one", path,
				ids.Captions[c-1], caption, i, ids.Images[i], own[0])
		}
	}
	return nil
}

func numbered(names []string, kind string) (numbers, error) {
	m := make(numbers, len(names))
	for i, name := range names {
		name = plainID(name)
		if before, twice := m[name]; twice {
			return nil, fmt.Errorf("%ss %d and %d have the same id %s, so judgements cannot tell them apart", kind,
				before, i, name)
		}
		m[name] = int32(i)
	}
	return m, nil
}

var cocoName = regexp.MustCompile(`^(?:COCO_[a-z]+\d+_)?0*(\d{1,12})\.jpg((?:#\d+)?)$`)

// plainID returns the form of an id that is compared: for a COCO file name its number.
func plainID(id string) string {
	if len(id) >= 16 && (id[0] == 'C' || id[0] == '0') {
		if m := cocoName.FindStringSubmatch(id); m != nil {
			return m[1] + m[2]
		}
	}
	return id
}
