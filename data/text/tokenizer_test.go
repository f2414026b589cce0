package text

import (
	"math"
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

// Words, not pieces, are masked, replaced and dropped, in the shares of the reference; [CLS] and [SEP] stay.
func TestBertAugmentation(t *testing.T) {
	b := bertLexicon(t, 40)
	c, s := b.NewEncoder(), philox.NewKey(1, "augment").Stream(0)
	const captions = 20_000
	var kept, masked, replaced, left int
	for range captions {
		ids, words, _ := c.AppendAugmented(nil, "running running foxs", s)
		if words != 3 || ids[0] != 2 || ids[len(ids)-1] != 3 || len(ids)%2 != 0 || len(ids) < 4 {
			t.Fatalf("augmented to %v of %d words", ids, words)
		}
		for i := 1; i < len(ids)-1; i += 2 {
			left++
			switch p := [2]int32(ids[i:]); {
			case p == [2]int32{7, 9} || p == [2]int32{6, 8}:
				kept++
			case p == [2]int32{4, 4}:
				masked++
			default:
				replaced++
			}
		}
	}
	// A random pair of the ten pieces is rarely a piece of a word. Of three words at least one stays: 0.08³ more.
	for _, s := range []struct {
		what   string
		n      int
		expect float64
	}{{"left", left, 0.92 + 0.08*0.08*0.08/3}, {"masked", masked, 0.1 + 0.02/100}, {"replaced", replaced, 0.02 * 0.97},
		{"kept", kept, 0.8 + 0.02*0.02 + 0.08*0.08*0.08/3}} {
		share := float64(s.n) / (3 * captions)
		if sd := math.Sqrt(s.expect * (1 - s.expect) / (3 * captions)); math.Abs(share-s.expect) > 5*sd {
			t.Errorf("%s: %.5f, want %.5f", s.what, share, s.expect)
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
