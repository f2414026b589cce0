package convert

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"vsetrain/internal/compute/philox"
	"vsetrain/internal/files/npy"
	"vsetrain/lab/try"
)

// With Fit, {split}_lengths.npy has the number of regions of each image before it was padded, at most the number of the
// array, where one has fewer; from every kind of source. No earlier one stays where none has.
func TestLengths(t *testing.T) {
	dir := try.MemoryDir(t)
	try.Do(t, os.Mkdir(filepath.Join(dir, "out"), 0o777))
	for seed := range 40 {
		s := philox.NewKey(uint64(seed), "lengths").Stream(0)
		regions, least := 3+s.IntN(4), 1+s.IntN(5)
		var pictures []picture
		var want []int64
		short := false
		src := filepath.Join(dir, fmt.Sprint(seed))
		try.Do(t, os.Mkdir(src, 0o777))
		for i := range 2 + s.IntN(6) {
			n := least + s.IntN(5)
			p := precise(fmt.Sprint(10+i), n, 4)
			pictures = append(pictures, p)
			store(t, src, p, [2]string{"x", "bbox"})
			want, short = append(want, int64(min(n, regions))), short || n < regions
		}
		o := to(filepath.Join(dir, "out"))
		o.Regions, o.Fit, o.Force = regions, true, true
		ids := ""
		for _, p := range pictures {
			ids += p.id + "\n" + p.id + "\n"
		}
		file := tsv(t, dir, "a.tsv", "\n", pictures...)
		for _, name := range []string{"folder", "order", "ids"} {
			write(t, dir, "out/x_lengths.npy", "of another source")
			kind, source := ".tsv", file
			switch name {
			case "folder":
				kind, source = "folder", src
			case "ids":
				o.Splits = []Split{{"x", write(t, dir, "ids.txt", ids)}}
			}
			o.SourceType = "f32"
			try.Get(o.from(kind, source))(t)
			f, err := npy.Open(filepath.Join(o.Out, "x_lengths.npy"))
			if !short {
				if !errors.Is(err, os.ErrNotExist) {
					t.Errorf("seed %d, %s: lengths where no image is padded (%v)", seed, name, err)
				}
				continue
			}
			if err != nil {
				t.Fatalf("seed %d, %s: %v", seed, name, err)
			}
			expected := want
			if name == "ids" {
				expected = nil
				for _, n := range want {
					expected = append(expected, n, n)
				}
			}
			if got := try.Get(f.Ints())(t); f.DType != npy.I32 || len(f.Shape) != 1 || !slices.Equal(got, expected) {
				t.Errorf("seed %d, %s: lengths %v of %s, want %v", seed, name, got, f.DType, expected)
			}
			f.Close()
		}
	}
}

// A folder may hold a .npy for each image, with other axes and types too, and archives beside them.
func TestFolderOfArrays(t *testing.T) {
	dir := t.TempDir()
	a, b, c := made("3", 4, 6), made("20", 4, 6), made("100", 4, 6)
	chw := func(p picture) (v []float32) { // [6, 2, 2]: channels first
		for ch := range 6 {
			for place := range 4 {
				v = append(v, p.features[place*6+ch])
			}
		}
		return v
	}
	for name, test := range map[string]struct {
		files map[string][]byte
		axes  Axes
		want  string // error, or nothing
	}{
		"plain": {map[string][]byte{"3.npy": npyBytes("<f4", a.features, 4, 6), "20.NPY": npyBytes("<f8",
			wide(b.features), 4, 6), "000100.npy": npyBytes("<f4", c.features, 4, 6), "._3.npy": {1},
			"20_info.npy": []byte("dict"), "notes.txt": {1}}, Axes{}, ""},
		"batch axis": {map[string][]byte{"3.npy": npyBytes("<f4", a.features, 1, 4, 6), "20.npy": npyBytes("<f4",
			b.features, 1, 4, 6), "100.npy": npyBytes("<f4", c.features, 1, 4, 6)}, Axes{Squeeze: []int{0}}, ""},
		"batch axis, not told": {map[string][]byte{"3.npy": npyBytes("<f4", a.features, 1, 4, 6)}, Axes{},
			"3.npy: features: expected features [R, D] or [D], found shape [1 4 6]; --squeeze 0 drops"},
		"grid": {map[string][]byte{"3.npy": npyBytes("<f4", chw(a), 6, 2, 2),
			"20.npy": npyBytes("<f4", chw(b), 6, 2, 2), "100.npy": npyBytes("<f4", chw(c), 6, 2, 2)},
			Axes{Grid: "nchw"}, ""},
		"grid, not told": {map[string][]byte{"3.npy": npyBytes("<f4", chw(a), 6, 2, 2)}, Axes{},
			"--grid nchw takes the axes for [C, H, W]: [4 6]; --grid nhwc takes the axes for [H, W, C]: [12 2]"},
		"codes": {map[string][]byte{"3.npy": npyBytes("|u1", make([]byte, 24), 4, 6)}, Axes{},
			"found uint8: integers need --scale"},
		"no such axis": {map[string][]byte{"3.npy": npyBytes("<f4", a.features, 4, 6)}, Axes{Squeeze: []int{1}},
			"shape [4 6] has no axis 1 of length 1"},
		"both": {map[string][]byte{"3.npy": npyBytes("<f4", a.features, 4, 6), "03.npy": npyBytes("<f4", a.features, 4,
			6)}, Axes{}, "are both image 3"},
		"cut off": {map[string][]byte{"3.npy": npyBytes("<f4", a.features[:20], 4, 6)}, Axes{},
			"needs 96 bytes of data, found 80"},
		"not one": {map[string][]byte{"3.npy": []byte("PK\x03\x04" + string(make([]byte, 22)) + "\x0c\x00\x00\x00" +
			"features.npy")}, Axes{}, "a NumPy archive with the array features"},
		"nothing": {map[string][]byte{"notes.txt": {1}}, Axes{}, "{image_id}.npz or {image_id}.npy"},
	} {
		src := filepath.Join(dir, name)
		try.Do(t, os.Mkdir(src, 0o777))
		for f, content := range test.files {
			write(t, src, f, string(content))
		}
		o := to(filepath.Join(dir, name+" out"))
		o.Axes = test.axes
		rep, err := o.from("folder", src)
		if test.want != "" {
			try.Fails(t, err, test.want)
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		checkRows(t, filepath.Join(o.Out, "x_ims.npy"), a, b, c)
		if name == "plain" && len(rep.Notes) != 1 {
			t.Errorf("%s: %q", name, rep.Notes)
		}
	}
	// An archive beside an array, and an image that cannot be read.
	src := filepath.Join(dir, "mixed")
	try.Do(t, os.Mkdir(src, 0o777))
	write(t, src, "3.npy", string(npyBytes("<f4", a.features, 4, 6)))
	npz(t, filepath.Join(src, "20.npz"), map[string][]byte{"feat": npyBytes("<f4", b.features, 4, 6)})
	write(t, src, "7.npy", "\x93NUMPY")
	o := to(filepath.Join(dir, "o"))
	try.Refuses(o.from("folder", src))(t, "7.npy", "--skip-broken")
	o.SkipBroken = true
	if rep := try.Get(o.from("folder", src))(t); len(rep.Broken) != 1 || rep.Rows["x"] != 2 {
		t.Errorf("report %+v", rep)
	}
}
