package text

import (
	"bytes"
	"fmt"
	"path/filepath"
	"unicode/utf8"

	"vsetrain/internal/files/regular"
)

// WordPiece is the vocabulary of BERT and its tokeniser (google-research/bert, tokenization.py, WordpieceTokenizer):
// each word of the basic tokeniser is cut into the longest pieces the vocabulary has, from left to right; pieces after
// the first begin with ## in the file. A word that cannot be cut, or has more than 100 characters, is [UNK]. It is safe
// for concurrent use.
type WordPiece struct {
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

// LoadWordPiece reads a vocab.txt: one piece a line, its id the number of the line from 0. The files beside it say what
// becomes of letters (readNormalizer).
func LoadWordPiece(path string) (*WordPiece, error) {
	b, err := regular.ReadFile(path, maxPieceFile, "vocab.txt")
	if err != nil {
		return nil, fmt.Errorf("word pieces: %w; vocab.txt belongs to the BERT weights", err)
	}
	var v *WordPiece
	if b, err = regular.UTF8(b); err == nil {
		v, err = decodeWordPiece(b)
	}
	if err == nil {
		v.Normalizer, err = v.readNormalizer(filepath.Dir(path))
	}
	if err != nil {
		return nil, regular.Explain(fmt.Errorf("word pieces %s: %w", path, err), path, regular.Text, regular.Table)
	}
	return v, nil
}

func decodeWordPiece(b []byte) (*WordPiece, error) {
	v := &WordPiece{first: map[string]int32{}, later: map[string]int32{}, Normalizer: uncased}
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
func (v *WordPiece) Len() int { return v.n }

// Pieces are the pieces of a text, word by word. The zero value is ready; it may be used for one text after another and
// is not safe for concurrent use.
type Pieces struct {
	basic basic
	ids   []int32
	words [][]int32
}

// Split cuts a text and returns the piece ids of each of its words, without [CLS] and [SEP], and how many words are
// [UNK]. The result is valid until the next call. Once p has grown it allocates nothing for ASCII text.
func (v *WordPiece) Split(p *Pieces, text string) (words [][]int32, unknown int) {
	p.basic.split(text, v.Normalizer)
	p.ids, p.words = p.ids[:0], p.words[:0]
	if n := len(p.basic.words) + 1; cap(p.ids) < n { // no word has more pieces than bytes: ids never move
		p.ids = make([]int32, 0, 2*n)
	}
	for i := range p.basic.ends {
		at := len(p.ids)
		var known bool
		if p.ids, known = v.appendWord(p.ids, p.basic.word(i)); !known {
			p.ids = append(p.ids[:at], v.Unk)
			unknown++
		}
		p.words = append(p.words, p.ids[at:len(p.ids):len(p.ids)])
	}
	return p.words, unknown
}

// appendWord appends the pieces of a word and reports whether it can be cut.
func (v *WordPiece) appendWord(dst []int32, word []byte) ([]int32, bool) {
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

// AppendCaption appends [CLS], the pieces of a caption and [SEP] to dst and returns also how many of its words are
// [UNK].
func (v *WordPiece) AppendCaption(dst []int32, p *Pieces, caption string) (ids []int32, unknown int) {
	words, unknown := v.Split(p, caption)
	dst = append(dst, v.Cls)
	for _, w := range words {
		dst = append(dst, w...)
	}
	return append(dst, v.Sep), unknown
}
