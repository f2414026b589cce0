package data

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"vsetrain/data/text"
	"vsetrain/internal/files/npy"
	"vsetrain/lab/try"
)

func TestOpenFlatHalfPrecisionFeatures(t *testing.T) {
	w := newWorld(t, 2, 5, false, "train")
	w.typed(t, "train_ims.npy", npy.F16, []int{2, 6}, []float32{0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 5.5})
	s := w.open(t, "train", OpenOptions{FeatureDType: "f16"})
	row := make([]float32, 6)
	if err := s.ReadImage(row, 1); err != nil || s.Regions() != 1 || s.Dim() != 6 ||
		!slices.Equal(row, []float32{3, 3.5, 4, 4.5, 5, 5.5}) {
		t.Errorf("%d regions of %d: %v (%v)", s.Regions(), s.Dim(), row, err)
	}
	try.Refuses(Open(w.dir, "train", OpenOptions{FeatureDType: "f32"}))(t, "feature_dtype is f32")
}

func TestOpenDevUsesTheFirst5000Captions(t *testing.T) {
	w := newWorld(t, 1014, 5, true, "dev", "test")
	dev := w.open(t, "dev", OpenOptions{})
	if dev.NumCaptions() != 5000 || dev.NumImages() != 1000 {
		t.Errorf("dev: %d captions, %d images", dev.NumCaptions(), dev.NumImages())
	}
	if s := w.open(t, "dev", OpenOptions{MaxCaptions: -1}); s.NumCaptions() != 5070 || s.NumImages() != 1014 {
		t.Errorf("all of dev: %d captions, %d images", s.NumCaptions(), s.NumImages())
	}
	if s := w.open(t, "test", OpenOptions{}); s.NumCaptions() != 5070 {
		t.Errorf("test: %d captions", s.NumCaptions())
	}
	if s := w.open(t, "test", OpenOptions{MaxCaptions: 17}); s.NumCaptions() != 15 || s.NumImages() != 3 {
		t.Errorf("first 17: %d captions, %d images", s.NumCaptions(), s.NumImages())
	}
}

func TestOpenErrors(t *testing.T) {
	cases := []struct {
		name  string
		spoil func(t *testing.T, w *world)
		o     OpenOptions
		want  []string
	}{
		{"missing split", func(t *testing.T, w *world) {
			os.Rename(w.path("train_caps.txt"), w.path("test_caps.txt"))
			os.Remove(w.path("train_ims.npy"))
			w.write(t, "dev_caps.txt", "x\n")
		}, OpenOptions{}, []string{`no split "train"`, "found dev, test"}},
		{"no captions", func(t *testing.T, w *world) { os.Remove(w.path("train_caps.txt")) }, OpenOptions{},
			[]string{"train_ims.npy) but no captions: expected ", "train_caps.txt", "to search for images"}},
		{"no splits", func(t *testing.T, w *world) {
			os.Remove(w.path("train_caps.txt"))
			os.Remove(w.path("train_ims.npy"))
		}, OpenOptions{Partial: true}, []string{"has no splits", "; missing here: train_caps.txt, train_ims.npy"}},
		{"precomp below", func(t *testing.T, w *world) {
			os.Mkdir(w.path("precomp"), 0o755)
			os.Rename(w.path("train_caps.txt"), w.path("precomp/train_caps.txt"))
			os.Remove(w.path("train_ims.npy"))
		}, OpenOptions{}, []string{"precomp with data.dir"}},
		{"no folder", func(t *testing.T, w *world) { os.RemoveAll(w.dir) }, OpenOptions{}, []string{"no such folder"}},
		{"no features", func(t *testing.T, w *world) { os.Remove(w.path("train_ims.npy")) }, OpenOptions{},
			[]string{"no features", "train_ims.npy", "data convert"}},
		{"empty caption file", func(t *testing.T, w *world) { w.write(t, "train_caps.txt", "") }, OpenOptions{},
			[]string{"train_caps.txt: the file is empty"}},
		{"not utf-8", func(t *testing.T, w *world) {
			w.write(t, "train_caps.txt", strings.Replace(w.read(t, "train_caps.txt"), "dog", "d\xf6g", 1))
		}, OpenOptions{}, []string{"train_caps.txt:2", "UTF-8"}},
		{"empty caption", func(t *testing.T, w *world) {
			w.write(t, "train_caps.txt", strings.Replace(w.read(t, "train_caps.txt"), w.caption(6)+"\n", " \t\n", 1))
		}, OpenOptions{}, []string{"train_caps.txt:7: empty caption (1 in all)"}},
		{"one caption too few", func(t *testing.T, w *world) {
			s := w.read(t, "train_caps.txt")
			w.write(t, "train_caps.txt", s[:strings.LastIndex(s[:len(s)-1], "\n")+1])
		}, OpenOptions{}, []string{"24 captions do not fit 5 image rows",
			"write the id of its image for each caption into", "train_ids.txt"}},
		{"explicit k", nil, OpenOptions{CaptionsPerImage: 3}, []string{"data.captions_per_image " +
			"(--captions-per-image) is 3, but there are 25 captions for 5 image rows, 5 for each"}},
		{"explicit k does not divide", func(t *testing.T, w *world) {
			w.array(t, "train_ims.npy", []int{25, 2}, make([]float32, 50))
			os.Remove(w.path("train_ids.txt"))
		},
			OpenOptions{CaptionsPerImage: 3}, []string{"25 captions are not a multiple of 3"}},
		{"negative k", nil, OpenOptions{CaptionsPerImage: -1}, []string{"captions per image -1"}},
		{"truncated features", func(t *testing.T, w *world) { os.Truncate(w.path("train_ims.npy"), 300) },
			OpenOptions{}, []string{"train_ims.npy", "truncated"}},
		{"header only", func(t *testing.T, w *world) { os.Truncate(w.path("train_ims.npy"), 20) }, OpenOptions{},
			[]string{"train_ims.npy"}},
		{"four dimensions", func(t *testing.T, w *world) {
			w.array(t, "train_ims.npy", []int{5, 2, 3, 2}, make([]float32, 60))
		}, OpenOptions{}, []string{"train_ims.npy: shape [5 2 3 2]", "[rows, regions, features]"}},
		{"objects", func(t *testing.T, w *world) { // np.save(f, np.array([[1], [2, 3]], dtype=object))
			head := "{'descr': '|O', 'fortran_order': False, 'shape': (2,), }"
			b := fmt.Sprintf("\x93NUMPY\x01\x00%c\x00%-117s\nPICKLED", 118, head)
			try.Do(t, os.WriteFile(w.path("train_ims.npy"), []byte(b), 0o666))
		}, OpenOptions{}, []string{"train_ims.npy: elements of type object", "the same number of regions"}},
		{"no regions", func(t *testing.T, w *world) { w.array(t, "train_ims.npy", []int{5, 0, 4}, nil) }, OpenOptions{},
			[]string{"shape [5 0 4]"}},
		{"integers", func(t *testing.T, w *world) {
			f := try.Get(npy.Create(w.path("train_ims.npy"), npy.I32, []int{5, 2}))(t)
			f.WriteInts(make([]int64, 10))
			f.Close()
		}, OpenOptions{}, []string{"found int32", "scale", "--scale S"}},
		{"bad dtype option", nil, OpenOptions{FeatureDType: "f8"}, []string{`feature type "f8"`}},
		{"ids mismatch", func(t *testing.T, w *world) { w.write(t, "train_ids.txt", "a\nb\n") }, OpenOptions{},
			[]string{"train_ids.txt: 2 ids for the 5 image rows of train_ims.npy and 25 captions"}},
		{"ids of other captions", func(t *testing.T, w *world) {
			w.write(t, "train_ids.txt", strings.Repeat("a\n", 4)+strings.Repeat("b\n", 6)+strings.Repeat("c\n", 15))
		}, OpenOptions{}, []string{"train_ids.txt: 3 runs of equal ids", "train_ims.npy has 5 rows"}},
		{"an id comes back", func(t *testing.T, w *world) {
			w.array(t, "train_ims.npy", []int{25, 1}, make([]float32, 25))
			w.write(t, "train_ids.txt", strings.Repeat("a\n", 5)+strings.Repeat("b\n", 4)+strings.Repeat("a\n", 16))
		}, OpenOptions{}, []string{"train_ids.txt:10", `id "a" again`, "which line 1 has"}},
		{"semantics missing", nil, OpenOptions{Semantics: "none.npy"}, []string{"none.npy", "precompute-svd"}},
	}
	for _, c := range cases {
		w := newWorld(t, 5, 5, false, "train")
		if c.spoil != nil {
			c.spoil(t, w)
		}
		try.Refuses(Open(w.dir, "train", c.o))(t, c.want...)
	}
}

// White space at the ends of lines is left out, carriage returns too.
func TestOpenAllowsEmptyCaptionsWhenAsked(t *testing.T) {
	w := newWorld(t, 5, 5, false, "train")
	w.write(t, "train_caps.txt", strings.Replace(w.read(t, "train_caps.txt"), w.caption(6)+"\n", "\r\n", 1))
	s := w.open(t, "train", OpenOptions{AllowEmpty: true})
	if s.Caption(6) != "" || s.Caption(7) != w.caption(7) {
		t.Errorf("captions %q, %q", s.Caption(6), s.Caption(7))
	}
}

func TestFiniteRowsAreExaminedOnce(t *testing.T) {
	w := newWorld(t, 5, 5, false, "train")
	s := w.open(t, "train", OpenOptions{})
	value := float32(1)
	s.images = matrix{5, 12, func(int, int) float32 { return value }}
	row := make([]float32, 12)
	for _, v := range []float32{1, float32(math.NaN())} {
		value = v
		if err := s.ReadImage(row, 3); err != nil {
			t.Errorf("row 3 holding %v: %v", v, err)
		}
	}
	if err := s.ReadImage(row, 2); err == nil {
		t.Error("NaN in a row that was not examined before")
	}
}

func FuzzSplitLines(f *testing.F) {
	f.Add("a dog .\r\n\n\ufeff b \xff\n")
	for _, s := range []string{"", "\n", "a", "a\nb\n", "a\n\n", "a\r\n b \u00a0\r\n", "a\rb\n", "\ufeff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		l := splitLines("f", s)
		want := strings.Split(strings.TrimSuffix(s, "\n"), "\n")
		if s == "" {
			want = nil
		}
		if l.len() != len(want) {
			t.Fatalf("%q: %d lines, want %d", s, l.len(), len(want))
		}
		for i, w := range want {
			if got := l.line(i); got != strings.TrimFunc(w, text.IsSpace) {
				t.Errorf("%q: line %d is %q, want %q trimmed", s, i, got, w)
			}
		}
	})
}

func TestSemanticsMustFitTheCaptions(t *testing.T) {
	w := newWorld(t, 5, 5, false, "train")
	w.array(t, "sem.npy", []int{24, 2}, make([]float32, 48))
	try.Refuses(Open(w.dir, "train", OpenOptions{Semantics: w.path("sem.npy")}))(t, "24 semantic vectors",
		"25 captions")
	w.array(t, "sem.npy", []int{50}, make([]float32, 50))
	try.Refuses(Open(w.dir, "train", OpenOptions{Semantics: w.path("sem.npy")}))(t, "[captions, k]")
	s := w.open(t, "train", OpenOptions{})
	try.Do(t, s.AttachSemantics(matrix{25, 3, func(r, c int) float32 { return float32(math.Inf(r - 7)) }},
		"svd"))
	try.Fails(t, s.ReadSemantics(make([]float32, 3), 9), "svd: row 9")
}

// A split may have images alone or captions alone. Rows of images alone are images, unless their ids are equal in
// groups, or their features where there are no ids.
func TestOpenPartial(t *testing.T) {
	for _, c := range []struct {
		name              string
		repeated          bool
		ids               string // "-" for none, "" for those that are written
		gone              string
		images, captions  int
		id                string // of image 2
		regions, perImage int
	}{
		{"gallery", false, "", "caps.txt", 5, 0, "im2", 3, 0},
		{"gallery without ids", false, "-", "caps.txt", 5, 0, "2", 3, 0},
		{"repeated rows with ids", true, "", "caps.txt", 5, 0, "im2", 3, 0},
		{"repeated rows without ids", true, "-", "caps.txt", 5, 0, "10", 3, 0},
		{"ids that differ", true, strings.Join(strings.Split("abcdefghijklmnopqrstuvwxy", ""), "\n"), "caps.txt", 25, 0,
			"c", 3, 0},
		{"captions", false, "-", "ims.npy", 25, 25, "2", 0, 1},
		{"captions with an id for each image", false, "", "ims.npy", 5, 25, "im2", 0, 5},
		{"captions with an id for each", true, "", "ims.npy", 5, 25, "im2", 0, 5},
	} {
		w := newWorld(t, 5, 5, c.repeated, "dev")
		if c.ids == "-" {
			os.Remove(w.path("dev_ids.txt"))
		} else if c.ids != "" {
			w.write(t, "dev_ids.txt", c.ids)
		}
		os.Remove(w.path("dev_" + c.gone))
		s := w.open(t, "dev", OpenOptions{Partial: true, WordIDs: true, Dependencies: "check"})
		if s.NumImages() != c.images || s.NumCaptions() != c.captions || s.Regions() != c.regions ||
			s.Groups().Each() != c.perImage || s.ImageID(s.RowOf(2)) != c.id {
			t.Errorf("%s: %d images, %d captions, %d regions, %d captions per image, image %s", c.name, s.NumImages(),
				s.NumCaptions(), s.Regions(), s.Groups().Each(), s.ImageID(s.RowOf(2)))
		}
		if err := Need(s, c.regions > 0, c.captions > 0); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if Need(s, true, true) == nil {
			t.Errorf("%s: needs nothing", c.name)
		}
		if c.regions > 0 {
			row := make([]float32, 12)
			if err := s.ReadImage(row, s.RowOf(2)); err != nil || c.images == 5 && row[1] != w.feature(2, 1) {
				t.Errorf("%s: %v, %v", c.name, row, err)
			}
			if _, err := NewCaptionLoader(s, vocab(t), nil, LoaderOptions{Batch: 2}); err == nil {
				t.Errorf("%s: captions are loaded", c.name)
			}
		} else if _, err := NewImageLoader(s, LoaderOptions{Batch: 2}); err == nil ||
			!strings.Contains(err.Error(), "no features") {
			t.Errorf("%s: %v", c.name, err)
		}
		if r, err := Check(w.dir, CheckOptions{}); err != nil || !r.OK() || len(r.Splits) != 1 {
			t.Errorf("%s: %+v, %v", c.name, r, err)
		}
	}
}

// What is odd and no error is told, if somebody wants to know.
func TestOpenWarns(t *testing.T) {
	w := newWorld(t, 6, 5, false, "train")
	w.write(t, "train_ids.txt", "a\nb\nc\nd\nb.jpg\ne\n")
	padded := make([]float32, 72)
	for i := range padded {
		if i%12 < 8 { // of three regions the last is zeros
			padded[i] = 1
		}
	}
	w.array(t, "train_ims.npy", []int{6, 3, 4}, padded)
	var told []string
	w.open(t, "train", OpenOptions{Warn: func(err error) { told = append(told, err.Error()) }})
	for i, want := range []string{"ids of images repeat", "the last regions of 6 of 6 rows"} {
		if len(told) != 2 || !strings.Contains(told[i], want) {
			t.Errorf("%q, expected %q as number %d", told, want, i)
		}
	}
}
