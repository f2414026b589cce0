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

	"vsetrain/internal/regular"
)

// Judgements say which captions are right for an image and which images for a caption, beyond the k captions that were written for it. Both
// directions are lists of their own, because people judge what a network retrieved.
type Judgements struct {
	Name     string // of their files, such as eccv
	I2T, T2I Relevance
}

// The names of the two directions, in file names and as keys of one file for both.
const (
	imageToCaption = "image_to_caption"
	captionToImage = "caption_to_image"
)

// FindJudgements lists the judgements that a path names: each is one file, or the pair of files for both directions.
//
//	DIR                       every pair NAME_image_to_caption.json, NAME_caption_to_image.json in it, by name
//	NAME_image_to_caption.json, NAME_caption_to_image.json     the pair of it
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
				return nil, fmt.Errorf("judgements %s: the other direction is missing: expected %s beside it", path, pair[1-i])
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
		return nil, fmt.Errorf("judgements %s: no judgements in this folder: expected files NAME_%s.json and NAME_%s.json", path, imageToCaption, captionToImage)
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

// globQuote escapes what filepath.Glob would take for a pattern.
func globQuote(dir string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(dir)
}

// ReadJudgements reads one of the lists of files that FindJudgements returns. Every id must be one of the split's; lists must not be empty, nor
// name a positive twice. Ids are strings or numbers, which mean the same.
func ReadJudgements(files []string, ids *IDs) (*Judgements, error) {
	j := &Judgements{Name: judgementsName(files[0])}
	both := []direction{
		{&j.I2T, "image", "caption", ids.image, ids.caption, ids},
		{&j.T2I, "caption", "image", ids.caption, ids.image, ids},
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
				return fmt.Errorf("key %q; expected %q and %q, or files NAME_%s.json and NAME_%s.json", key, imageToCaption, captionToImage, imageToCaption, captionToImage)
			}
			if seen[key] {
				return fmt.Errorf("key %q stands there twice", key)
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

// judgementsName is the name of judgements in tables.
func judgementsName(file string) string {
	name := strings.TrimSuffix(filepath.Base(file), ".json")
	if short := strings.TrimRight(strings.TrimSuffix(name, imageToCaption), "_-."); short != "" {
		return short
	}
	return name
}

// direction reads the lists of one direction.
type direction struct {
	into              *Relevance
	query, candidate  string
	queryAt, answerAt func(id string) (int32, bool)
	ids               *IDs
}

func (d *direction) read(dec *json.Decoder) error {
	unknown, total := 0, 0
	first := ""
	judged := map[int32]bool{}
	err := object(dec, func(key string) error {
		var list idList
		if err := dec.Decode(&list); err != nil {
			return fmt.Errorf("%s %s: %w", d.query, key, err)
		}
		if len(list) == 0 {
			return fmt.Errorf("%s %s has an empty list of positives; remove it, or name what answers it", d.query, key)
		}
		total++
		note := func(kind, id string) {
			if unknown++; first == "" {
				first = kind + " " + id
			}
		}
		q, known := d.queryAt(key)
		if !known {
			note(d.query, key)
			return nil
		}
		if judged[q] {
			return fmt.Errorf("%s %s stands there twice", d.query, key)
		}
		judged[q] = true
		positives, missing := make([]int32, 0, len(list)), ""
		for _, id := range list {
			c, known := d.answerAt(id)
			if !known {
				missing = id
				break
			}
			positives = append(positives, c)
		}
		if missing != "" {
			note(d.candidate, missing)
			return nil
		}
		sorted := slices.Sorted(slices.Values(positives))
		for i := 1; i < len(sorted); i++ {
			if sorted[i] == sorted[i-1] {
				return fmt.Errorf("%s %s lists %s %s twice", d.query, key, d.candidate, list[slices.Index(positives, sorted[i])])
			}
		}
		d.into.add(q, positives)
		return nil
	})
	switch {
	case err != nil:
		return err
	case total == 0:
		return fmt.Errorf("no judgements: the object of %ss is empty", d.query)
	case unknown > 0:
		return fmt.Errorf("%s is not in %s, nor what %d of the %d %ss need; its images are named like %q and its captions like %q: "+
			"are these judgements of another split (--split), or is a file of ids missing?", first, d.ids.Split, unknown, total, d.query, d.ids.Images[0], d.ids.Captions[0])
	}
	return nil
}

// idList is a list of ids, strings or whole numbers.
type idList []string

func (l *idList) UnmarshalJSON(b []byte) error {
	var items []json.RawMessage
	if err := json.Unmarshal(b, &items); err != nil {
		return fmt.Errorf("expected a list of ids, found %.40s", b)
	}
	for _, item := range items {
		id := string(item)
		if len(item) > 0 && item[0] == '"' {
			if err := json.Unmarshal(item, &id); err != nil {
				return err
			}
		} else if _, err := strconv.ParseInt(id, 10, 64); err != nil {
			return fmt.Errorf("expected an id, a string or a whole number, found %.40s", item)
		}
		*l = append(*l, id)
	}
	return nil
}

// readJSON reads a file with one JSON value. Errors name file and line.
func readJSON(path string, read func(*json.Decoder) error) error {
	f, _, err := regular.Open(path)
	if err != nil {
		return fmt.Errorf("judgements: %w", err)
	}
	defer f.Close()
	lines := &lineReader{r: f}
	dec := json.NewDecoder(lines)
	err = read(dec)
	if err == nil {
		if _, more := dec.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("expected one JSON object and nothing behind it")
		}
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		err = errors.New("the file ends within its JSON object: it is cut off")
	}
	if err != nil {
		return fmt.Errorf("judgements %s:%d: %w", path, lines.line(dec.InputOffset()), err)
	}
	return nil
}

// object reads a JSON object and hands every key to value, which must read the value.
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

// lineReader remembers where lines end.
type lineReader struct {
	r    io.Reader
	at   int64
	ends []int64
}

func (l *lineReader) Read(p []byte) (int, error) {
	n, err := l.r.Read(p)
	for rest, from := p[:n], l.at; ; {
		i := bytes.IndexByte(rest, '\n')
		if i < 0 {
			break
		}
		from += int64(i + 1)
		l.ends = append(l.ends, from)
		rest = rest[i+1:]
	}
	l.at += int64(n)
	return n, err
}

// line returns the 1-based line of an offset.
func (l *lineReader) line(offset int64) int {
	n, found := slices.BinarySearch(l.ends, offset)
	if found {
		n++
	}
	return n + 1
}

// readWhole decodes a JSON file.
func readWhole(path string, v any) error {
	return readJSON(path, func(dec *json.Decoder) error { return dec.Decode(v) })
}
