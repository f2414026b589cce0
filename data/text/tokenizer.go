package text

import (
	"fmt"
	"io"
	"iter"
	"path/filepath"
)

// Tokenizer gives captions their ids: the Vocabulary of the GRU encoders, or the word pieces of BERT. It does not
// change once made and is safe for concurrent use.
type Tokenizer interface {
	// Len returns the number of ids.
	Len() int
	// Hash identifies the tokenizer: equal for equal words with equal ids.
	Hash() string
	// FileName returns the usual name of its file.
	FileName() string
	// Files returns that file, after the files that say how to read it.
	Files() []File
	// NewEncoder returns an encoder for one goroutine.
	NewEncoder() Encoder
	// SplitKnown splits a caption into words as the encoder does, and returns the words that the tokenizer has and the
	// words that it lacks.
	SplitKnown(caption string) (known, unknown []string)
}

// Coverage says how many of the words of captions a tokenizer has.
type Coverage struct{ Words, Unknown int }

// manyUnknown is the share of unknown words above which Check warns.
const manyUnknown = 0.2

// CoverageOf counts the words of captions and those that a tokenizer lacks.
func CoverageOf(captions iter.Seq[string], l Tokenizer) (c Coverage) {
	encoder, ids := l.NewEncoder(), []int32(nil)
	for caption := range captions {
		var words, unknown int
		ids, words, unknown = encoder.Append(ids[:0], caption)
		c.Add(words, unknown)
	}
	return c
}

// Add adds the words of a caption and the number of unknown words among them.
func (c *Coverage) Add(words, unknown int) { c.Words, c.Unknown = c.Words+words, c.Unknown+unknown }

// Percent returns the share of unknown words in percent.
func (c Coverage) Percent() float64 { return 100 * float64(c.Unknown) / float64(max(c.Words, 1)) }

// Check returns an error if the tokenizer has none of the words, because all captions look the same then, and a warning
// if it lacks many.
func (c Coverage) Check() (warning, err error) {
	const ask = "is the vocabulary from another data set or language? are words separated by blanks?"
	switch {
	case c.Words > 0 && c.Unknown == c.Words:
		return nil, fmt.Errorf("all %d words of the captions are unknown; %s build one with `vsetrain data vocab`, or "+
			"name the right one with --vocab or data.vocab", c.Words, ask)
	case float64(c.Unknown) > manyUnknown*float64(c.Words):
		return fmt.Errorf("%.1f %% of the words are unknown; %s", c.Percent(), ask), nil
	}
	return nil, nil
}

// File is a file to write.
type File struct {
	Name  string
	Write func(io.Writer) error
}

// SaveTokenizer writes the files of a tokenizer into a folder, each complete or not at all.
func SaveTokenizer(dir string, l Tokenizer) error {
	for _, f := range l.Files() {
		if err := save(filepath.Join(dir, f.Name), f.Write); err != nil {
			return err
		}
	}
	return nil
}

// Encoder encodes captions. It allocates nothing once it has grown, except for captions with quotation marks or outside
// ASCII.
type Encoder interface {
	// Append appends the ids of a caption to dst, the ids at its start and end included. words is the number of its
	// words, unknown how many of them the tokenizer lacks.
	Append(dst []int32, caption string) (ids []int32, words, unknown int)
	// AppendAugmented is Append with size augmentation (AugmentIDs): words are masked, replaced or dropped.
	AppendAugmented(dst []int32, caption string, draws RandomSource) (ids []int32)
}

// FileName implements Tokenizer.
func (v *Vocabulary) FileName() string { return "vocab.json" }

// Files implements Tokenizer.
func (v *Vocabulary) Files() []File { return []File{{v.FileName(), v.encode}} }

// NewEncoder implements Tokenizer.
func (v *Vocabulary) NewEncoder() Encoder { return &wordEncoder{v: v} }

// SplitKnown implements Tokenizer.
func (v *Vocabulary) SplitKnown(caption string) (known, unknown []string) {
	for _, w := range new(WordSplitter).Words(caption) {
		if _, ok := v.ids[string(w)]; ok {
			known = append(known, string(w))
		} else {
			unknown = append(unknown, string(w))
		}
	}
	return known, unknown
}

// wordEncoder encodes with a Vocabulary. Augmentation includes <start> and <end>. A masked word has the id Len, <mask>;
// a random word may have it too, as in the reference.
type wordEncoder struct {
	v   *Vocabulary
	tok WordSplitter
	ids []int32
}

func (c *wordEncoder) Append(dst []int32, caption string) (ids []int32, words, unknown int) {
	n := len(dst)
	dst, unknown = c.v.AppendCaption(dst, &c.tok, caption)
	return dst, len(dst) - n - 2, unknown
}

func (c *wordEncoder) AppendAugmented(dst []int32, caption string, draws RandomSource) []int32 {
	c.ids, _ = c.v.AppendCaption(c.ids[:0], &c.tok, caption)
	return AugmentIDs(dst, c.ids, int32(c.v.Len()), c.v.Len()+1, draws)
}
