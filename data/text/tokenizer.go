package text

import (
	"crypto/sha256"
	"encoding/hex"
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
	// FileName is the usual name of the file it is kept in. Files are that file, and in front of it those that say how
	// it is read.
	FileName() string
	Files() []File
	// NewEncoder returns an encoder for one goroutine.
	NewEncoder() Encoder
	// SplitKnown cuts a caption into words as the encoder does, and tells those that the tokenizer has from those it
	// lacks.
	SplitKnown(caption string) (known, unknown []string)
}

// Coverage says how many of the words of captions a tokenizer has.
type Coverage struct{ Words, Unknown int }

// manyUnknown is the share of unknown words from which a tokenizer hardly belongs to the captions.
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

// Add counts the words of a caption, and the ones among them that are unknown.
func (c *Coverage) Add(words, unknown int) { c.Words, c.Unknown = c.Words+words, c.Unknown+unknown }

// Percent is the share of unknown words.
func (c Coverage) Percent() float64 { return 100 * float64(c.Unknown) / float64(max(c.Words, 1)) }

// Check returns an error where the tokenizer has none of the words, since all captions are the same then, and a warning
// where it lacks many.
func (c Coverage) Check() (warning, err error) {
	const ask = "is the vocabulary that of another data set or language? are words separated by blanks?"
	switch {
	case c.Words > 0 && c.Unknown == c.Words:
		return nil, fmt.Errorf("all %d words of the captions are unknown; %s build one with `vsetrain data vocab`, or "+
			"name the right one with --vocab or data.vocab", c.Words, ask)
	case float64(c.Unknown) > manyUnknown*float64(c.Words):
		return fmt.Errorf("%.1f %% of the words are unknown; %s", c.Percent(), ask), nil
	}
	return nil, nil
}

// File is a file that is to be written.
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
	// AppendAugmented is Append with the size augmentation of VSE-infinity: words are masked, replaced or dropped. At
	// least one stays.
	AppendAugmented(dst []int32, caption string, draws RandomSource) (ids []int32, words, unknown int)
}

// RandomSource are uniform draws: in [0, 1), and of numbers in [0, n).
type RandomSource interface {
	Float64() float64
	IntN(n int) int
}

// sampler hands the draws of one caption to the functions of augment.go, without allocating.
type sampler struct {
	draws  RandomSource
	draw   Draw
	random func() int32
}

// newSampler draws random ids below n.
func newSampler(n int) *sampler {
	s := &sampler{}
	s.draw = func() float64 { return s.draws.Float64() }
	s.random = func() int32 { return int32(s.draws.IntN(n)) }
	return s
}

// FileName implements Tokenizer.
func (v *Vocabulary) FileName() string { return "vocab.json" }

// Files implements Tokenizer.
func (v *Vocabulary) Files() []File { return []File{{v.FileName(), v.encode}} }

// NewEncoder implements Tokenizer.
func (v *Vocabulary) NewEncoder() Encoder {
	return &wordEncoder{v: v, sampler: newSampler(v.Len() + 1)}
}

// SplitKnown implements Tokenizer.
func (v *Vocabulary) SplitKnown(caption string) (known, unknown []string) {
	for _, w := range wordTokenize(caption) {
		if _, ok := v.ids[w]; ok {
			known = append(known, w)
		} else {
			unknown = append(unknown, w)
		}
	}
	return known, unknown
}

// wordEncoder encodes with a Vocabulary. Augmentation includes <start> and <end>; a masked word has the id Len, <mask>,
// which a random one may have too, as in the reference.
type wordEncoder struct {
	v   *Vocabulary
	tok WordSplitter
	ids []int32
	*sampler
}

func (c *wordEncoder) Append(dst []int32, caption string) (ids []int32, words, unknown int) {
	n := len(dst)
	dst, unknown = c.v.AppendCaption(dst, &c.tok, caption)
	return dst, len(dst) - n - 2, unknown
}

func (c *wordEncoder) AppendAugmented(dst []int32, caption string, draws RandomSource) (ids []int32, words,
	unknown int) {
	c.ids, words, unknown = c.Append(c.ids[:0], caption)
	c.draws = draws
	return AugmentIDs(dst, c.ids, int32(c.v.Len()), c.draw, c.random), words, unknown
}

// BertTokenizer is the tokenizer of a BERT encoder: captions as [CLS], word pieces, [SEP]. A caption of more than Max
// ids, the positions of the encoder, is cut, [SEP] staying at its end.
type BertTokenizer struct {
	*WordPiece
	Max int // at least 3
}

// LoadBertTokenizer reads the vocab.txt of an encoder of the given number of positions.
func LoadBertTokenizer(path string, positions int) (*BertTokenizer, error) {
	if positions < 3 {
		return nil, fmt.Errorf("captions for %d positions, expected at least 3: [CLS], a word and [SEP]", positions)
	}
	v, err := LoadWordPiece(path)
	if err != nil {
		return nil, err
	}
	return &BertTokenizer{v, positions}, nil
}

// FileName implements Tokenizer.
func (b *BertTokenizer) FileName() string { return "vocab.txt" }

// Files implements Tokenizer.
func (b *BertTokenizer) Files() []File {
	return []File{{TokenizerConfig, b.writeNormalizer}, {b.FileName(), func(w io.Writer) error {
		_, err := w.Write(b.file)
		return err
	}}}
}

// Hash identifies the pieces, their order, and what becomes of letters.
func (v *WordPiece) Hash() string {
	h := sha256.New()
	io.WriteString(h, "word pieces\n")
	if v.Normalizer != uncased {
		fmt.Fprintf(h, "%+v\n", v.Normalizer)
	}
	h.Write(v.file)
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// NewEncoder implements Tokenizer.
func (b *BertTokenizer) NewEncoder() Encoder {
	return &pieceEncoder{b: b, sampler: newSampler(b.Len())}
}

// SplitKnown implements Tokenizer.
func (b *BertTokenizer) SplitKnown(caption string) (known, unknown []string) {
	var p Pieces
	p.basic.split(caption, b.Normalizer)
	for i := range p.basic.ends {
		w := p.basic.word(i)
		if _, ok := b.appendWord(nil, w); ok {
			known = append(known, string(w))
		} else {
			unknown = append(unknown, string(w))
		}
	}
	return known, unknown
}

// pieceEncoder encodes with word pieces. Augmentation leaves [CLS] and [SEP] alone; all pieces of a word share its
// fate.
type pieceEncoder struct {
	b      *BertTokenizer
	pieces Pieces
	*sampler
}

func (c *pieceEncoder) Append(dst []int32, caption string) (ids []int32, words, unknown int) {
	pieces, unknown := c.b.Split(&c.pieces, caption)
	start := len(dst)
	dst = append(dst, c.b.Cls)
	for _, w := range pieces {
		dst = append(dst, w...)
	}
	return c.end(dst, start), len(pieces), unknown
}

func (c *pieceEncoder) AppendAugmented(dst []int32, caption string, draws RandomSource) (ids []int32, words,
	unknown int) {
	pieces, unknown := c.b.Split(&c.pieces, caption)
	start := len(dst)
	c.draws = draws
	dst = augmentPieces(append(dst, c.b.Cls), pieces, c.b.Mask, c.draw, c.random)
	return c.end(dst, start), len(pieces), unknown
}

// end cuts a caption that began at start and adds [SEP].
func (c *pieceEncoder) end(dst []int32, start int) []int32 {
	return append(dst[:min(len(dst), start+c.b.Max-1)], c.b.Sep)
}
