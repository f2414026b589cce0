package data

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"vsetrain/data/text"
)

// CheckOptions says what Check looks at. The zero value examines every file wholly.
type CheckOptions struct {
	Open OpenOptions // captions per image and feature type to insist on; the other fields are not read

	// Vocab is a vocabulary file; "" and "auto" take vocab.json of the folder if there is one.
	Vocab string

	// SampleRows examines only about so many rows of each array, spread evenly; 0 examines all.
	SampleRows int

	// Workers is the number of goroutines that scan arrays; 0 is 2.
	Workers int

	// Progress, if not nil, is called now and then with the rows of a file that have been scanned.
	Progress func(file string, done, total int)
}

// Report is what Check found in a folder.
type Report struct {
	Dir    string        `json:"dir"`
	Files  []FileReport  `json:"files"`
	Splits []SplitReport `json:"splits"`
	Vocab  *VocabReport  `json:"vocab,omitempty"`
	// Features names the published features that the arrays may be, by name, type and shape (docs/reproduce.md); "" if
	// they are others.
	Features string    `json:"published_features,omitempty"`
	Problems []Problem `json:"problems"`
}

// FileReport describes one file.
type FileReport struct {
	Name string `json:"name"`
	// captions, features, ids, boxes, sizes, dependencies, word ids, semantics, vocabulary, id mapping, other
	Kind  string     `json:"kind"`
	Bytes int64      `json:"bytes"`
	DType string     `json:"dtype,omitempty"`
	Shape []int      `json:"shape,omitempty"`
	Lines int        `json:"lines,omitempty"`
	Scan  *ScanStats `json:"scan,omitempty"` // of floating-point arrays
}

// SplitReport describes a split as Open reads it.
type SplitReport struct {
	Name             string      `json:"name"`
	Captions         int         `json:"captions"` // in use
	Dropped          int         `json:"dropped"`  // left out at the end of the file, see OpenOptions.MaxCaptions
	Images           int         `json:"images"`
	CaptionsPerImage int         `json:"captions_per_image"`
	Repeated         bool        `json:"repeated"` // a feature row per caption rather than per image
	Regions          int         `json:"regions"`
	Dim              int         `json:"dim"`
	Lengths          LengthStats `json:"lengths"`
	Words            int         `json:"words"`
	Unknown          int         `json:"unknown"`      // words that the vocabulary lacks
	UnknownOnly      int         `json:"unknown_only"` // captions without any known word
}

// VocabReport describes the vocabulary.
type VocabReport struct {
	Path  string `json:"path"`
	Words int    `json:"words"`
	Hash  string `json:"hash"`
}

// Problem is one thing that is wrong, or looks wrong, and how to mend it.
type Problem struct {
	Error  bool   `json:"error"` // false: a warning
	File   string `json:"file"`
	What   string `json:"what"`
	Remedy string `json:"remedy,omitempty"`
}

// OK reports whether no problem is an error.
func (r *Report) OK() bool {
	for _, p := range r.Problems {
		if p.Error {
			return false
		}
	}
	return true
}

func (r *Report) fail(file, remedy, what string, args ...any) {
	r.Problems = append(r.Problems, Problem{true, file, fmt.Sprintf(what, args...), remedy})
}

func (r *Report) warn(file, remedy, what string, args ...any) {
	r.Problems = append(r.Problems, Problem{false, file, fmt.Sprintf(what, args...), remedy})
}

// Check examines every file of a data set. What is wrong with the files goes into the report; the error says only
// that the folder could not be read at all.
func Check(dir string, o CheckOptions) (*Report, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("data: %w; name the folder that holds train_caps.txt", err)
	}
	r := &Report{Dir: dir, Files: []FileReport{}, Splits: []SplitReport{}, Problems: []Problem{}}
	vocab := r.checkVocab(o.Vocab)
	names, err := Splits(dir)
	if err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	if len(names) == 0 {
		r.fail(dir, "name the folder that holds train_caps.txt, train_ims.npy and train_ids.txt, or write one with "+
			"`vsetrain data convert` or `vsetrain data synth`", "no split: there is no file named *_caps.txt")
	}
	captions := map[string]int{}
	for _, name := range names {
		if s := r.checkSplit(name, vocab, o); s != nil {
			captions[name] = s.layout.captions
			s.Close()
		}
	}
	for _, e := range entries {
		if e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		r.checkFile(e, captions, o)
	}
	r.Features = recognise(r.Files)
	sort.SliceStable(r.Problems, func(i, j int) bool { return r.Problems[i].Error && !r.Problems[j].Error })
	return r, nil
}

func (r *Report) checkVocab(path string) *text.Vocabulary {
	if path == "" || path == "auto" {
		path = filepath.Join(r.Dir, "vocab.json")
		if _, err := os.Stat(path); missing(err) {
			r.warn("vocab.json", "write it with `vsetrain data vocab`, or name the vocabulary",
				"no vocabulary, so unknown words are not counted")
			return nil
		}
	}
	v, err := text.LoadVocabulary(path)
	if err != nil {
		r.fail(path, "write the vocabulary again with `vsetrain data vocab`", "%v", err)
		return nil
	}
	r.Vocab = &VocabReport{path, v.Len(), v.Hash()}
	return v
}

// checkSplit opens a split and reads its captions; nil when it cannot be opened.
func (r *Report) checkSplit(name string, v *text.Vocabulary, o CheckOptions) *Split {
	s, err := Open(r.Dir, name, OpenOptions{CaptionsPerImage: o.Open.CaptionsPerImage,
		FeatureDType: o.Open.FeatureDType, AllowEmpty: true})
	if err != nil {
		r.fail(name, "", "%v", err) // the error names file and remedy
		return nil
	}
	sr := SplitReport{
		Name: name, Captions: s.n, Dropped: s.DroppedCaptions(), Images: s.NumImages(), CaptionsPerImage: s.k,
		Repeated: s.repeated, Regions: s.regions, Dim: s.dim,
	}
	r.checkCaptions(s, v, &sr)
	r.checkBoxes(s)
	if s.ids == nil {
		r.warn(name+"_ids.txt", "write one image id per line to name images in reports",
			"no ids file; images are known by their row")
	} else if n, line := s.ids.empty(s.ids.len()); n > 0 {
		r.fail(name+"_ids.txt", "write an image id on each line", "%d empty lines, the first is line %d", n, line)
	}
	r.Splits = append(r.Splits, sr)
	return s
}
