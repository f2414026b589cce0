package text

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"vsetrain/internal/compute/vec"
	"vsetrain/internal/files/npy"
	"vsetrain/internal/files/regular"
)

// WordVectors are pretrained vectors for the words of a vocabulary, from a file of GloVe, word2vec, fastText or NumPy.
type WordVectors struct {
	SHA256 string      // of the file; for an array, of the array followed by its words
	Rows   [][]float32 // vector of each word; nil if the file has none
	Found  int         // words with a vector
}

// wordsSuffix replaces .npy in the name of an array of word vectors to name the file of its words, one a line.
const wordsSuffix = ".words.txt"

// ReadWordVectors reads vectors of dim values for words from a file. It reads the file sequentially and keeps only
// these vectors. The file is one of
//
//   - text, a line "word v1 … vD" for each word (GloVe), after a line "N D" or not (word2vec); a file named .vec
//     (fastText) has that line. The last D fields are the values, and a word may have blanks;
//   - an array .npy [N, D], float16, float32 or float64, with its words in NAME.words.txt.
//
// A word that the file lacks gets the vector of its reduced form (reducedWord). Numbers are read as float64, rounded to
// float32 and not scaled. PVSE and CHAN match words in the same way (yalesong/pvse, model.py, EncoderText.init_weights;
// ppanzx/CHAN, lib/encoders.py, EncoderTextBigru.init_weights), with vectors from torchtext (torchtext/vocab, Vectors).
//
// Errors name file and line: vectors of another size, a line with fewer values than the others, two lines in one, a
// value that is not a finite number, a wanted word that occurs twice, and a first line with another number of words.
// The values of other words are counted but not checked.
func ReadWordVectors(path string, words []string, dim int) (*WordVectors, error) {
	r := &vectorReader{path: path, dim: dim, hash: sha256.New(), wanted: make(map[string]*wordVector, len(words))}
	for _, w := range words {
		r.wanted[w], r.wanted[reducedWord(w)] = &wordVector{}, &wordVector{}
	}
	read := r.text
	if strings.EqualFold(filepath.Ext(path), ".npy") {
		read = r.array
	}
	if err := read(); err != nil {
		return nil, fmt.Errorf("word vectors %w", err)
	}
	v := &WordVectors{SHA256: hex.EncodeToString(r.hash.Sum(nil)), Rows: make([][]float32, len(words))}
	for i, w := range words {
		e := r.wanted[w]
		if e.line == 0 {
			e = r.wanted[reducedWord(w)]
		}
		if e.line > 0 {
			v.Rows[i] = e.values
			v.Found++
		}
	}
	return v, nil
}

// reducedWord returns the form in which to look up a word that the file lacks: without hyphens, full stops and
// apostrophes, up to the first slash.
func reducedWord(w string) string {
	w, _, _ = strings.Cut(withoutMarks.Replace(w), "/")
	return w
}

var withoutMarks = strings.NewReplacer("-", "", ".", "", "'", "")

// vectorReader reads one file.
type vectorReader struct {
	path    string
	dim     int
	hash    hash.Hash
	wanted  map[string]*wordVector
	longer  []int // numbers of values of lines that may have longer vectors, until a line is regular
	regular bool  // a header, or a word without blanks and its values, was found: the size of the vectors is right
}

type wordVector struct {
	values []float32
	line   int // from 1; 0 until the word is found
}

// maxVectorLine bounds a line in bytes: 65,536 values of 32 characters.
const maxVectorLine = 2 << 20

// lines calls take with each line of a file, without its end, and adds the file to the hash.
func (r *vectorReader) lines(path string, take func(line []byte, number int) error) (n int, err error) {
	f, _, err := regular.Open(path)
	if err != nil {
		return 0, fmt.Errorf("%w; model.word_init names a file of GloVe, word2vec or fastText, or an array .npy with "+
			"its words in NAME%s", err, wordsSuffix)
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, maxVectorLine)
	for {
		line, err := in.ReadSlice('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			return n, nil
		}
		n++
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return n, fmt.Errorf("%s:%d: a line of more than %d bytes; expected a word and its values: is this "+
				"another file?", path, n, maxVectorLine)
		case err != nil && !errors.Is(err, io.EOF):
			return n, fmt.Errorf("%s:%d: %w", path, n, err)
		}
		r.hash.Write(line)
		if n == 1 {
			line = bytes.TrimPrefix(line, []byte("\ufeff")) // byte order mark
		}
		if err := take(bytes.TrimRight(line, " \t\r\n"), n); err != nil {
			return n, fmt.Errorf("%s:%d: %w", path, n, err)
		}
	}
}

// text reads a file of lines.
func (r *vectorReader) text() error {
	if err := regular.Expect(r.path, "word vectors as text", regular.Text, regular.Table); err != nil {
		return err
	}
	promised, header := -1, 0
	n, err := r.lines(r.path, func(line []byte, number int) error {
		if number == 1 {
			var size int
			if promised, size = vectorHeader(line); promised >= 0 {
				header, r.regular = 1, true
				return r.width(size)
			}
			if strings.EqualFold(filepath.Ext(r.path), ".vec") {
				return errors.New("expected the number of words and the size of their vectors in the first line of a " +
					".vec file; its beginning is missing, or it is GloVe's text and should be named .txt")
			}
		}
		word, rest, err := r.cut(line)
		if err != nil {
			return err
		}
		return r.take(word, number, func(dst []float32) error { return parseVector(dst, rest) })
	})
	switch {
	case err != nil:
		return err
	case len(r.longer) > 0 && !r.regular:
		return fmt.Errorf("%s: %w", r.path, r.width(slices.Min(r.longer)))
	case n == header:
		return fmt.Errorf("%s: expected lines of a word and its values, found none", r.path)
	case promised >= 0 && n-1 != promised:
		return fmt.Errorf("%s:%d: the file ends after %d words, its first line says %d: it is truncated; download "+
			"it again", r.path, n, n-1, promised)
	}
	return nil
}

// cut returns the word of a line and its values, the last dim fields. The word before them may have blanks and tabs. A
// line with fewer fields is an error, and so is a line with numbers in place of the word: a longer vector, or two lines
// in one.
func (r *vectorReader) cut(line []byte) (word, values []byte, err error) {
	for i := bytes.IndexByte(line, '\t'); i >= 0 && i < len(line); i++ {
		if line[i] == '\t' {
			line[i] = ' '
		}
	}
	blank := []byte{' '}
	word, values, _ = bytes.Cut(line, blank)
	if len(word) > 0 && bytes.Count(values, blank)+1 == r.dim && !bytes.Contains(line, []byte("  ")) {
		r.regular = true
		return word, values, nil
	}
	fields := bytes.FieldsFunc(line, func(c rune) bool { return c == ' ' })
	if len(fields) > 0 && line[0] == ' ' && len(fields) <= r.dim {
		fields = append([][]byte{nil}, fields...) // the word is a blank
	}
	more := len(fields) - 1 - r.dim // fields of the word after its first one
	trailing := 0
	for trailing < len(fields)-1 && isNumber(fields[len(fields)-1-trailing]) {
		trailing++
	}
	switch {
	case trailing < r.dim && trailing > 1 && !r.regular:
		return nil, nil, r.width(trailing)
	case more < 0:
		return nil, nil, fmt.Errorf("expected %d values after the word %.40q, found %d: the line is truncated, or "+
			"this is not the text form; download the file again, or save it as text", r.dim, word,
			max(len(fields)-1, 0))
	}
	numbers := 0
	for numbers < more && isNumber(fields[1+numbers]) {
		numbers++
	}
	_, wanted := r.wanted[string(word)]
	switch {
	case more > 0 && numbers == more && !r.regular: // longer vectors, or a word such as "e.g. 7"
		r.longer = append(r.longer, len(fields)-1)
		if len(r.longer) == 4 {
			return nil, nil, r.width(slices.Min(r.longer))
		}
	case numbers >= r.dim, wanted && numbers > 0 && bytes.IndexByte(fields[1], '.') >= 0:
		return nil, nil, fmt.Errorf("expected %d values after the word %.40q, found more: two lines are joined; "+
			"download the file again", r.dim, word)
	case more > 0 && trailing < r.dim:
		return nil, nil, fmt.Errorf("value %d after the word %.40q is %.40q, expected a number: the line is "+
			"truncated; download the file again", r.dim-trailing, word, fields[len(fields)-1-trailing])
	}
	r.regular = r.regular || more == 0
	return bytes.Join(fields[:1+more], blank), bytes.Join(fields[1+more:], blank), nil
}

func isNumber(field []byte) bool {
	_, err := strconv.ParseFloat(string(field), 64)
	return err == nil || errors.Is(err, strconv.ErrRange)
}

// vectorHeader reads a first line "N D"; words is -1 if the line has another form.
func vectorHeader(line []byte) (words, dim int) {
	a, b, ok := strings.Cut(string(line), " ")
	words, err := strconv.Atoi(a)
	dim, err2 := strconv.Atoi(b)
	if !ok || err != nil || err2 != nil || words < 0 || dim < 0 {
		return -1, 0
	}
	return words, dim
}

// width compares the size of the vectors of the file with the size in the network.
func (r *vectorReader) width(values int) error {
	if values == r.dim {
		return nil
	}
	return fmt.Errorf("vectors of %d values, model.word_dim is %d; name vectors of that size, or set model.word_dim "+
		"to %[1]d", values, r.dim)
}

// take keeps the vector of a wanted word.
func (r *vectorReader) take(word []byte, line int, read func(dst []float32) error) error {
	e, ok := r.wanted[string(word)]
	if !ok || len(word) == 0 { // the reduced form of . is not a word
		return nil
	}
	if e.line > 0 {
		return fmt.Errorf("the word %q was in line %d already; leave one of the two", word, e.line)
	}
	e.line, e.values = line, make([]float32, r.dim)
	if err := read(e.values); err != nil {
		return err
	}
	if i := vec.NotFinite(e.values); i >= 0 {
		return fmt.Errorf("value %d of the word %q is %v, expected a finite number", i+1, word, e.values[i])
	}
	return nil
}

// parseVector reads as many values as dst has.
func parseVector(dst []float32, text []byte) error {
	for i := range dst {
		var field []byte
		field, text, _ = bytes.Cut(text, []byte{' '})
		v, err := strconv.ParseFloat(string(field), 64)
		if err != nil && !errors.Is(err, strconv.ErrRange) { // a range error has the value ±Inf or 0
			return fmt.Errorf("value %d is %.40q, expected a number", i+1, field)
		}
		dst[i] = float32(v)
	}
	return nil
}

// array reads an array and the file of its words.
func (r *vectorReader) array() error {
	f, err := npy.Open(r.path)
	if err != nil {
		return err
	}
	defer f.Close()
	if len(f.Shape) != 2 {
		return fmt.Errorf("%s: an array of shape %v, expected [words, values]", r.path, f.Shape)
	}
	if err := r.width(f.RowLen()); err != nil {
		return fmt.Errorf("%s: %w", r.path, err)
	}
	if err := r.add(r.path); err != nil {
		return err
	}
	names := r.path[:len(r.path)-len(".npy")] + wordsSuffix
	n, err := r.lines(names, func(line []byte, number int) error {
		if number > f.Rows() {
			return fmt.Errorf("a word more than the %d rows of %s", f.Rows(), r.path)
		}
		return r.take(line, number, func(dst []float32) error { return f.ReadRow(dst, number-1) })
	})
	if err == nil && n != f.Rows() {
		err = fmt.Errorf("%s:%d: the file ends after %d words, %s has %d rows", names, n, n, r.path, f.Rows())
	}
	return err
}

// add adds a file to the hash.
func (r *vectorReader) add(path string) error {
	f, _, err := regular.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(r.hash, f)
	return err
}
