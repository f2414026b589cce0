package text

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"vsetrain/internal/compute/philox"
	"vsetrain/lab/try"
)

// bertLexicon is a tokenizer of a few pieces: ids 5 to 7 are beginnings of words, 8 and 9 what follows.
func bertLexicon(t *testing.T, positions int) *BertTokenizer {
	t.Helper()
	path := filepath.Join(t.TempDir(), "vocab.txt")
	try.Do(t, os.WriteFile(path,
		[]byte("[PAD]\r\n[UNK]\r\n[CLS]\r\n[SEP]\r\n[MASK]\r\na\r\nfox\r\nrun\r\n##s\r\n##ning"), 0o600))
	return try.Get(LoadBertTokenizer(path, positions))(t)
}

func TestBertTokenizer(t *testing.T) {
	for positions, want := range map[int][]int32{40: {2, 5, 6, 8, 7, 9, 1, 3}, 8: {2, 5, 6, 8, 7, 9, 1, 3},
		7: {2, 5, 6, 8, 7, 9, 3}, 3: {2, 5, 3}} {
		ids, words, unknown := bertLexicon(t, positions).NewEncoder().Append([]int32{99}, "A foxs running zebra")
		if !slices.Equal(ids, append([]int32{99}, want...)) || words != 4 || unknown != 1 {
			t.Errorf("%d positions: ids %v, %d words, %d unknown; want %v, 4, 1", positions, ids, words, unknown, want)
		}
	}
	if _, err := LoadBertTokenizer("vocab.txt", 2); err == nil {
		t.Error("two positions were accepted")
	}
	if ids, words, _ := bertLexicon(t, 9).NewEncoder().Append(nil, " "); !slices.Equal(ids,
		[]int32{2, 3}) || words != 0 {
		t.Errorf("an empty caption is %v", ids)
	}
}

// A tokenizer has the same hash when it is saved and read again, whatever the line ends of its first file, and another
// one when its pieces have another order.
func TestBertTokenizerIsKept(t *testing.T) {
	b := bertLexicon(t, 9)
	path := filepath.Join(t.TempDir(), b.FileName())
	try.Do(t, SaveTokenizer(filepath.Dir(path), b))
	if again := try.Get(LoadBertTokenizer(path, 9))(t); again.Hash() != b.Hash() || again.Len() != 10 {
		t.Errorf("%d pieces with another hash", again.Len())
	}
	file := try.Get(os.ReadFile(path))(t)
	try.Do(t, os.WriteFile(path, []byte(strings.Replace(string(file), "fox\nrun", "run\nfox", 1)), 0o600))
	if other := try.Get(LoadBertTokenizer(path, 9))(t); other.Hash() == b.Hash() {
		t.Error("pieces in another order have the same hash")
	}
}

// Words, not pieces, are masked, replaced and dropped; [CLS] and [SEP] stay.
func TestBertAugmentation(t *testing.T) {
	b := bertLexicon(t, 40)
	c, s, again := b.NewEncoder(), philox.NewKey(1, "augment").Stream(0), philox.NewKey(1, "augment").Stream(0)
	pieces := [][]int32{{7, 9}, {7, 9}, {6, 8}}
	for range 1000 {
		got := c.AppendAugmented(nil, "running running foxs", s)
		want := augment([]int32{2}, 3, func(i int) []int32 { return pieces[i] }, 4, 10, again)
		if want = append(want, 3); !slices.Equal(got, want) {
			t.Fatalf("augmented to %v, want %v", got, want)
		}
	}
}

func TestEncodersDoNotAllocate(t *testing.T) {
	s := philox.NewKey(1, "augment").Stream(0)
	captions := []string{"A dog runs.", "It isn't slow, is it? no: (a cat) can't."}
	for _, l := range []Tokenizer{bertLexicon(t, 40), try.Get(BuildVocabulary(slices.Values(captions), 1))(t)} {
		c, dst := l.NewEncoder(), make([]int32, 0, 100)
		work := func() {
			for _, caption := range captions {
				c.Append(dst, caption)
				c.AppendAugmented(dst, caption, s)
			}
		}
		work()
		if n := testing.AllocsPerRun(50, work); n != 0 {
			t.Errorf("%T: %v allocations for two captions", c, n)
		}
	}
}

// A tokenizer without a word of the captions is refused, one that lacks many is warned about, and none is built of
// nothing.
func TestCoverage(t *testing.T) {
	v := small(t)
	known := func(captions ...string) Coverage { return CoverageOf(slices.Values(captions), v) }
	if c := known("the dog runs", "the cat"); c != (Coverage{5, 1}) || c.Percent() != 20 {
		t.Errorf("%+v", c)
	}
	for share, c := range map[string]Coverage{"": known("the dog runs", "the cat"), "50.0 %": known("the cat"),
		"no words": {}} {
		warning, err := c.Check()
		if err != nil || (warning != nil) != strings.Contains(share, "%") {
			t.Errorf("%s: %v, %v", share, warning, err)
		}
		if warning != nil {
			try.Fails(t, warning, share)
		}
	}
	_, err := known("一只狗在街上跑", "女人").Check()
	try.Fails(t, err, "all 2 words", "separated by blanks", "data vocab")
	try.Refuses(BuildVocabulary(slices.Values([]string{"一只狗", "一只猫", "女人"}), 2))(t, "no word occurs 2 times",
		"3 captions", "spaces", "--threshold")
}
