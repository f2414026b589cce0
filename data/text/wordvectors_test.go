package text

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"vsetrain/internal/files/npy"
	"vsetrain/lab/try"
)

// initWeights is EncoderTextBigru.init_weights of ppanzx/CHAN over a whole table in memory, as Python runs it.
func initWeights(table map[string][]float64, words []string) (rows [][]float64) {
	for _, word := range words {
		if _, ok := table[word]; !ok {
			for _, mark := range []string{"-", ".", "'"} {
				word = strings.ReplaceAll(word, mark, "")
			}
			word = strings.Split(word, "/")[0]
		}
		rows = append(rows, table[word])
	}
	return rows
}

// vectorFiles writes one table in every form that is read; the values have the digits of GloVe's files.
func vectorFiles(t *testing.T, words []string, table map[string][]float64, dim int) map[string]string {
	t.Helper()
	dir := t.TempDir()
	var lines, names strings.Builder
	var flat []float32
	for _, w := range words {
		lines.WriteString(w)
		for _, v := range table[w] {
			lines.WriteString(" " + strconv.FormatFloat(v, 'g', -1, 64))
			flat = append(flat, float32(v))
		}
		lines.WriteString("\n")
		names.WriteString(w + "\n")
	}
	header := fmt.Sprintf("%d %d\n", len(words), dim)
	files := map[string]string{"glove.txt": lines.String(), "fasttext.vec": header + lines.String(),
		"word2vec.txt":    header + strings.ReplaceAll(lines.String(), "\n", " \n"),
		"windows.txt":     strings.ReplaceAll(lines.String(), "\n", "\r\n"),
		"unended.txt":     strings.TrimSuffix(lines.String(), "\n"),
		"array.words.txt": names.String()}
	out := map[string]string{}
	for name, content := range files {
		out[name] = filepath.Join(dir, name)
		try.Do(t, os.WriteFile(out[name], []byte(content), 0o666))
	}
	delete(out, "array.words.txt")
	out["array.npy"] = filepath.Join(dir, "array.npy")
	try.Do(t, npy.WriteFloat32(out["array.npy"], []int{len(words), dim}, flat))
	return out
}

// Every form of a file gives the words the vectors that CHAN gives them, and the hash of its bytes.
func TestWordVectorsAreMatchedAsInCHAN(t *testing.T) {
	const dim = 7
	inFile := []string{"the", "-", "tshirt", "don't", "dont", "us", "and", "Wow", "e.g.", "\u00a0", "na\xefve",
		"straße", "<unk>", "never"}
	words := []string{PadWord, StartWord, EndWord, UnkWord, "the", "t-shirt", "don't", "u.s.", "and/or", "wow", "wow.",
		"t-shirt/us", "/the", "...", "straße", "-", "eg", MaskWord}
	r, table := rand.New(rand.NewPCG(1, 2)), map[string][]float64{}
	for _, w := range inFile {
		for range dim {
			table[w] = append(table[w], float64(r.IntN(2000001)-1000000)/1e5)
		}
	}
	want := initWeights(table, words)
	for name, path := range vectorFiles(t, inFile, table, dim) {
		got, err := ReadWordVectors(path, words, dim)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		found := 0
		for i, row := range want {
			if len(row) == 0 {
				if got.Rows[i] != nil {
					t.Errorf("%s: the word %q has a vector, which the file lacks", name, words[i])
				}
				continue
			}
			found++
			for j, v := range row {
				if len(got.Rows[i]) != dim || got.Rows[i][j] != float32(v) {
					t.Errorf("%s: the word %q has %v, want %v", name, words[i], got.Rows[i], row)
					break
				}
			}
		}
		if got.Found != found || found != 9 {
			t.Errorf("%s: %d words found, want %d, which are nine", name, got.Found, found)
		}
		b := try.Get(os.ReadFile(path))(t)
		if names := strings.TrimSuffix(path, ".npy"); names != path {
			more := try.Get(os.ReadFile(names + wordsSuffix))(t)
			b = append(b, more...)
		}
		if h := sha256.Sum256(b); got.SHA256 != hex.EncodeToString(h[:]) {
			t.Errorf("%s: SHA-256 %s, want %x", name, got.SHA256, h)
		}
	}
}

// A file that cannot be used gives one error, with its name, the line and what to do.
func TestBadWordVectors(t *testing.T) {
	const (
		good  = "a 1 2 3\nb 4 5 6\n"
		short = `expected 3 values after the word `
		ends  = "the file ends after 2 words, its first line says "
	)
	for name, c := range map[string]struct {
		file, content string
		want          []string
	}{
		"missing":           {"", "", []string{"nothing.txt", "no such file", "model.word_init"}},
		"empty":             {"v.txt", "", []string{"v.txt: expected word vectors", "the file is empty"}},
		"header alone":      {"v.vec", "0 3\n", []string{"v.vec: expected lines of a word"}},
		"another width":     {"v.txt", "a 1 2\n", []string{"v.txt:1: vectors of 2 values", "model.word_dim is 3"}},
		"width of header":   {"v.vec", "2 300\n" + good, []string{"v.vec:1: vectors of 300 values", "word_dim to 300"}},
		"header lies":       {"v.txt", "2 3\na 1 2\n", []string{"v.txt:2: " + short + `"a", found 2`}},
		"no header":         {"v.vec", good, []string{"v.vec:1: expected the number of words"}},
		"too few words":     {"v.vec", "3 3\n" + good, []string{"v.vec:3: " + ends + "3"}},
		"too many words":    {"v.vec", "1 3\n" + good, []string{"v.vec:3: " + ends + "1"}},
		"torn":              {"v.txt", good + "c 7 8", []string{"v.txt:3: " + short + `"c", found 2`, "truncated"}},
		"torn in the word":  {"v.txt", good + "c", []string{"v.txt:3: " + short + `"c", found 0`}},
		"two lines in one":  {"v.txt", "a 1 2 3 b 4 5 6\n", []string{"v.txt:1: " + short + `"a", found more`}},
		"two in one later":  {"v.txt", good + "x 1 2 3 y 4 5 6\n", []string{"v.txt:3: " + short + `"x", found more`}},
		"torn onward":       {"v.txt", "b 4 5 6\na 1.5 2c 4 5 6\n", []string{"v.txt:2: " + short + `"a", found more`}},
		"torn, of blanks":   {"v.txt", good + ". . . 1 2\n", []string{`v.txt:3: value 1 after the word "." is "."`}},
		"longer, of blanks": {"v.txt", ". . 1 2 3 4 5\nc 1 2 3 4 5\n", []string{"v.txt: vectors of 5 values"}},
		"blank line":        {"v.txt", "a 1 2 3\n\nb 4 5 6\n", []string{"v.txt:2: " + short + `"", found 0`}},
		"no word":           {"v.txt", good + "1 2 3\n", []string{"v.txt:3: " + short + `"1", found 2`}},
		"not a number":      {"v.txt", "a 1 x 3\n", []string{`v.txt:1: value 2 is "x", expected a number`}},
		"double blank":      {"v.txt", "a 1  3\n", []string{"v.txt:1: vectors of 2 values"}},
		"NaN":               {"v.txt", "b 4 5 6\na 1 2 nan\n", []string{`v.txt:2: value 3 of the word "a" is NaN`}},
		"infinite":          {"v.txt", "a 1 -inf 2\n", []string{`v.txt:1: value 2 of the word "a" is -Inf`}},
		"beyond float32":    {"v.txt", "a 1e39 1 1\n", []string{`v.txt:1: value 1 of the word "a" is +Inf`}},
		"beyond float64":    {"v.txt", "a 1e999 1 1\n", []string{`v.txt:1: value 1 of the word "a" is +Inf`}},
		"repeated":          {"v.txt", good + "a 1 2 3\n", []string{`v.txt:3: the word "a" was in line 1 already`}},
		"gzip":              {"v.txt", "\x1f\x8b\x08\x00", []string{"v.txt: expected", "a gzip archive"}},
		"zip":               {"v.txt", "PK\x03\x04 1 2", []string{"v.txt: expected", "a zip archive"}},
		"binary":            {"v.bin", "2 3\na \x00\x01\x02\x03\n", []string{"v.bin:2: " + short, "save it as text"}},
		"one long line":     {"v.txt", strings.Repeat("x", maxVectorLine+1), []string{"v.txt:1: a line of more"}},
		"array":             {"v.npy", good, []string{"v.npy", "npy"}},
		"array of one axis": {"one.npy", "", []string{"one.npy: an array of shape [6]"}},
		"array of doubles":  {"two.npy", "a\n", []string{"two.words.txt:1: the file ends after 1 words", "2 rows"}},
		"more words":        {"two.npy", "a\nb\nc\n", []string{"two.words.txt:3: a word more than the 2 rows"}},
		"array repeated":    {"two.npy", "a\na\n", []string{`two.words.txt:2: the word "a" was in line 1 already`}},
		"array NaN":         {"nan.npy", "b\na\n", []string{`nan.words.txt:2: value 3 of the word "a" is NaN`}},
		"array, no words":   {"alone.npy", "", []string{"alone.words.txt: no such file", "NAME.words.txt"}},
		"array of width 2":  {"wide.npy", "", []string{"wide.npy: vectors of 2 values"}},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, c.file)
		nan := float32(0)
		nan /= nan
		var err error
		switch c.file {
		case "":
			path = filepath.Join(dir, "nothing.txt")
		case "one.npy":
			err = npy.WriteFloat32(path, []int{6}, make([]float32, 6))
		case "wide.npy":
			err = npy.WriteFloat32(path, []int{3, 2}, make([]float32, 6))
		case "two.npy", "nan.npy", "alone.npy":
			values := make([]float32, 6)
			if c.file == "nan.npy" {
				values[5] = nan
			}
			if err = npy.WriteFloat32(path, []int{2, 3}, values); err == nil && c.content != "" {
				err = os.WriteFile(strings.TrimSuffix(path, ".npy")+wordsSuffix, []byte(c.content), 0o666)
			}
		default:
			err = os.WriteFile(path, []byte(c.content), 0o666)
		}
		try.Do(t, err)
		_, err = ReadWordVectors(path, []string{"a", "b"}, 3)
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: error %q lacks %q", name, err, w)
			}
		}
	}
}

// What a file has for other words is neither kept nor allocated.
func TestWordVectorsAreStreamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "large.txt")
	f := try.Get(os.Create(path))(t)
	const words, dim = 40000, 50
	values := strings.Repeat(" 0.123456", dim)
	for i := range words {
		fmt.Fprintf(f, "w%d%s\n", i, values)
	}
	try.Do(t, f.Close())
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	v, err := ReadWordVectors(path, []string{"w7", "w39999", "none"}, dim)
	runtime.ReadMemStats(&after)
	if err != nil || v.Found != 2 {
		t.Fatalf("%+v, %v; want two words", v, err)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > maxVectorLine+1<<20 {
		t.Errorf("%d bytes allocated to read a file of %d, want at most its buffer of %d", n, words*(dim*9+6),
			maxVectorLine)
	}
}

func FuzzWordVectors(f *testing.F) {
	for _, s := range []string{"a 1 2\n", "1 2\na 1 2\n", "a 1 nan\n", "\n", "a\t1 2", "1 2", "\x1f\x8b"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		path := filepath.Join(t.TempDir(), "v.txt")
		try.Do(t, os.WriteFile(path, b, 0o666))
		v, err := ReadWordVectors(path, []string{"a", "b-c"}, 2)
		if err == nil && len(v.Rows) != 2 {
			t.Errorf("%d rows of two words", len(v.Rows))
		}
	})
}

// Words of any form, drawn: words of the vocabulary have their vectors whatever stands around them, a line that is cut
// is named, and so is a size that contradicts.
func TestWordVectorsOfDrawnFiles(t *testing.T) {
	r := rand.New(rand.NewPCG(50, 6))
	odd := []string{". . .", "to name@domain.com", "name\tname@domain.com", "\u00a0", "a\u00a0b", "...", "1/2", "3.5",
		"1 2 x", "is is is", "\u3000", "\u0085", "mail：name@domain.com", "日本 語", "", "e.g. 7", "<s>", "\xff\xfe"}
	known := strings.Fields("the dog runs . a ' 3 straße é 日本 , -")
	for range 80 {
		dim := 2 + r.IntN(12)
		words := slices.Concat(known[:1+r.IntN(len(known))], odd[:r.IntN(len(odd))])
		r.Shuffle(len(words), func(i, j int) { words[i], words[j] = words[j], words[i] })
		table, lines := map[string][]float32{}, []string(nil)
		separator, end := []string{" ", " ", "\t", "  "}[r.IntN(4)], []string{"", " ", "\t", "\r"}[r.IntN(4)]
		for _, w := range words {
			line := w
			for range dim {
				v := float32(r.IntN(20001)-10000) / 1000
				table[w] = append(table[w], v)
				line += separator + strconv.FormatFloat(float64(v), []byte("fge")[r.IntN(3)], -1, 32)
			}
			lines = append(lines, line+end)
		}
		file, name := strings.Join(lines, "\n")+"\n", "v.txt"
		header := r.IntN(2)
		if header == 1 {
			file, name = fmt.Sprintf("%d %d%s\n", len(words), dim, end)+file, []string{"v.txt", "v.vec"}[r.IntN(2)]
		}
		path := filepath.Join(try.Files(t, map[string]string{name: file}), name)
		got, err := ReadWordVectors(path, known, dim)
		if err != nil {
			t.Errorf("%v\n%q", err, file)
			continue
		}
		for i, w := range known {
			if !slices.Equal(got.Rows[i], table[w]) {
				t.Errorf("%q has %v, want %v, in %q", w, got.Rows[i], table[w], file)
			}
		}
		for _, other := range []int{1, dim - 1, dim + 1, dim + 7, 2*dim + 1} {
			if other == dim {
				continue
			}
			_, err := ReadWordVectors(path, known, other)
			try.Fails(t, err, path)
			if header == 1 || strings.HasPrefix(lines[0], "the") {
				try.Fails(t, err, fmt.Sprintf("vectors of %d values, model.word_dim is %d", dim, other))
			}
		}
		k := r.IntN(len(lines))
		if words[k] == "" || len(strings.FieldsFunc(words[k], func(c rune) bool { return c == ' ' || c == '\t' })) > 1 {
			continue // what is left has as many fields as another word
		}
		lines[k] = strings.TrimRight(lines[k], end+" ")
		lines[k] = lines[k][:strings.LastIndexAny(lines[k], " \t")]
		try.Do(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o666))
		if _, err := ReadWordVectors(path, known, dim); err == nil {
			t.Errorf("a line of %q that was cut is read: %q", words[k], lines)
		}
	}
}
