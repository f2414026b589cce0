package convert

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"vsetrain/internal/files/atomicfile"
	"vsetrain/internal/files/integrity"
	"vsetrain/internal/files/jsontext"
	"vsetrain/internal/files/pictures"
	"vsetrain/internal/files/regular"
)

func init() {
	register(func(o *Options) *Format {
		c := CaptionOptions{}
		own := &struct {
			IDKey    string `flag:"id-key" arg:"NAME" usage:"key of the image id in a .json" empty:"cocoid or filename" group:"Other sources"`
			Captions int    `flag:"captions" min:"0" usage:"take only the first N captions of each image in a .json; 0 takes all" group:"Other sources"`
		}{}
		return &Format{Kind: ".json",
			Help: `captions and splits as dataset_flickr30k.json has them: {split}_caps.txt and {split}_ids.txt of train
(with restval), dev and test`,
			Takes: "split skip-broken",
			Own:   own,
			Check: func() error {
				c = CaptionOptions{Path: o.Sources[0], Out: o.Out, Splits: o.Splits, IDKey: own.IDKey,
					Captions: own.Captions, SkipBroken: o.SkipBroken, Force: o.Force}
				return c.Validate()
			},
			Run: func(Progress) (*Report, error) { return Captions(c) }}
	})
}

// CaptionOptions describes a conversion of captions and splits in Karpathy's JSON (cs.stanford.edu/people/karpathy/
// deepimagesent): {"images": [{"filename", "split", "sentences": [{"raw", "tokens"}], "imgid", "cocoid"}]}. The format
// of MSR-VTT is read too: {"videos": [{"video_id", "split"}], "sentences": [{"video_id", "caption"}]}.
type CaptionOptions struct {
	Path string
	Out  string // folder, made when missing
	// Splits to write, in IDs the splits of the file that each is made of, separated by commas; empty is the usual
	// ones. None are the ones of usualSplits that the file has.
	Splits     []Split
	IDKey      string // key of an image that holds its id; empty is cocoid, video_id or filename
	Captions   int    // the first that many of each image; 0 is all
	SkipBroken bool   // leave images out that have no captions
	Force      bool   // replace files that exist
}

// usualSplits are the splits that are written and the splits of files of which they are made. The 30,504 images of
// COCO's restval belong to train, as in VSE++ and SCAN.
var usualSplits = []struct {
	name   string
	of     []string
	choose bool // one of them: they are names of the same
}{
	{"train", []string{"train", "restval"}, false},
	{"dev", []string{"val", "dev", "valid", "validate", "validation"}, true},
	{"test", []string{"test"}, false},
}

// Validate returns an error that names the first field that cannot be used.
func (o *CaptionOptions) Validate() error {
	if o.Captions < 0 {
		return fmt.Errorf("convert: captions for an image: expected a whole number >= 0, found %d", o.Captions)
	}
	return checkNames(o.Out, o.Splits)
}

// captioned is an image, or a video, with its captions.
type captioned struct {
	id, split string
	captions  []string
	fault     error // why it cannot be used
}

// Captions writes {split}_caps.txt, a caption a line, and {split}_ids.txt: an id for each image where all of the split
// have the same number of captions, otherwise one for each caption. The order is the order of the file.
func Captions(o CaptionOptions) (*Report, error) {
	err := o.Validate()
	if err != nil {
		return nil, err
	}
	images, err := readCaptioned(o.Path, o.IDKey)
	rep := &Report{}
	if err == nil {
		err = o.write(images, rep)
	}
	if err != nil {
		return nil, fmt.Errorf("convert: %w", err)
	}
	return rep, nil
}

func (o *CaptionOptions) write(images []captioned, rep *Report) error {
	count := map[string]int{} // images of each split of the file
	for _, im := range images {
		count[im.split]++
	}
	splits, err := o.splits(count)
	if err != nil {
		return fmt.Errorf("%s: %w", o.Path, err)
	}
	if err := atomicfile.MkdirAll(o.Out); err != nil {
		return err
	}
	set := &atomicfile.Set{}
	defer set.Abort()
	for _, s := range splits {
		if err := o.writeSplit(set, s.Name, strings.Split(s.IDs, ","), images, rep); err != nil {
			return err
		}
		for _, of := range strings.Split(s.IDs, ",") {
			delete(count, of)
		}
	}
	for _, left := range slices.Sorted(maps.Keys(count)) {
		rep.note("%d images of the split %q are in no split; --split NAME=%[2]s writes them", count[left], left)
	}
	return integrity.Commit(set)
}

// splits returns the splits to write with the splits of the file that they are made of, all of which are there.
func (o *CaptionOptions) splits(count map[string]int) (list []Split, err error) {
	asked := o.Splits
	if len(asked) == 0 {
		for _, u := range usualSplits {
			asked = append(asked, Split{Name: u.name})
		}
	}
	var has []string
	for _, name := range slices.Sorted(maps.Keys(count)) {
		has = append(has, fmt.Sprintf("%s (%d)", name, count[name]))
	}
	file := "it has " + strings.Join(has, ", ")
	for _, s := range asked {
		of := strings.Split(s.IDs, ",")
		if s.IDs == "" {
			of = nil
			for _, u := range usualSplits {
				if u.name != s.Name {
					continue
				}
				of = slices.DeleteFunc(slices.Clone(u.of), func(name string) bool { return count[name] == 0 })
				if u.choose && len(of) > 1 {
					return nil, fmt.Errorf("images of the splits %s, which are names of the same; say which makes %s: "+
						"--split %[2]s=%[3]s", strings.Join(of, " and "), s.Name, of[0])
				}
			}
		}
		for _, name := range of {
			if count[name] == 0 {
				return nil, fmt.Errorf("no images of the split %q for %s; %s", name, s.Name, file)
			}
		}
		switch {
		case len(of) > 0:
			list = append(list, Split{s.Name, strings.Join(of, ",")})
		case len(o.Splits) > 0:
			return nil, fmt.Errorf("no images that make the split %s; %s: name them, --split %[1]s=NAME[,NAME]", s.Name,
				file)
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("no images of the splits train, val and test; %s: name them, --split train=NAME", file)
	}
	return list, nil
}

// writeSplit adds captions and ids of a split to a set.
func (o *CaptionOptions) writeSplit(set *atomicfile.Set, name string, of []string, images []captioned,
	rep *Report) error {
	var caps, each, ids strings.Builder // ids of each caption, and of each image
	least, most, captions := 0, 0, 0
	from := map[string]int{}
	for _, im := range images {
		if !slices.Contains(of, im.split) {
			continue
		}
		n := len(im.captions)
		if o.Captions > 0 && im.fault == nil {
			if n < o.Captions {
				im.fault = fmt.Errorf("%d captions, fewer than %d (--captions)", n, o.Captions)
			}
			n = min(n, o.Captions)
		}
		if im.fault != nil {
			t := Target{SkipBroken: o.SkipBroken}
			if err := t.broken(rep, im.id, o.Path, im.fault); err != nil {
				return err
			}
			continue
		}
		for _, c := range im.captions[:n] {
			caps.WriteString(c + "\n")
			each.WriteString(im.id + "\n")
		}
		ids.WriteString(im.id + "\n")
		if from[im.split]++; captions == 0 || n < least {
			least = n
		}
		captions, most = captions+n, max(most, n)
	}
	if captions == 0 {
		return fmt.Errorf("%s: split %s: no image with captions", o.Path, name)
	}
	text := fmt.Sprintf("%d each", least)
	if least < most {
		ids = each
		text = fmt.Sprintf("%d to %d each, so that %s_ids.txt has an id for each caption; --distinct makes one row of "+
			"features for each image of it", least, most, name)
	}
	var parts []string
	sum := 0
	for _, s := range of {
		parts, sum = append(parts, fmt.Sprintf("%d of %s", from[s], s)), sum+from[s]
	}
	rep.note("%s: %d images (%s), %d captions, %s", filepath.Join(o.Out, name+"_caps.txt"), sum,
		strings.Join(parts, ", "), captions, text)
	for _, file := range []struct{ end, text string }{{"_ids.txt", ids.String()}, {"_caps.txt", caps.String()}} {
		path := filepath.Join(o.Out, name+file.end)
		if err := free(path, o.Force); err != nil {
			return err
		}
		if err := set.Write(path, []byte(file.text)); err != nil {
			return err
		}
	}
	return nil
}

// captionReader reads a file of captions.
type captionReader struct {
	dec    *json.Decoder
	idKey  string
	images []captioned
	byID   map[string]int
	videos map[string][]string // captions by video
	hints  []string            // keys of the file
}

// maxCaptionFile bounds a file of captions in bytes; dataset_coco.json has 144 MB.
const maxCaptionFile = 256 << 20

// readCaptioned reads all images of a file.
func readCaptioned(name, idKey string) ([]captioned, error) {
	f, size, err := regular.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if size > maxCaptionFile {
		return nil, fmt.Errorf("%s: %w: %d bytes; expected captions and splits of at most %d", name, regular.ErrLarge,
			size, maxCaptionFile)
	}
	r := &captionReader{dec: json.NewDecoder(jsontext.Reader(f)), idKey: idKey, byID: map[string]int{},
		videos: map[string][]string{}}
	err = r.file()
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("the file ends within its JSON object: it is cut off")
	}
	if err != nil {
		err = fmt.Errorf("%s: at byte %d: %w", name, r.dec.InputOffset(), err)
		return nil, regular.Explain(err, name, regular.JSON)
	}
	return r.images, nil
}

var errSilent = errors.New("no sentences")

// errAnnotations names the file that has what COCO's annotations lack.
var errAnnotations = errors.New("COCO's annotations, which have no splits; Karpathy's dataset_coco.json has the same " +
	"captions with the splits that are used")

func (r *captionReader) file() error {
	start, err := r.dec.Token()
	if err != nil {
		return err
	}
	if start != json.Delim('{') {
		return fmt.Errorf("expected a JSON object with the key images, found %v", start)
	}
	for r.dec.More() {
		key, err := r.dec.Token()
		if err != nil {
			return err
		}
		name, _ := key.(string)
		if slices.Contains(r.hints, name) {
			return fmt.Errorf("the key %q stands twice", name)
		}
		r.hints = append(r.hints, name)
		switch name {
		case "images", "videos":
			err = r.list(r.image)
		case "sentences":
			err = r.list(r.sentence)
		default:
			err = r.dec.Decode(new(json.RawMessage))
		}
		if err != nil {
			return err
		}
	}
	if _, err := r.dec.Token(); err != nil {
		return err
	}
	for i := range r.images {
		if im := &r.images[i]; im.captions == nil && im.fault == nil {
			im.captions = r.videos[im.id]
			if len(im.captions) == 0 {
				im.fault = errSilent
			}
		}
	}
	switch {
	case slices.Contains(r.hints, "annotations"):
		return errAnnotations
	case len(r.images) == 0:
		return fmt.Errorf("no images: expected {\"images\": [{\"filename\", \"split\", \"sentences\"}]} of Karpathy, "+
			"found the keys %s", strings.Join(r.hints, ", "))
	}
	return nil
}

// list calls read for every object of a list.
func (r *captionReader) list(read func(o map[string]json.RawMessage) error) error {
	if start, err := r.dec.Token(); err != nil {
		return err
	} else if start != json.Delim('[') {
		return fmt.Errorf("%s: expected a list, found %v", r.hints[len(r.hints)-1], start)
	}
	for r.dec.More() {
		var o map[string]json.RawMessage
		err := r.dec.Decode(&o)
		if err == nil {
			err = read(o)
		}
		if err != nil {
			return err
		}
	}
	_, err := r.dec.Token()
	return err
}

// image reads an image, or a video.
func (r *captionReader) image(o map[string]json.RawMessage) error {
	if o["split"] == nil && o["file_name"] != nil {
		return errAnnotations
	}
	im := captioned{split: scalar(o["split"])}
	for _, key := range []string{r.idKey, "cocoid", "video_id", "filename"} {
		if im.id = scalar(o[key]); im.id != "" || key != "" && key == r.idKey {
			break
		}
	}
	if ext := strings.ToLower(path.Ext(im.id)); slices.Contains(append([]string{".tif", ".tiff", ".bmp"},
		pictures.Endings...), ext) {
		im.id = im.id[:len(im.id)-len(ext)]
	}
	n := len(r.images)
	switch {
	case im.split == "":
		return fmt.Errorf("image %d (%s) has no split", n, im.id)
	case im.id == "" && r.idKey != "":
		return fmt.Errorf("image %d has no %s, found the keys %s", n, r.idKey, strings.Join(slices.Sorted(maps.Keys(o)),
			", "))
	}
	if err := regular.CheckID(im.id); err != nil {
		return fmt.Errorf("image %d: %w", n, err)
	}
	if other, twice := r.byID[canonical(im.id)]; twice {
		return fmt.Errorf("images %d and %d have the same id %s; choose another key of an image with --id-key, of %s",
			other, n, im.id, strings.Join(slices.Sorted(maps.Keys(o)), ", "))
	}
	r.byID[canonical(im.id)] = n
	if raw, ok := o["sentences"]; ok {
		var sentences []sentence
		if err := jsontext.Unmarshal(raw, &sentences); err != nil {
			return fmt.Errorf("image %d (%s): sentences: %w", n, im.id, err)
		}
		im.captions = []string{}
		for i, s := range sentences {
			c := s.caption()
			if c == "" && im.fault == nil {
				im.fault = fmt.Errorf("sentence %d is empty", i)
			}
			im.captions = append(im.captions, c)
		}
		if len(sentences) == 0 {
			im.fault = errSilent
		}
	}
	r.images = append(r.images, im)
	return nil
}

// sentence of a list beside a sentence of the videos.
func (r *captionReader) sentence(o map[string]json.RawMessage) error {
	id, s := scalar(o["video_id"]), sentence{Raw: scalar(o["caption"])}
	if c := s.caption(); c != "" && id != "" {
		r.videos[id] = append(r.videos[id], c)
		return nil
	}
	return fmt.Errorf("a sentence without video_id or caption, found the keys %s", strings.Join(
		slices.Sorted(maps.Keys(o)), ", "))
}

// sentence is a caption: as it was written, or cut into words where that is missing.
type sentence struct {
	Raw    string   `json:"raw"`
	Tokens []string `json:"tokens"`
}

// caption returns the sentence as one line, with one blank between words.
func (s sentence) caption() string {
	blank := func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }
	if c := strings.Join(strings.FieldsFunc(s.Raw, blank), " "); c != "" {
		return c
	}
	return strings.Join(strings.FieldsFunc(strings.Join(s.Tokens, " "), blank), " ")
}

// scalar returns a string or a number of JSON as text; "" for anything else.
func scalar(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return strings.TrimSpace(s)
	}
	var n json.Number
	if json.Unmarshal(raw, &n) == nil {
		return n.String()
	}
	return ""
}
