package data

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vsetrain/internal/files/npy"
	"vsetrain/lab/try"
)

// problems returns the report's problems as lines "error|warning file: what".
func problems(r *Report) string {
	var b strings.Builder
	for _, p := range r.Problems {
		kind := "warning"
		if p.Error {
			kind = "error"
		}
		fmt.Fprintf(&b, "%s %s: %s\n", kind, p.File, p.What)
	}
	return b.String()
}

func TestCheckSoundDataSet(t *testing.T) {
	w := newWorld(t, 6, 5, false, "train", "test")
	w.write(t, "test_ids.txt", strings.ReplaceAll(w.read(t, "test_ids.txt"), "im", "test"))
	try.Do(t, vocab(t).Save(w.path("vocab.json")))
	w.array(t, "train_svd.npy", []int{30, 2}, make([]float32, 60))
	w.array(t, "train_boxes.npy", []int{6, 3, 4}, make([]float32, 72))
	w.array(t, "train_sizes.npy", []int{6, 2}, sizes(6))
	r := try.Get(Check(w.dir, CheckOptions{}))(t)
	if !r.OK() || len(r.Problems) != 0 {
		t.Errorf("problems:\n%s", problems(r))
	}
	if len(r.Splits) != 2 || r.Splits[0].Name != "train" || r.Splits[1].Name != "test" {
		t.Fatalf("splits %+v", r.Splits)
	}
	got := r.Splits[0]
	want := SplitReport{Name: "train", Captions: 30, Images: 6, CaptionsPerImage: 5,
		FewestCaptions: 5, MostCaptions: 5, Regions: 3, Dim: 4, Words: 145,
		Lengths: LengthStats{Min: 2, Median: 5, Mean: 145. / 30, P99: 8, Max: 8}}
	if got != want {
		t.Errorf("train is\n%+v, want\n%+v", got, want)
	}
	files := map[string]FileReport{}
	for _, f := range r.Files {
		files[f.Name] = f
	}
	f := files["train_ims.npy"]
	if f.Kind != "features" || f.DType != "<f4" || fmt.Sprint(f.Shape) != "[6 3 4]" || f.Bytes < 6*12*4 ||
		f.Scan == nil {
		t.Fatalf("features %+v", f)
	}
	if s := f.Scan; s.Rows != 6 || s.Min != 0 || s.Max != w.feature(5, 11) || s.ZeroShare != 1./72 ||
		s.BadRows != 0 || s.ZeroRows != 0 {
		t.Errorf("scan %+v", s)
	}
	if files["train_caps.txt"].Lines != 30 || files["test_ids.txt"].Lines != 6 ||
		files["vocab.json"].Kind != "vocabulary" || r.Vocab.Words != 12 {
		t.Errorf("files %+v, vocabulary %+v", files, r.Vocab)
	}
	if _, err := json.Marshal(r); err != nil {
		t.Error(err)
	}
}

func TestCheckFindsEveryFault(t *testing.T) {
	cases := []struct {
		name  string
		spoil func(w *world)
		want  string
	}{
		{"nan rows", func(w *world) {
			data := make([]float32, 72)
			for i := range data {
				data[i] = 1
			}
			for _, row := range []int{1, 4} {
				data[row*12+row] = float32(math.NaN())
			}
			data[5*12] = float32(math.Inf(-1))
			w.array(t, "train_ims.npy", []int{6, 3, 4}, data)
		}, "error train_ims.npy: 3 rows hold NaN or infinity, the first are [1 4 5]"},
		{"zero rows", func(w *world) { w.array(t, "train_ims.npy", []int{6, 3, 4}, make([]float32, 72)) },
			"warning train_ims.npy: 6 rows are all zero, the first are [0 1 2 3 4]"},
		{"truncated", func(w *world) { os.Truncate(w.path("train_ims.npy"), 200) }, "truncated"},
		{"captions", func(w *world) { w.write(t, "train_caps.txt", w.read(t, "train_caps.txt")+"a dog\n") },
			"31 captions do not fit 6 image rows"},
		{"empty captions", func(w *world) {
			w.write(t, "train_caps.txt", strings.Replace(w.read(t, "train_caps.txt"), w.caption(3)+"\n", "\n", 2))
		}, "error train_caps.txt: 2 empty captions, the first is line 4"},
		{"unknown words", func(w *world) {
			w.write(t, "train_caps.txt", strings.Replace(w.read(t, "train_caps.txt"), w.caption(3)+"\n",
				"zebras gallop\n", 1))
		}, "warning train_caps.txt: 1 captions have no known word (lines 4)"},
		{"other vocabulary", func(w *world) { w.write(t, "train_caps.txt", strings.Repeat("ein Hund .\n", 30)) },
			"warning train_caps.txt: 66.7 % of the words are unknown"},
		{"bad vocabulary", func(w *world) { w.write(t, "vocab.json", "{}") }, "no word2idx"},
		{"no vocabulary", func(w *world) { os.Remove(w.path("vocab.json")) }, "warning vocab.json: no vocabulary"},
		{"ids", func(w *world) { w.write(t, "train_ids.txt", "a\nb\n") }, "2 ids for the 6 image rows"},
		{"no ids", func(w *world) { os.Remove(w.path("train_ids.txt")) }, "warning train_ids.txt: no ids file"},
		{"an id twice", func(w *world) { w.write(t, "train_ids.txt", "a\nb\nc\nd\nb\ne\n") },
			`train_ids.txt: ids of images repeat, endings of file names aside (1 of 6): images 1 and 4 have the ids ` +
				`"b" and "b"`},
		{"ids that differ in an ending", func(w *world) {
			w.write(t, "train_ids.txt", "a.jpg\nb\nc\nd\nb.jpg\na.png\n")
		},
			`ids of images repeat, endings of file names aside (2 of 6): images 1 and 4 have the ids "b" and "b.jpg"`},
		{"ids of another split", func(w *world) {
			w.writeSplit(t, "dev")
			w.write(t, "dev_ids.txt", "im7.jpg\nim1.jpg\nim8\nim2\nim9\nim10\n")
		}, `dev_ids.txt: 2 of 6 images are in split train too, such as "im1.jpg": are these the ids of another split?`},
		{"ids of another split, which has numbers from 1", func(w *world) {
			w.writeSplit(t, "dev")
			w.write(t, "train_ids.txt", "1\n2\n3\n4\n5\n6\n")
			w.write(t, "dev_ids.txt", "5\n6\n7\n8\n9\n10\n")
		}, `dev_ids.txt: 2 of 6 images are in split train too, such as "5"`},
		{"blank id", func(w *world) { w.write(t, "train_ids.txt", "a\nb\n\nc\nd\ne\n") },
			"error train_ids.txt: 1 empty lines, the first is line 3"},
		{"semantics", func(w *world) { w.array(t, "train_svd.npy", []int{29, 2}, make([]float32, 58)) },
			"error train_svd.npy: shape [29 2]; expected [30, k]"},
		{"semantic text", func(w *world) { w.write(t, "train_svd.txt", "1,2\n3,4") },
			"error train_svd.txt: 2 semantic vectors, but the split has 30 captions"},
		{"boxes", func(w *world) { w.boxes(t); w.array(t, "train_boxes.npy", []int{5, 3, 4}, make([]float32, 60)) },
			"train_boxes.npy: shape [5 3 4]; expected [6, 3, 4]"},
		{"sizes", func(w *world) { w.boxes(t); w.array(t, "train_sizes.npy", []int{6, 3}, make([]float32, 18)) },
			"expected [6, 2]"},
		{"no sizes", func(w *world) { w.boxes(t); os.Remove(w.path("train_sizes.npy")) },
			"warning train_boxes.npy: boxes without picture sizes: GSMN and pictures of attention need both"},
		{"no boxes", func(w *world) { w.boxes(t); os.Remove(w.path("train_boxes.npy")) },
			"warning train_sizes.npy: picture sizes without boxes: GSMN and pictures of attention need both"},
		{"boxes outside", func(w *world) {
			w.boxes(t)
			w.array(t, "train_sizes.npy", []int{6, 2}, append([]float32{3, 90}, sizes(5)...))
		}, "error train_boxes.npy: 1 rows have boxes outside the picture, the first are [0]; row 0, region 0: box " +
			"1,2 to 11,22; expected x1 <= x2 and y1 <= y2 inside a picture of 3 x 90"},
		{"dependencies of others", func(w *world) { w.write(t, "train_caps.json", "[[[0,1]]]") },
			"dependencies of 1 captions, but"},
		{"dependency outside", func(w *world) { w.write(t, "train_caps.json", trees(30, "[[0,1],[1,3]]")) },
			"error train_caps.json: 5 captions have dependencies on words they do not have (lines 2, 9, 16, 23, 30)"},
		{"self dependency", func(w *world) { w.write(t, "train_caps.json", trees(30, "[[0,1],[2,2]]")) },
			"train_caps.json:2: token 2 depends on itself"},
		{"no features", func(w *world) { os.Remove(w.path("train_ims.npy")) }, "no features"},
		{"no split", func(w *world) {
			os.Remove(w.path("train_caps.txt"))
			os.Remove(w.path("train_ims.npy"))
		}, "no split"},
	}
	for _, c := range cases {
		w := newWorld(t, 6, 5, false, "train")
		try.Do(t, vocab(t).Save(w.path("vocab.json")))
		c.spoil(w)
		r := try.Get(Check(w.dir, CheckOptions{}))(t)
		if got := problems(r); !strings.Contains(got, c.want) {
			t.Errorf("%s: problems\n%swant %q", c.name, got, c.want)
		}
		if r.OK() == strings.HasPrefix(problems(r), "error") {
			t.Errorf("%s: OK is %v", c.name, r.OK())
		}
	}
	try.Refuses(Check(t.TempDir()+"/none", CheckOptions{}))(t, "none")
}

func TestCheckSamplesRows(t *testing.T) {
	w := newWorld(t, 40, 5, false, "train")
	f := try.Get(npy.Open(w.path("train_ims.npy")))(t)
	defer f.Close()
	last := 0
	st, err := look{source: f}.scan(10, func(done, total int) {
		if total != 10 || done > total {
			t.Errorf("progress %d of %d", done, total)
		}
		last = done
	})
	if err != nil || st.Rows != 10 || last != 10 {
		t.Errorf("%+v, progress ended at %d (%v)", st, last, err)
	}
	if st.Max != w.feature(36, 11) {
		t.Errorf("largest of every fourth row is %v", st.Max)
	}
}

func TestScanReportsTheFiniteRange(t *testing.T) {
	m := matrix{3, 5, func(row, col int) float32 {
		return []float32{float32(math.Inf(1)), float32(math.NaN()), -2, 3, 0}[(row+col)%5]
	}}
	st, err := look{source: m}.scan(0, func(int, int) {})
	if err != nil || st.Min != -2 || st.Max != 3 || st.BadRows != 3 || st.ZeroShare != 0.2 {
		t.Errorf("%+v (%v)", st, err)
	}
	m.at = func(int, int) float32 { return float32(math.NaN()) }
	if st, err = (look{source: m}).scan(0, func(int, int) {}); err != nil || st.Min != 0 || st.Max != 0 {
		t.Errorf("nothing finite: %+v (%v)", st, err)
	}
}

// What is advised about features that cannot be read is what data convert does (convert.TestRetypeTypes).
func TestCheckAdvice(t *testing.T) {
	for _, c := range []struct {
		dtype npy.DType
		shape []int
		want  []string
	}{
		{npy.U8, []int{6, 3, 4}, []string{"found uint8", "train_ims.npy --out NEW.npy --scale S"}},
		{npy.F64, []int{6, 3, 4}, []string{"found float64", "train_ims.npy --out NEW.npy` makes it so"}},
		{npy.F32, []int{6, 3, 2, 2}, []string{"--out NEW.npy --grid nchw"}},
	} {
		w := newWorld(t, 6, 5, false, "train")
		w.typed(t, "train_ims.npy", c.dtype, c.shape, make([]float32, 72))
		try.Fails(t, errors.New(problems(try.Get(Check(w.dir, CheckOptions{}))(t))), c.want...)
	}
}

// A link is as large as the file it leads to, and one that leads nowhere is told.
func TestCheckFollowsLinks(t *testing.T) {
	w := newWorld(t, 6, 5, false, "train")
	whole := try.Get(os.Stat(w.path("train_ims.npy")))(t)
	elsewhere := filepath.Join(try.MemoryDir(t), "features.npy")
	try.Do(t, os.Rename(w.path("train_ims.npy"), elsewhere))
	if err := os.Symlink(elsewhere, w.path("train_ims.npy")); err != nil {
		t.Skipf("needs links: %v", err)
	}
	try.Do(t, os.Symlink(elsewhere+".gone", w.path("notes")))
	r := try.Get(Check(w.dir, CheckOptions{}))(t)
	for _, f := range r.Files {
		if f.Name == "train_ims.npy" && f.Bytes != whole.Size() {
			t.Errorf("%d bytes, want %d", f.Bytes, whole.Size())
		}
	}
	if text := problems(r); !strings.Contains(text, "warning notes: leads nowhere") {
		t.Errorf("problems:\n%s", text)
	}
}
