package text

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"path/filepath"
	"unicode/utf8"

	"vsetrain/internal/files/regular"
)

// BertTokenizer is the tokenizer of a BERT encoder (google-research/bert, tokenization.py, WordpieceTokenizer): a
// caption becomes [CLS], word pieces, [SEP]. It cuts each word of the basic tokeniser into the longest pieces that the
// vocabulary has, from left to right; pieces after the first begin with ## in the file. A word that cannot be cut, or
// has more than 100 characters, is [UNK].
type BertTokenizer struct {
	// Max is the number of positions of the encoder, at least 3. A longer caption is cut, and [SEP] stays at its end.
	Max int
	// The ids of the special pieces; in bert-base-uncased 0, 100, 101, 102, 103.
	Pad, Unk, Cls, Sep, Mask int32

	first, later map[string]int32 // pieces at the start of a word, and after it without ##
	longest      int              // bytes of the longest piece
	n            int
	file         []byte // the pieces, each with a line feed

	Normalizer Normalizer
	foreign    string // the first piece that no text becomes by the normaliser of bert-base-uncased, "" without
}

const (
	maxPieceWord = 100      // characters
	maxPieceFile = 64 << 20 // bytes; the vocabulary of the multilingual BERT has 1 MB
)

// LoadBertTokenizer reads the vocab.txt of an encoder of the given number of positions: one piece a line, its id the
// number of the line from 0. The files beside it say what becomes of letters (readNormalizer).
func LoadBertTokenizer(path string, positions int) (*BertTokenizer, error) {
	if positions < 3 {
		return nil, fmt.Errorf("captions for %d positions, expected at least 3: [CLS], a word and [SEP]", positions)
	}
	b, err := regular.ReadFile(path, maxPieceFile, "vocab.txt")
	if err != nil {
		return nil, fmt.Errorf("word pieces: %w; vocab.txt belongs to the BERT weights", err)
	}
	var v *BertTokenizer
	if b, err = regular.UTF8(b); err == nil {
		v, err = decodePieces(b)
	}
	if err == nil {
		v.Max = positions
		v.Normalizer, err = v.readNormalizer(filepath.Dir(path))
	}
	if err != nil {
		return nil, regular.Explain(fmt.Errorf("word pieces %s: %w", path, err), path, regular.Text, regular.Table)
	}
	return v, nil
}

func decodePieces(b []byte) (*BertTokenizer, error) {
	v := &BertTokenizer{first: map[string]int32{}, later: map[string]int32{}, Normalizer: uncased}
	for line := range bytes.Lines(b) {
		line = bytes.TrimRight(line, "\r\n")
		piece, continued := bytes.CutPrefix(line, []byte("##"))
		into := v.first
		if continued && len(piece) > 0 {
			into = v.later
		} else {
			piece = line
		}
		if len(line) == 0 || !utf8.Valid(line) {
			return nil, fmt.Errorf("line %d: expected a piece in UTF-8, found %q", v.n+1, line)
		}
		if id, twice := into[string(piece)]; twice {
			return nil, fmt.Errorf("line %d: piece %q stands in line %d already", v.n+1, line, id+1)
		}
		into[string(piece)] = int32(v.n)
		if c := piece[0]; v.foreign == "" && c != '[' && c != '<' && isForeign(string(piece)) { // no [unused1] or <S>
			v.foreign = string(line)
		}
		v.longest = max(v.longest, len(piece))
		v.file = append(append(v.file, line...), '\n')
		v.n++
	}
	for _, s := range []struct {
		piece string
		id    *int32
	}{{"[PAD]", &v.Pad}, {"[UNK]", &v.Unk}, {"[CLS]", &v.Cls}, {"[SEP]", &v.Sep}, {"[MASK]", &v.Mask}} {
		id, ok := v.first[s.piece]
		if !ok {
			return nil, fmt.Errorf("no piece %s among %d; expected the vocab.txt of a BERT model", s.piece, v.n)
		}
		*s.id = id
	}
	return v, nil
}

// Len returns the number of pieces.
func (v *BertTokenizer) Len() int { return v.n }

// Hash identifies the pieces, their order, and what becomes of letters.
func (v *BertTokenizer) Hash() string {
	h := sha256.New()
	io.WriteString(h, "word pieces\n")
	if v.Normalizer != uncased {
		fmt.Fprintf(h, "%+v\n", v.Normalizer)
	}
	h.Write(v.file)
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// FileName implements Tokenizer.
func (v *BertTokenizer) FileName() string { return "vocab.txt" }

// Files implements Tokenizer.
func (v *BertTokenizer) Files() []File {
	return []File{{TokenizerConfig, v.writeNormalizer}, {v.FileName(), func(w io.Writer) error {
		_, err := w.Write(v.file)
		return err
	}}}
}

// SplitKnown implements Tokenizer.
func (v *BertTokenizer) SplitKnown(caption string) (known, unknown []string) {
	var b basic
	b.split(caption, v.Normalizer)
	for i := range b.ends {
		w := b.word(i)
		if _, ok := v.appendWord(nil, w); ok {
			known = append(known, string(w))
		} else {
			unknown = append(unknown, string(w))
		}
	}
	return known, unknown
}

// appendWord appends the pieces of a word and reports whether it can be cut.
func (v *BertTokenizer) appendWord(dst []int32, word []byte) ([]int32, bool) {
	if len(word) > maxPieceWord && utf8.RuneCount(word) > maxPieceWord {
		return dst, false
	}
	pieces := v.first
	for len(word) > 0 {
		n := min(len(word), v.longest)
		id, ok := pieces[string(word[:n])]
		for !ok && n > 1 {
			n--
			if n == len(word) || utf8.RuneStart(word[n]) {
				id, ok = pieces[string(word[:n])]
			}
		}
		if !ok {
			return dst, false
		}
		dst, word, pieces = append(dst, id), word[n:], v.later
	}
	return dst, true
}

// NewEncoder implements Tokenizer.
func (v *BertTokenizer) NewEncoder() Encoder { return &pieceEncoder{v: v} }

// pieceEncoder encodes with word pieces. Augmentation leaves [CLS] and [SEP] alone; all pieces of a word share its
// fate.
type pieceEncoder struct {
	v     *BertTokenizer
	basic basic
	ids   []int32
	words [][]int32
}

// split returns the ids of the pieces of each word, and how many words are [UNK]. The result is valid until the next
// call.
func (c *pieceEncoder) split(caption string) (words [][]int32, unknown int) {
	c.basic.split(caption, c.v.Normalizer)
	c.ids, c.words = c.ids[:0], c.words[:0]
	if n := len(c.basic.words) + 1; cap(c.ids) < n { // no word has more pieces than bytes: ids never move
		c.ids = make([]int32, 0, 2*n)
	}
	for i := range c.basic.ends {
		at := len(c.ids)
		var known bool
		if c.ids, known = c.v.appendWord(c.ids, c.basic.word(i)); !known {
			c.ids = append(c.ids[:at], c.v.Unk)
			unknown++
		}
		c.words = append(c.words, c.ids[at:len(c.ids):len(c.ids)])
	}
	return c.words, unknown
}

func (c *pieceEncoder) Append(dst []int32, caption string) (ids []int32, words, unknown int) {
	pieces, unknown := c.split(caption)
	start := len(dst)
	dst = append(append(dst, c.v.Cls), c.ids...)
	return c.end(dst, start), len(pieces), unknown
}

func (c *pieceEncoder) AppendAugmented(dst []int32, caption string, draws RandomSource) []int32 {
	pieces, _ := c.split(caption)
	start := len(dst)
	dst = augment(append(dst, c.v.Cls), len(pieces), func(i int) []int32 { return pieces[i] }, c.v.Mask, c.v.n, draws)
	return c.end(dst, start)
}

// end cuts a caption that began at start and adds [SEP].
func (c *pieceEncoder) end(dst []int32, start int) []int32 {
	return append(dst[:min(len(dst), start+c.v.Max-1)], c.v.Sep)
}
