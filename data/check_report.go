package data

import (
	"fmt"
	"slices"

	"vsetrain/internal/system/options"
)

// CheckOptions says what Check examines. The zero value examines all rows of all files.
type CheckOptions struct {
	PerImage     options.PerSplit // captions per image that the files must confirm
	FeatureDType string           // see OpenOptions

	// Vocab is a vocabulary file; "" and "auto" are vocab.json in the folder, if there is one.
	Vocab string

	// SampleRows is the approximate number of rows to examine in each array, spread evenly; 0 examines all.
	SampleRows int

	// Progress, if not nil, is called from time to time with the number of rows of a file that were scanned.
	Progress func(file string, done, total int)
}

// Report is what Check found in a folder.
type Report struct {
	Dir    string        `json:"dir"`
	Files  []FileReport  `json:"files"`
	Splits []SplitReport `json:"splits"`
	Vocab  *VocabReport  `json:"vocab,omitempty"`
	// Features names the published features that fit the arrays by name, type and shape (docs/reproduce.md); "" if none
	// do.
	Features string    `json:"published_features,omitempty"`
	Problems []Problem `json:"problems"`
}

// FileReport describes one file.
type FileReport struct {
	Name string `json:"name"`
	// captions, features, ids, changes, region counts, boxes, sizes, dependencies, word ids, semantics, vocabulary, id
	// mapping, other
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
	CaptionsPerImage int         `json:"captions_per_image"` // 0 if images differ, and in a split without captions
	FewestCaptions   int         `json:"fewest_captions"`    // of an image
	MostCaptions     int         `json:"most_captions"`
	Repeated         bool        `json:"repeated"`          // a feature row per caption rather than per image
	Added            int         `json:"added,omitempty"`   // images that are not in the feature file
	Removed          int         `json:"removed,omitempty"` // removed images of the feature file
	Regions          int         `json:"regions"`
	Dim              int         `json:"dim"`
	Lengths          LengthStats `json:"lengths"`
	Words            int         `json:"words"`
	Unknown          int         `json:"unknown"`      // words that the vocabulary lacks
	UnknownOnly      int         `json:"unknown_only"` // captions without any known word
}

// LengthStats describes the lengths of captions in words, without <start> and <end>.
type LengthStats struct {
	Min    int     `json:"min"`
	Median int     `json:"median"`
	Mean   float64 `json:"mean"`
	P99    int     `json:"p99"` // 99 of 100 captions are no longer
	Max    int     `json:"max"`
}

// VocabReport describes the vocabulary.
type VocabReport struct {
	Path  string `json:"path"`
	Words int    `json:"words"`
	Hash  string `json:"hash"`
}

// Problem is an error or a warning about a file, and what to do about it.
type Problem struct {
	Error  bool   `json:"error"` // false: a warning
	File   string `json:"file"`
	What   string `json:"what"`
	Remedy string `json:"remedy,omitempty"`
}

// OK reports whether no problem is an error.
func (r *Report) OK() bool {
	return !slices.ContainsFunc(r.Problems, func(p Problem) bool { return p.Error })
}

func (r *Report) fail(file, remedy, what string, args ...any) {
	r.Problems = append(r.Problems, Problem{true, file, fmt.Sprintf(what, args...), remedy})
}

func (r *Report) warn(file, remedy, what string, args ...any) {
	r.Problems = append(r.Problems, Problem{false, file, fmt.Sprintf(what, args...), remedy})
}
