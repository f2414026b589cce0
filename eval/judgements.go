package eval

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"vsetrain/internal/files/jsontext"
	"vsetrain/internal/files/regular"
)

// Judgements say which captions are right for an image and which images are right for a caption, beyond the captions
// that were written for the image. The two directions have separate lists, because people judged what networks
// retrieved.
type Judgements struct {
	Name     string // from the file names, such as eccv
	I2T, T2I Relevance
}

// The names of the two directions, in file names and as keys of a file with both directions.
const (
	imageToCaption = "image_to_caption"
	captionToImage = "caption_to_image"
)

// FindJudgements lists the judgements at a path. Each is one file, or a pair of files for the two directions.
//
//	DIR                       every pair NAME_image_to_caption.json, NAME_caption_to_image.json in it, sorted by name
//	NAME_image_to_caption.json, NAME_caption_to_image.json     the pair with this file
//	FILE.json                 one file {"image_to_caption": {...}, "caption_to_image": {...}}
func FindJudgements(path string) ([][]string, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("judgements: %w", err)
	}
	if !st.IsDir() {
		for i, d := range []string{imageToCaption, captionToImage} {
			prefix, ok := strings.CutSuffix(path, d+".json")
			if !ok {
				continue
			}
			pair := []string{prefix + imageToCaption + ".json", prefix + captionToImage + ".json"}
			if _, err := os.Stat(pair[1-i]); err != nil {
				return nil, fmt.Errorf("judgements %s: the other direction is missing: expected %s beside it", path,
					pair[1-i])
			}
			return [][]string{pair}, nil
		}
		return [][]string{{path}}, nil
	}
	firsts, err := filepath.Glob(filepath.Join(globQuote(path), "*"+imageToCaption+".json"))
	if err != nil {
		return nil, fmt.Errorf("judgements: %w", err)
	}
	if len(firsts) == 0 {
		return nil, fmt.Errorf("judgements %s: no judgements in this folder: expected files NAME_%s.json and "+
			"NAME_%s.json", path, imageToCaption, captionToImage)
	}
	var sets [][]string
	for _, first := range firsts {
		pair, err := FindJudgements(first)
		if err != nil {
			return nil, err
		}
		sets = append(sets, pair...)
	}
	return sets, nil
}

// globQuote escapes the characters that filepath.Glob takes for a pattern.
func globQuote(dir string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(dir)
}

// absentLimit is the fraction of positives that may be absent from the split. Two of the 22,550 positives of ECCV
// Caption are absent: they are sixth captions of images with five captions in the split.
const absentLimit = 0.001

// ReadJudgements reads one of the lists of files that FindJudgements returns. Every query must be in the split and have
// a positive in the split; at most one positive in a thousand may be absent. A list of positives must not be empty or
// name a positive twice. Ids are strings or numbers: "7" and 7 are the same id.
func ReadJudgements(files []string, ids *IDs) (*Judgements, error) {
	j := &Judgements{Name: judgementsName(files[0])}
	both := []direction{
		{&j.I2T, "image", "caption", ids.images, ids.captions, ids},
		{&j.T2I, "caption", "image", ids.captions, ids.images, ids},
	}
	if len(files) == 2 {
		for i := range both {
			if err := readJSON(files[i], both[i].read); err != nil {
				return nil, err
			}
		}
		return j, nil
	}
	seen := map[string]bool{}
	err := readJSON(files[0], func(dec *json.Decoder) error {
		return object(dec, func(key string) error {
			i := slices.Index([]string{imageToCaption, captionToImage}, key)
			if i < 0 {
				return fmt.Errorf("key %q; expected %q and %q, or files NAME_%s.json and NAME_%s.json", key,
					imageToCaption, captionToImage, imageToCaption, captionToImage)
			}
			seen[key] = true
			return both[i].read(dec)
		})
	})
	if err != nil {
		return nil, err
	}
	for _, key := range []string{imageToCaption, captionToImage} {
		if !seen[key] {
			return nil, fmt.Errorf("judgements %s: no %q; expected both directions", files[0], key)
		}
	}
	return j, nil
}

// judgementsName returns the name of judgements in tables.
func judgementsName(file string) string {
	name := strings.TrimSuffix(filepath.Base(file), ".json")
	if short := strings.TrimRight(strings.TrimSuffix(name, imageToCaption), "_-."); short != "" {
		return short
	}
	return name
}

// direction reads the lists of one direction.
type direction struct {
	into             *Relevance
	query, candidate string // "image" or "caption"
	queries, answers numbers
	ids              *IDs
}

func (d *direction) read(dec *json.Decoder) error {
	var c lists
	judged := map[int32]bool{}
	err := object(dec, func(key string) error {
		var list idList
		if err := dec.Decode(&list); err != nil {
			return fmt.Errorf("%s %s: %w", d.query, key, err)
		}
		if len(list) == 0 {
			return fmt.Errorf("%s %s has an empty list of positives; remove it, or add its positives", d.query, key)
		}
		positives := make([]int32, 0, len(list))
		for _, id := range list {
			if at, known := d.answers.of(id); known {
				positives = append(positives, at)
			} else {
				c.unknown(d.candidate, id)
			}
		}
		if i := firstTwice(list, positives, d.answers); i >= 0 {
			return fmt.Errorf("%s %s lists %s %s twice", d.query, key, d.candidate, list[i])
		}
		c.queries++
		c.positives += len(list)
		c.absent += len(list) - len(positives)
		q, known := d.queries.of(key)
		if !known {
			c.unknown(d.query, key)
		}
		if !known || len(positives) == 0 {
			c.lost++
			return nil
		}
		if judged[q] {
			return fmt.Errorf("%s %s is listed twice", d.query, key)
		}
		judged[q] = true
		d.into.add(q, positives, len(list)-len(positives))
		return nil
	})
	switch {
	case err != nil:
		return err
	case c.queries == 0:
		return fmt.Errorf("no judgements: the object of %ss is empty", d.query)
	case c.lost > 0 || float64(c.absent) > absentLimit*float64(c.positives):
		return fmt.Errorf("%s is not in %s: it lacks %d of the %d %ss, or all their positives, and %d of the %d "+
			"positives; its images are named like %q and its captions like %q: are these judgements for another split "+
			"(--split), or is a file of ids missing?", c.first, d.ids.Split, c.lost, c.queries, d.query, c.absent,
			c.positives, d.ids.Images[0], d.ids.Captions[0])
	}
	return nil
}

// lists counts the ids of a direction, and those that the split lacks.
type lists struct {
	queries, lost     int
	positives, absent int
	first             string // the first unknown id
}

func (c *lists) unknown(kind, id string) {
	if c.first == "" {
		c.first = kind + " " + id
	}
}

// firstTwice returns the index of an id that a list holds twice, -1 if there is none. positives are the numbers of the
// known ids, in the order of the list.
func firstTwice(list idList, positives []int32, known numbers) int {
	sorted := slices.Sorted(slices.Values(positives))
	for i := 1; i < len(sorted); i++ {
		if sorted[i] == sorted[i-1] {
			return slices.IndexFunc(list, func(id string) bool { at, ok := known.of(id); return ok && at == sorted[i] })
		}
	}
	if len(list) == len(positives) {
		return -1
	}
	seen := map[string]bool{}
	for i, id := range list {
		if _, ok := known.of(id); ok {
			continue
		}
		if seen[id] {
			return i
		}
		seen[id] = true
	}
	return -1
}

// idList is a list of ids, strings or whole numbers.
type idList []string

// UnmarshalJSON parses lists of numbers itself, because lists of plausible matches hold millions of them. It leaves
// lists with strings to encoding/json.
func (l *idList) UnmarshalJSON(b []byte) error {
	inner, opened := bytes.CutPrefix(bytes.TrimSpace(b), []byte("["))
	inner, closed := bytes.CutSuffix(inner, []byte("]"))
	if !opened || !closed {
		if string(b) == "null" {
			return nil
		}
		return fmt.Errorf("expected a list of ids, found %.40s", b)
	}
	if bytes.IndexByte(inner, '"') >= 0 {
		return l.mixed(b)
	}
	*l = make(idList, 0, bytes.Count(inner, []byte(","))+1)
	for item := range bytes.SplitSeq(inner, []byte(",")) {
		if item = bytes.TrimSpace(item); len(item) == 0 && cap(*l) == 1 {
			return nil // an empty list
		}
		if err := l.add(string(item)); err != nil {
			return err
		}
	}
	return nil
}

func (l *idList) mixed(b []byte) error {
	var items []json.RawMessage
	if err := json.Unmarshal(b, &items); err != nil {
		return fmt.Errorf("expected a list of ids, found %.40s", b)
	}
	for _, item := range items {
		if item[0] != '"' {
			if err := l.add(string(item)); err != nil {
				return err
			}
			continue
		}
		var id string
		if err := json.Unmarshal(item, &id); err != nil {
			return err
		}
		*l = append(*l, id)
	}
	return nil
}

// add appends a number.
func (l *idList) add(number string) error {
	if _, err := strconv.ParseInt(number, 10, 64); err != nil {
		return fmt.Errorf("expected an id, a string or a whole number, found %.40s", number)
	}
	*l = append(*l, number)
	return nil
}

// readJSON reads a file with one JSON value. Errors name file and line.
func readJSON(path string, read func(*json.Decoder) error) error {
	f, _, err := regular.Open(path)
	if err != nil {
		return fmt.Errorf("judgements: %w", err)
	}
	defer f.Close()
	lines := jsontext.NewLines(f)
	dec := json.NewDecoder(lines)
	err = read(dec)
	if err == nil {
		if _, more := dec.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("expected one JSON object and nothing after it")
		}
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		err = errors.New("the file ends within its JSON object: it is truncated")
	}
	if err != nil {
		return regular.Explain(fmt.Errorf("judgements %s:%d: %w", path, lines.Line(dec.InputOffset()), err), path,
			regular.JSON)
	}
	return nil
}

// object reads a JSON object and passes every key to value, which must read the value.
func object(dec *json.Decoder, value func(key string) error) error {
	start, err := dec.Token()
	if err != nil {
		return err
	}
	if start != json.Delim('{') {
		return fmt.Errorf("expected an object {\"id\": [ids]}, found %v", start)
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return err
		}
		if err := value(key.(string)); err != nil {
			return err
		}
	}
	_, err = dec.Token()
	return err
}
