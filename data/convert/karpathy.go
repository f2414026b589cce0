package convert

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode"

	"vsetrain/internal/files/jsontext"
	"vsetrain/internal/files/pictures"
	"vsetrain/internal/files/regular"
)

// Captions and splits come from Karpathy's JSON (cs.stanford.edu/people/karpathy/deepimagesent): {"images":
// [{"filename", "split", "sentences": [{"raw", "tokens"}], "imgid", "cocoid"}]}, or from MSR-VTT's: {"videos":
// [{"video_id", "split"}], "sentences": [{"video_id", "caption"}]}.

// captioned is an image, or a video, with its captions.
type captioned struct {
	id, split string
	captions  []string
	fault     error // the reason why it cannot be used
}

// captionReader reads a file of captions.
type captionReader struct {
	dec    *json.Decoder
	idKey  string
	images []captioned
	byID   map[string]int
	videos map[string][]string // captions by video
	keys   []string            // of the file
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
		err = errors.New("the file ends within its JSON object: it is truncated")
	}
	if err != nil {
		err = fmt.Errorf("%s: at byte %d: %w", name, r.dec.InputOffset(), err)
	}
	return r.images, regular.Explain(err, name, regular.JSON)
}

// errAnnotations is the error of COCO's annotations.
var errAnnotations = errors.New("COCO's annotations, which have no splits; use Karpathy's dataset_coco.json, which " +
	"has the same captions and the usual splits")

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
		if slices.Contains(r.keys, name) {
			return fmt.Errorf("the key %q occurs twice", name)
		}
		r.keys = append(r.keys, name)
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
		im := &r.images[i]
		if im.captions == nil {
			im.captions = r.videos[im.id]
		}
		if len(im.captions) == 0 {
			im.fault = errors.New("no sentences")
		}
	}
	switch {
	case slices.Contains(r.keys, "annotations"):
		return errAnnotations
	case len(r.images) == 0:
		return fmt.Errorf("no images: expected {\"images\": [{\"filename\", \"split\", \"sentences\"}]} of Karpathy, "+
			"found the keys %s", strings.Join(r.keys, ", "))
	}
	return nil
}

// list calls read for every object of a list.
func (r *captionReader) list(read func(o map[string]json.RawMessage) error) error {
	if start, err := r.dec.Token(); err != nil {
		return err
	} else if start != json.Delim('[') {
		return fmt.Errorf("%s: expected a list, found %v", r.keys[len(r.keys)-1], start)
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
		return fmt.Errorf("image %d has no %s, found the keys %s", n, r.idKey, keysOf(o))
	}
	if err := regular.CheckID(im.id); err != nil {
		return fmt.Errorf("image %d: %w", n, err)
	}
	if other, twice := r.byID[canonical(im.id)]; twice {
		return fmt.Errorf("images %d and %d have the same id %s; choose another key of an image with --id-key, of %s",
			other, n, im.id, keysOf(o))
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
	}
	r.images = append(r.images, im)
	return nil
}

// sentence reads a sentence of a video.
func (r *captionReader) sentence(o map[string]json.RawMessage) error {
	id, s := scalar(o["video_id"]), sentence{Raw: scalar(o["caption"])}
	if c := s.caption(); c != "" && id != "" {
		r.videos[id] = append(r.videos[id], c)
		return nil
	}
	return fmt.Errorf("a sentence without video_id or caption, found the keys %s", keysOf(o))
}

func keysOf(o map[string]json.RawMessage) string {
	return strings.Join(slices.Sorted(maps.Keys(o)), ", ")
}

// sentence is a caption as text, or split into words.
type sentence struct {
	Raw    string   `json:"raw"`
	Tokens []string `json:"tokens"`
}

// caption returns the sentence as one line, with one space between words.
func (s sentence) caption() string {
	blank := func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }
	line := func(text string) string { return strings.Join(strings.FieldsFunc(text, blank), " ") }
	return cmp.Or(line(s.Raw), line(strings.Join(s.Tokens, " ")))
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
