package semantic

import (
	"slices"
	"strings"
	"testing"

	"vsetrain/internal/compute/par"
	"vsetrain/lab/golden"
	"vsetrain/lab/try"
)

type textCases struct {
	Lines      []string          `json:"lines"`
	Cleaned    []string          `json:"cleaned"`
	NLTK       []string          `json:"stop_words_nltk"`
	Sklearn    []string          `json:"stop_words_sklearn"`
	Terms      [][]string        `json:"terms_per_line"`
	Vocabulary []string          `json:"vocabulary"`
	DF         []int             `json:"document_frequency"`
	IDF        []float64         `json:"idf"`
	TFIDF      golden.Tensor     `json:"tfidf"`
	K          int               `json:"k"`
	Singular   []float64         `json:"singular_values"`
	Gram       golden.Tensor     `json:"gram_k"`
	RowMax     golden.Tensor     `json:"similarity_rowmax_all"`
	Stems      map[string]string `json:"stems"`
}

func loadText(t *testing.T) *textCases {
	t.Helper()
	c := new(textCases)
	golden.Load(t, "semantic_text.json", c)
	if len(c.Lines) == 0 || len(c.Stems) == 0 || len(c.Cleaned) != len(c.Lines) || len(c.Terms) != len(c.Lines) {
		t.Fatalf("semantic_text.json: %d lines, %d cleaned, %d lists of terms, %d stems", len(c.Lines), len(c.Cleaned),
			len(c.Terms), len(c.Stems))
	}
	return c
}

func TestGoldenStems(t *testing.T) {
	for word, want := range loadText(t).Stems {
		if got := stem(word); got != want {
			t.Errorf("stem of %q is %q, want %q", word, got, want)
		}
	}
}

func TestGoldenStopLists(t *testing.T) {
	c := loadText(t)
	for _, l := range []struct {
		name string
		have map[string]bool
		want []string
	}{{"nltk", nltkStop, c.NLTK}, {"scikit-learn", sklearnStop, c.Sklearn}} {
		if len(l.have) != len(l.want) {
			t.Errorf("%s list has %d words, want %d", l.name, len(l.have), len(l.want))
		}
		for _, w := range l.want {
			if !l.have[w] {
				t.Errorf("%s list lacks %q", l.name, w)
			}
		}
	}
}

func TestGoldenCleaning(t *testing.T) {
	c := loadText(t)
	for i, line := range c.Lines {
		if got := clean(line); got != c.Cleaned[i] {
			t.Errorf("line %d cleaned is %q, want %q", i, got, c.Cleaned[i])
		}
		if got := Terms(line); !slices.Equal(got, c.Terms[i]) {
			t.Errorf("line %d has terms %q, want %q", i, strings.Join(got, " "), strings.Join(c.Terms[i], " "))
		}
	}
}

func TestGoldenTFIDF(t *testing.T) {
	c := loadText(t)
	pool := par.New(2)
	defer pool.Close()
	got := newTFIDF(pool, c.Lines)
	if !slices.Equal(got.Vocabulary, c.Vocabulary) {
		t.Fatalf("vocabulary %q\nwant %q", got.Vocabulary, c.Vocabulary)
	}
	if !slices.Equal(got.DF, c.DF) {
		t.Errorf("document frequencies %v, want %v", got.DF, c.DF)
	}
	golden.Close(t, "idf", got.IDF, c.IDF, golden.FP64)
	try.Do(t, got.Matrix.Check())
	golden.Close(t, "tf-idf", dense(got.Matrix.Rows, got.Matrix.Cols, got.Matrix.Row), c.TFIDF.Data, golden.FP64)
}

func dense(rows, cols int, row func(int) ([]int32, []float64)) []float64 {
	out := make([]float64, rows*cols)
	for r := range rows {
		cs, vs := row(r)
		for i, c := range cs {
			out[r*cols+int(c)] = vs[i]
		}
	}
	return out
}

// clean returns the stems of the words of a caption that are no English stop words, joined by single spaces.
func clean(line string) string {
	var out strings.Builder
	var buf []byte
	for at := 0; ; {
		if buf, at = nextWord(line, at, buf); len(buf) == 0 {
			return out.String()
		}
		if nltkStop[string(buf)] {
			continue
		}
		if out.Len() > 0 {
			out.WriteByte(' ')
		}
		out.WriteString(stem(string(buf)))
	}
}
