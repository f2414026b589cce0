package synth

import (
	"bytes"
	"encoding/json"
	"image/png"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"

	"vsetrain/internal/files/npy"
	"vsetrain/lab/try"
)

// little returns options of a set small enough to generate in milliseconds.
func little() Options {
	o := Default()
	o.Train, o.Dev, o.Test, o.Regions, o.Dim = 30, 6, 10, 5, 16
	return o
}

func generated(t *testing.T, o Options) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "world")
	try.Do(t, Generate(dir, o, nil))
	return dir
}

func read(t *testing.T, dir, name string) []byte {
	t.Helper()
	return try.Get(os.ReadFile(filepath.Join(dir, name)))(t)
}

func lines(t *testing.T, dir, name string) []string {
	t.Helper()
	return strings.Split(strings.TrimSuffix(string(read(t, dir, name)), "\n"), "\n")
}

// array reads an array file and checks its shape.
func array(t *testing.T, dir, name string, shape ...int) []float64 {
	t.Helper()
	f := try.Get(npy.Open(filepath.Join(dir, name)))(t)
	defer f.Close()
	if !slices.Equal(f.Shape, shape) {
		t.Fatalf("%s: shape %v, want %v", name, f.Shape, shape)
	}
	return try.Get(f.Float64s())(t)
}

func TestSameSeedSameBytesForAnyNumberOfThreads(t *testing.T) {
	o := little()
	o.Train = 150 // more than one block
	var dirs [3]string
	for i, threads := range []int{1, 3, 2} {
		o.Threads = threads
		if i == 2 {
			o.Seed++
		}
		dirs[i] = generated(t, o)
	}
	for _, split := range []string{"train", "dev", "test"} {
		for _, end := range endings {
			a, b, c := read(t, dirs[0], split+end), read(t, dirs[1], split+end), read(t, dirs[2], split+end)
			if !bytes.Equal(a, b) {
				t.Errorf("%s%s differs between 1 and 3 threads", split, end)
			}
			if bytes.Equal(a, c) && end != "_ids.txt" {
				t.Errorf("%s%s does not depend on the seed", split, end)
			}
		}
	}
	if !bytes.Equal(read(t, dirs[0], "vocab.json"), read(t, dirs[1], "vocab.json")) {
		t.Error("vocab.json differs between 1 and 3 threads")
	}
}

func TestLongerSplitBeginsWithTheShorter(t *testing.T) {
	o := little()
	o.Train, o.Dev, o.TestAll = 20, 0, 25
	a := generated(t, o)
	o.Train = 40
	b := generated(t, o)
	x, y := array(t, a, "train_ims.npy", 20, 5, 16), array(t, b, "train_ims.npy", 40, 5, 16)
	if !slices.Equal(x, y[:len(x)]) {
		t.Error("train depends on the number of images")
	}
	x, y = array(t, b, "test_ims.npy", 10, 5, 16), array(t, b, "testall_ims.npy", 25, 5, 16)
	if !slices.Equal(x, y[:len(x)]) {
		t.Error("the images of test are not the first of testall")
	}
	if !bytes.HasPrefix(read(t, b, "testall_caps.txt"), read(t, b, "test_caps.txt")) {
		t.Error("the captions of test are not the beginning of those of testall")
	}
}

func TestLayout(t *testing.T) {
	o := little()
	o.Repeat, o.DType = true, npy.F16
	dir := generated(t, o)
	array(t, dir, "train_ims.npy", 30, 5, 16)
	ims := array(t, dir, "test_ims.npy", 50, 5, 16)
	for i := range ims {
		if first := i - i/80%5*80; ims[i] != ims[first] {
			t.Fatalf("row %d of the repeated test features differs from row %d", i/80, first/80)
		}
	}
	if n := len(lines(t, dir, "test_caps.txt")); n != 50 {
		t.Errorf("%d test captions, want 50", n)
	}
	for i, id := range lines(t, dir, "test_ids.txt") {
		if want := strconv.Itoa(36 + i/5); id != want {
			t.Fatalf("line %d of test_ids.txt is %q, want %s", i+1, id, want)
		}
	}
	sizes := array(t, dir, "train_ims_size.npy", 30, 2)
	for i, b := range array(t, dir, "train_ims_bbx.npy", 30, 5, 4) {
		if limit := sizes[i/20*2+i%2]; b < 0 || b > limit {
			t.Fatalf("image %d: box coordinate %v outside [0, %v]", i/20, b, limit)
		}
	}
	boxes := array(t, dir, "dev_ims_bbx.npy", 30, 5, 4)
	for i := 0; i < len(boxes); i += 4 {
		if b := boxes[i : i+4]; b[2]-b[0] < 7 || b[3]-b[1] < 7 {
			t.Fatalf("box %v is degenerate", b)
		}
	}
}

func TestVocabulary(t *testing.T) {
	o := little()
	o.Train, o.Test = 100, 50
	dir := generated(t, o)
	var v vocabulary
	try.Do(t, json.Unmarshal(read(t, dir, "vocab.json"), &v))
	for i, w := range []string{"<pad>", "<start>", "<end>", "<unk>"} {
		if v.Word2Idx[w] != i {
			t.Errorf("%s has id %d, want %d", w, v.Word2Idx[w], i)
		}
	}
	if len(v.Word2Idx) != v.Idx || len(v.Idx2Word) != v.Idx {
		t.Errorf("idx %d, but %d words and %d ids", v.Idx, len(v.Word2Idx), len(v.Idx2Word))
	}
	count := map[string]int{}
	for _, name := range []string{"train_caps.txt", "dev_caps.txt"} {
		for _, c := range lines(t, dir, name) {
			for _, w := range tokens(c) {
				count[w]++
			}
		}
	}
	for w, n := range count {
		id, ok := v.Word2Idx[w]
		if ok != (n >= minCount) {
			t.Errorf("%q occurs %d times, in the vocabulary: %v", w, n, ok)
		}
		if ok && v.Idx2Word[strconv.Itoa(id)] != w {
			t.Errorf("id %d of %q leads to %q", id, w, v.Idx2Word[strconv.Itoa(id)])
		}
	}
}

func TestExistingDataSetIsRefusedOrReplaced(t *testing.T) {
	o := little()
	dir := generated(t, o)
	before := read(t, dir, "train_caps.txt")
	o.Seed++
	try.Fails(t, Generate(dir, o, nil), "already exists")
	if !bytes.Equal(before, read(t, dir, "train_caps.txt")) {
		t.Fatal("a refused run changed the data set")
	}
	o.Force, o.Test = true, 0
	mine := filepath.Join(dir, "notes.txt")
	try.Do(t, os.WriteFile(mine, []byte("keep"), 0o666))
	try.Do(t, Generate(dir, o, nil))
	if bytes.Equal(before, read(t, dir, "train_caps.txt")) {
		t.Error("force did not replace the captions")
	}
	if _, err := os.Stat(filepath.Join(dir, "test_ims.npy")); err == nil {
		t.Error("the old test split survived")
	}
	if _, err := os.Stat(mine); err != nil {
		t.Error("a file that is not part of the data set was removed")
	}
	try.Do(t, os.WriteFile(filepath.Join(dir, "train_svd.npy"), nil, 0o666))
	try.Fails(t, Generate(dir, o, nil), "train_svd.npy")
	for _, d := range []string{dir, filepath.Dir(dir)} {
		if left, _ := filepath.Glob(filepath.Join(d, ".*")); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	}
}

func TestFailureLeavesNothing(t *testing.T) {
	parent := t.TempDir()
	// A folder where a file must go makes the last move fail before any caption file is there.
	dir := filepath.Join(parent, "world")
	try.Do(t, os.MkdirAll(filepath.Join(dir, "vocab.json", "x"), 0o777))
	o := little()
	o.Force = true
	try.Fails(t, Generate(dir, o, nil), "vocab.json")
	if all, _ := os.ReadDir(dir); len(all) != 1 {
		t.Errorf("left behind: %v", all)
	}
	try.Do(t, os.RemoveAll(filepath.Join(dir, "vocab.json")))
	try.Do(t, Generate(dir, o, nil))
	before := read(t, dir, "train_caps.txt")
	if err := os.MkdirAll(filepath.Join(dir, "id_mapping.json", "x"), 0o777); err != nil { // no file of the old set
		t.Fatal(err)
	}
	o.Seed++
	try.Fails(t, Generate(dir, o, nil), "id_mapping.json")
	if !bytes.Equal(before, read(t, dir, "train_caps.txt")) {
		t.Error("a data set that could not be replaced is not as it was")
	}
	file := filepath.Join(parent, "file")
	try.Do(t, os.WriteFile(file, nil, 0o666))
	try.Fails(t, Generate(file, o, nil), "expected a folder, found a file")
}

func TestDrawings(t *testing.T) {
	o := little()
	o.Train, o.Dev, o.Test, o.Images = 3, 0, 1, true
	dir := generated(t, o)
	sizes := array(t, dir, "train_ims_size.npy", 3, 2)
	img := try.Get(png.Decode(bytes.NewReader(read(t, dir, "images/2.png"))))(t)
	if b := img.Bounds(); float64(b.Dx()) != sizes[4] || float64(b.Dy()) != sizes[5] {
		t.Errorf("drawing of %v, size %v", b, sizes[4:])
	}
	var m map[string]string
	try.Do(t, json.Unmarshal(read(t, dir, "id_mapping.json"), &m))
	if len(m) != 4 || m["3"] != "3.png" {
		t.Errorf("id_mapping.json holds %v", m)
	}
	last := read(t, dir, "images/3.png")
	o.Images, o.ImagesOf = false, []string{"test"}
	dir = generated(t, o)
	files := try.Get(os.ReadDir(filepath.Join(dir, "images")))(t)
	if len(files) != 2 || !bytes.Equal(read(t, dir, "images/3.png"), last) { // and the manifest
		t.Errorf("of test alone: %v", files)
	}
	o.ImagesOf = []string{"tets"}
	try.Fails(t, o.Validate(), "expected one of train, dev, test, testall")
}

func TestMemoryDoesNotGrowWithTheNumberOfImages(t *testing.T) {
	o := little()
	o.Train, o.Regions, o.Dim = 3000, 36, 256 // 105 MB of features
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	calls, most := 0, uint64(0)
	dir := filepath.Join(t.TempDir(), "world")
	try.Do(t, Generate(dir, o, func(done, total int) {
		if calls++; calls%8 == 0 {
			runtime.ReadMemStats(&now)
			most = max(most, now.HeapInuse)
		}
		if total != 3016 || done > total {
			t.Errorf("progress %d of %d", done, total)
		}
	}))
	if used := int64(most) - int64(before.HeapInuse); used > 40<<20 {
		t.Errorf("%d MB of heap in use", used>>20)
	}
}

func TestValidate(t *testing.T) {
	for what, change := range map[string]func(*Options){
		"train":       func(o *Options) { o.Train = -1 },
		"0 images":    func(o *Options) { o.Train, o.Dev, o.Test = 0, 0, 0 },
		"regions":     func(o *Options) { o.Regions = 0 },
		"dim":         func(o *Options) { o.Dim = 8 },
		"captions":    func(o *Options) { o.CaptionsPerImage = 0 },
		"threads":     func(o *Options) { o.Threads = -1 },
		"feature typ": func(o *Options) { o.DType = npy.F64 },
	} {
		o := Default()
		try.Do(t, o.Validate())
		change(&o)
		try.Fails(t, o.Validate(), what)
	}
}

func TestDefault(t *testing.T) {
	o := Default()
	if sizes := [...]int{o.Train, o.Dev, o.Test, o.Regions, o.Dim}; sizes != [...]int{3000, 200, 500, 36, 512} {
		t.Errorf("the world of the demonstration has the sizes %v", sizes)
	}
}

// BenchmarkGenerate reports the time of one image of 36 x 2048 with its captions, without the disk.
func BenchmarkGenerate(b *testing.B) {
	o := Default()
	o.Dim = 2048
	blk := newBlock(&o, 1)
	blk.keys = newKeys(o.Seed, "train")
	for i := range b.N {
		blk.first = i
		blk.Do(0, 0)
	}
}

// The first verb of a caption about several people or things agrees with them.
func TestVerbsAgree(t *testing.T) {
	o := little()
	o.Train = 300
	counted := regexp.MustCompile(`^(a|an|two) (?:\w+ ){1,2}?(is|are) \w+ing `)
	seen := map[string]int{}
	for _, caption := range lines(t, generated(t, o), "train_caps.txt") {
		if m := counted.FindStringSubmatch(strings.ToLower(caption)); m != nil && !strings.Contains(m[0], " of ") {
			seen[m[2]]++
			if single := m[1] == "a" || m[1] == "an"; single != (m[2] == "is") {
				t.Errorf("caption %q", caption)
			}
		}
	}
	if seen["is"] < 10 || seen["are"] < 10 {
		t.Errorf("seen %v", seen)
	}
}
