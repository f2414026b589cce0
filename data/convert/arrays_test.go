package convert

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"vsetrain/internal/files/npy"
	"vsetrain/lab/try"
)

// store writes a picture as the archive of one image.
func store(t testing.TB, dir string, p picture, keys [2]string) {
	t.Helper()
	r := len(p.boxes) / 4
	npz(t, filepath.Join(dir, p.id+".npz"), map[string][]byte{
		keys[0]: npyBytes("<f4", p.features, r, len(p.features)/r), keys[1]: npyBytes("<f4", p.boxes, r, 4),
		"image_w": npyBytes("<i8", int64(p.w)), "image_h": npyBytes("<i8", int64(p.h)), "num_bbox": npyBytes("<i8",
			int64(r)),
	})
}

func TestNPZFolder(t *testing.T) {
	dir := t.TempDir()
	src := filepath.Join(dir, "src")
	try.Do(t, os.Mkdir(src, 0o777))
	a, b, c := made("100", 3, 5), made("20", 3, 5), made("3", 3, 5)
	for _, p := range []picture{a, b, c} {
		store(t, src, p, [2]string{"x", "bbox"})
	}
	out := filepath.Join(dir, "out")
	o := ArrayOptions{Target: target(out, Split{Name: "all"}), Path: src}
	try.Get(Arrays(o, nil))(t)
	checkSplit(t, out, "all", npy.F32, c, b, a)
	named, four := made("12a", 3, 5), made("4", 3, 5) // names stand after all numbers
	store(t, src, named, [2]string{"x", "bbox"})
	store(t, src, four, [2]string{"x", "bbox"})
	try.Get(Arrays(ArrayOptions{Target: target(filepath.Join(dir, "named"), Split{Name: "all"}), Path: src}, nil))(t)
	checkSplit(t, filepath.Join(dir, "named"), "all", npy.F32, c, four, b, a, named)
	for _, id := range []string{"12a", "4"} {
		try.Do(t, os.Remove(filepath.Join(src, id+".npz")))
	}
	o.Splits = []Split{{"train", write(t, dir, "t.txt", "100\n3\n3\n")}}
	record := write(t, out, "train_extractor.json", "{}") // of features that are replaced
	rep := try.Get(Arrays(o, nil))(t)
	if _, err := os.Stat(record); err == nil {
		t.Error("the record of the model of other features stays")
	}
	checkSplit(t, out, "train", npy.F32, a, c, c)
	if rep.Unused != 1 || rep.Records != 3 {
		t.Errorf("report %+v", rep)
	}
	o.Splits = []Split{{"dev", write(t, dir, "d.txt", "3\n77\n")}}
	try.Refuses(Arrays(o, nil))(t, "d.txt", "77 (line 2)", src)

	o.Splits, o.Features = []Split{{Name: "dev"}}, "pooled"
	try.Refuses(Arrays(o, nil))(t, "3.npz", `"pooled"`, "bbox")
}

func TestNPZWholeSplit(t *testing.T) {
	dir := t.TempDir()
	a, b := made("0", 3, 5), made("1", 3, 5)
	path := filepath.Join(dir, "all.npz")
	members := map[string][]byte{
		"features": npyBytes("<f4", append(append([]float32(nil), a.features...), b.features...), 2, 3, 5),
		"boxes":    npyBytes("<f8", wide(append(append([]float32(nil), a.boxes...), b.boxes...)), 2, 3, 4),
		"size":     npyBytes("<i4", []int32{int32(a.w), int32(a.h), int32(b.w), int32(b.h)}, 2, 2),
	}
	npz(t, path, members)
	out := filepath.Join(dir, "out")
	o := ArrayOptions{Target: target(out, Split{Name: "test"}), Path: path}
	try.Get(Arrays(o, nil))(t)
	checkSplit(t, out, "test", npy.F32, a, b)

	o.Splits = []Split{{"dev", write(t, dir, "ids.txt", "1\n2\n3\n")}}
	try.Refuses(Arrays(o, nil))(t, "ids.txt", "expected 2 ids", "found 3")

	o.Splits = []Split{{Name: "dev"}}
	for name, c := range map[string]struct {
		member string
		bytes  []byte
		want   string
	}{
		"rank":      {"features", npyBytes("<f4", a.features, 3, 5), "found shape [3 5]"},
		"boxes":     {"boxes", npyBytes("<f4", a.boxes, 1, 3, 4), "expected shape [2 3 4], found [1 3 4]"},
		"truncated": {"features", members["features"][:len(members["features"])-5], "truncated"},
		"type":      {"features", npyBytes(">f4", a.features, 1, 3, 5), "big-endian type"},
		"order": {"size", bytes.Replace(npyBytes("<f4", []float32{1, 2, 3, 4}, 2, 2), []byte("False"),
			[]byte("True "), 1), "Fortran order"},
		"not npy": {"features", []byte("hello"), "not a .npy file"},
		"sizes": {"size", npyBytes("<f4", []float32{1, 2, 3.5, 4}, 2, 2), "row 1 (image 1): expected a picture " +
			"size in whole pixels"},
		"absurd": {"features", npyBytes("<f4", a.features, 1<<40, 1<<40, 5), "too large"},
	} {
		bad := map[string][]byte{}
		for k, v := range members {
			bad[k] = v
		}
		bad[c.member] = c.bytes
		npz(t, path, bad)
		try.Refuses(Arrays(o, nil))(t, "all.npz", c.want)
		if _, err := os.Stat(filepath.Join(out, "dev_ims.npy")); err == nil {
			t.Errorf("%s: an incomplete file was left", name)
		}
	}
	write(t, dir, "all.npz", "not a zip file")
	try.Refuses(Arrays(o, nil))(t, "all.npz", "not a readable .npz archive")
}

func wide(v []float32) []float64 {
	w := make([]float64, len(v))
	for i, x := range v {
		w[i] = float64(x)
	}
	return w
}

// lying returns an archive whose member holds the header of an array of n rows and claims to hold their data, too.
func lying(method uint16, n int) []byte {
	head := npyBytes("<f4", []float32{}, n, 1, 1)
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	h := &zip.FileHeader{Name: "features.npy", Method: method, CompressedSize64: uint64(len(head)),
		UncompressedSize64: uint64(len(head) + 4*n)}
	w, err := z.CreateRaw(h)
	if err == nil {
		_, err = w.Write(head)
	}
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		panic(err)
	}
	return b.Bytes()
}

// An archive that claims rows it cannot hold is refused before memory is taken for them.
func TestNPZThatLies(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		method uint16
		rows   int
	}{"stored": {zip.Store, 1 << 33}, "deflated": {zip.Deflate, 1 << 33}, "stored, few": {zip.Store, 1 << 10}} {
		path := write(t, dir, "lie.npz", string(lying(c.method, c.rows)))
		o := ArrayOptions{Target: Target{Out: filepath.Join(dir, "out"), Splits: []Split{{Name: "test"}},
			DType: npy.F32}, Path: path}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Arrays(o, nil)
		runtime.ReadMemStats(&after)
		if grown := after.TotalAlloc - before.TotalAlloc; grown > 4<<20 {
			t.Errorf("%s: allocated %d bytes", name, grown)
		}
		try.Fails(t, err, "lie.npz", "features.npy", "which it cannot")
	}
	raw := lying(zip.Store, 1<<10)
	at := bytes.LastIndex(raw, []byte("PK\x01\x02"))
	binary.LittleEndian.PutUint32(raw[at+20:], 1<<30)
	binary.LittleEndian.PutUint32(raw[at+24:], 1<<30)
	o := ArrayOptions{Target: Target{Out: filepath.Join(dir, "out"), Splits: []Split{{Name: "test"}}, DType: npy.F32},
		Path: write(t, dir, "lie.npz", string(raw))}
	try.Refuses(Arrays(o, nil))(t, "features.npy", "claims 1073741824 bytes in an archive of")
}

// FuzzNPZ checks that no archive makes a conversion panic or take much memory.
func FuzzNPZ(f *testing.F) {
	dir := f.TempDir()
	p := made("1", 2, 3)
	npz(f, filepath.Join(dir, "good.npz"), map[string][]byte{"features": npyBytes("<f4", p.features, 1, 2, 3),
		"bbox": npyBytes("<f4", p.boxes, 1, 2, 4), "size": npyBytes("<i4", []int32{9, 7}, 1, 2)})
	good := try.Get(os.ReadFile(filepath.Join(dir, "good.npz")))(f)
	f.Add(good)
	f.Add(lying(zip.Store, 1<<29))
	f.Add(lying(zip.Deflate, 1<<33))
	f.Fuzz(func(t *testing.T, b []byte) {
		path, out := filepath.Join(dir, "fuzz.npz"), filepath.Join(t.TempDir(), "out")
		try.Do(t, os.WriteFile(path, b, 0o666))
		o := ArrayOptions{Target: Target{Out: out, Splits: []Split{{Name: "test"}}, DType: npy.F32}, Path: path}
		if _, err := Arrays(o, nil); err != nil {
			leftovers(t, out)
		}
	})
}

func FuzzMemberHeader(f *testing.F) {
	f.Add(npyBytes("<f4", []float32{1, 2}, 2))
	f.Add(npyBytes("<f2", []uint16{1, 2, 3, 4}, 2, 2))
	f.Add([]byte("\x93NUMPY\x02\x00\xff\xff\xff\xff"))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, b []byte) {
		path := filepath.Join(dir, "fuzz.npz")
		npz(t, path, map[string][]byte{"x": b})
		a := try.Get(openArchive(path, &ArrayOptions{}))(t)
		defer a.Close()
		m, err := a.array("x", nil)
		if err != nil {
			return
		}
		defer m.Close()
		n := 1
		for _, d := range m.Shape {
			n *= d
		}
		if err := read(m, make([]float64, n)); err != nil {
			t.Fatalf("shape %v of %s was accepted but cannot be read: %v", m.Shape, m.DType, err)
		}
	})
}

func TestRetype(t *testing.T) {
	dir := t.TempDir()
	p := made("1", 6, 5)
	src, h, back := filepath.Join(dir, "a.npy"), filepath.Join(dir, "h.npy"), filepath.Join(dir, "b.npy")
	try.Do(t, npy.WriteFloat32(src, []int{2, 3, 5}, p.features))
	try.Do(t, Retype(src, h, RetypeOptions{DType: npy.F16}, nil))
	try.Do(t, Retype(h, back, RetypeOptions{DType: npy.F32}, nil))
	f := opened(t, dir, "h.npy")
	if f.DType != npy.F16 || len(f.Shape) != 3 {
		t.Errorf("type %s, shape %v", f.DType, f.Shape)
	}
	a, b := opened(t, dir, "a.npy"), opened(t, dir, "b.npy")
	for i := range 2 {
		x, y := make([]float32, 15), make([]float32, 15)
		try.Do(t, a.ReadRow(x, i))
		try.Do(t, b.ReadRow(y, i))
		if !equal(x, y) {
			t.Errorf("row %d changed: %v, %v", i, x, y)
		}
	}
	try.Fails(t, Retype(src, h, RetypeOptions{DType: npy.F16}, nil), "already exists")
	if err := Retype(src, src, RetypeOptions{DType: npy.F16, Force: true}, nil); err != nil {
		t.Errorf("in place: %v", err)
	}
	p.features[7] = 1e5
	try.Do(t, npy.WriteFloat32(back, []int{2, 3, 5}, p.features))
	try.Fails(t, Retype(back, filepath.Join(dir, "c.npy"), RetypeOptions{DType: npy.F16}, nil), "row 0", "100000")
	p.features[7] = float32(math.Inf(1))
	try.Do(t, npy.WriteFloat32(back, []int{2, 3, 5}, p.features))
	try.Fails(t, Retype(back, filepath.Join(dir, "c.npy"), RetypeOptions{DType: npy.F32}, nil), "row 0",
		"region 1, channel 2 is +Inf")
	try.Fails(t, Retype(back, filepath.Join(dir, "c.npy"), RetypeOptions{DType: npy.F64}, nil), "feature type")
}

// Retype makes float32 of float64, and says what to do with what it does not take.
func TestRetypeTypes(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		dtype npy.DType
		shape []int
		scale float64
		grid  string
		want  string // error, or the result
	}{
		{npy.F64, []int{2, 3}, 0, "", "[2 3] 1 2 3 4 5 6"},
		{npy.F32, []int{2, 3}, 10, "", "[2 3] 10 20 30 40 50 60"},
		{npy.U8, []int{2, 3}, 0.5, "", "[2 3] 0.5 1 1.5 2 2.5 3"},
		{npy.I64, []int{1, 2, 3}, 1, "", "[1 2 3] 1 2 3 4 5 6"},
		{npy.U8, []int{2, 3}, 0, "", "found uint8; its numbers stand for others: say with --scale"},
		{npy.F32, []int{1, 1, 3, 2}, 0, "", "--squeeze 1"},
		{npy.F32, []int{1, 3, 1, 2}, 0, "nchw", "[1 2 3] 1 3 5 2 4 6"},
		{npy.U8, []int{1, 1, 2, 3}, 2, "nhwc", "[1 2 3] 2 4 6 8 10 12"},
		{npy.F32, []int{2, 3}, 0, "nchw", "--grid nchw expects 4 axes"},
		{npy.F32, []int{2, 3}, math.Inf(1), "", "scale: expected a number > 0"},
		{npy.F32, []int{2, 3}, 0, "hwc", "grid: expected nchw or nhwc"},
	} {
		src, dst := filepath.Join(dir, "src.npy"), filepath.Join(dir, "dst.npy")
		w, err := npy.Create(src, c.dtype, c.shape)
		if err == nil {
			err = w.WriteFloat32([]float32{1, 2, 3, 4, 5, 6})
		}
		if err == nil {
			err = w.Close()
		}
		try.Do(t, err)
		o := RetypeOptions{DType: npy.F32, Scale: c.scale, Axes: Axes{Grid: c.grid}, Force: true}
		err = Retype(src, dst, o, nil)
		if !strings.HasPrefix(c.want, "[") {
			try.Fails(t, err, c.want)
			continue
		}
		if err != nil {
			t.Error(err)
			continue
		}
		f := try.Get(npy.Open(dst))(t)
		v, err := f.Float64s()
		if got := fmt.Sprint(f.Shape) + " " + strings.Trim(fmt.Sprint(v), "[]"); err != nil || got != c.want {
			t.Errorf("%v %s: %s, %v, want %s", c.shape, c.dtype, got, err, c.want)
		}
		f.Close()
	}
}

// Means are added in the order of the regions, in float32: NumPy's x.mean(1) has the same bits.
func TestRetypeMean(t *testing.T) {
	dir := t.TempDir()
	src, dst := filepath.Join(dir, "a_ims.npy"), filepath.Join(dir, "b_ims.npy")
	try.Do(t, npy.WriteFloat32(src, []int{2, 3, 2}, []float32{1e8, 1, 1, 2, -1e8, 4, .1, .2, .3, .4, .5, .7}))
	try.Do(t, Retype(src, dst, RetypeOptions{DType: npy.F32, Mean: true}, nil))
	f := opened(t, dir, "b_ims.npy")
	for i, want := range [][]uint32{{0, 0x40155555}, {0x3e999999, 0x3edddddd}} {
		got := make([]float32, 2)
		try.Do(t, f.ReadRow(got, i))
		if len(f.Shape) != 2 || math.Float32bits(got[0]) != want[0] || math.Float32bits(got[1]) != want[1] {
			t.Errorf("row %d of the shape %v is %x %x, want %x", i, f.Shape, math.Float32bits(got[0]),
				math.Float32bits(got[1]), want)
		}
	}
	try.Fails(t, Retype(dst, filepath.Join(dir, "c.npy"), RetypeOptions{DType: npy.F32, Mean: true}, nil),
		"expected regions [N, R, D]")
	try.Do(t, os.WriteFile(filepath.Join(dir, "a_lengths.npy"), nil, 0o666))
	try.Fails(t, Retype(src, dst, RetypeOptions{DType: npy.F32, Mean: true, Force: true}, nil), "_lengths.npy")
}
