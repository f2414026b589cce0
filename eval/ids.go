package eval

import (
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

// IDs are the names by which judgements call the images and captions of a split.
type IDs struct {
	Split    string   // for messages, such as "split test of data/f8k"
	Images   []string // [N]
	Captions []string // [M]

	images, captions map[string]int32
}

// cocoCaptionIDs is the file of MS-COCO's 25,000 caption numbers in the order of the testall split, as the package
// eccv_caption has it. Where it lies beside judgements, captions are called by these numbers.
const cocoCaptionIDs = "coco_test_ids.npy"

// NewIDs names the images and captions of a split for the judgements in a folder:
//
//   - an image by its line in the ids file, or by its number if there is none;
//   - caption j = 0, 1, ... of an image ID by ID#j, as Flickr8K and Flickr30K do;
//   - but where the folder holds coco_test_ids.npy, a caption by its number there, and an image by the number that
//     original_caption_to_image.json, if it is there too, has for its captions.
//
// A COCO file name (COCO_val2014_000000391895.jpg, 000000391895.jpg) and the number in it are one.
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

// index makes the maps from names to numbers.
func (ids *IDs) index() (err error) {
	if ids.images, err = numbered(ids.Images, "image"); err == nil {
		ids.captions, err = numbered(ids.Captions, "caption")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", ids.Split, err)
	}
	return nil
}

// readCOCO takes the names of captions and images from the files beside judgements, if they exist.
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
		return fmt.Errorf("%s: numbers of %d captions, but %s has %d: these judgements are of another split "+
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
	if err := readWhole(path, &images); err != nil {
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

// image returns the number of an image of the split.
func (ids *IDs) image(id string) (int32, bool) {
	i, ok := ids.images[plainID(id)]
	return i, ok
}

// caption returns the number of a caption of the split.
func (ids *IDs) caption(id string) (int32, bool) {
	c, ok := ids.captions[plainID(id)]
	return c, ok
}

func numbered(names []string, kind string) (map[string]int32, error) {
	m := make(map[string]int32, len(names))
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

// plainID is the form in which ids are compared: the number of a COCO file name.
func plainID(id string) string {
	if len(id) >= 16 && (id[0] == 'C' || id[0] == '0') {
		if m := cocoName.FindStringSubmatch(id); m != nil {
			return m[1] + m[2]
		}
	}
	return id
}
