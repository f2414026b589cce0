package convert

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
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
	o := target(out)
	try.Get(o.from("folder", src))(t)
	checkSplit(t, out, "x", npy.F32, c, b, a)
	named, four := made("12a", 3, 5), made("4", 3, 5) // names stand after all numbers
	store(t, src, named, [2]string{"x", "bbox"})
	store(t, src, four, [2]string{"x", "bbox"})
	try.Get(target(filepath.Join(dir, "named")).from("folder", src))(t)
	checkSplit(t, filepath.Join(dir, "named"), "x", npy.F32, c, four, b, a, named)
	for _, id := range []string{"12a", "4"} {
		try.Do(t, os.Remove(filepath.Join(src, id+".npz")))
	}
	o.Splits = []Split{{"train", write(t, dir, "t.txt", "100\n3\n3\n")}}
	record := write(t, out, "train_extractor.json", "{}") // of features that are replaced
	rep := try.Get(o.from("folder", src))(t)
	if _, err := os.Stat(record); err == nil {
		t.Error("the record of the model of other features stays")
	}
	checkSplit(t, out, "train", npy.F32, a, c, c)
	if rep.Unused != 1 || rep.Records != 3 {
		t.Errorf("report %+v", rep)
	}
	o.Splits = []Split{{"dev", write(t, dir, "d.txt", "3\n77\n")}}
	try.Refuses(o.from("folder", src))(t, "d.txt", "77 (line 2)", src)

	o.Splits, o.Features = []Split{{Name: "dev"}}, "pooled"
	try.Refuses(o.from("folder", src))(t, "3.npz", `"pooled"`, "bbox")
}

func TestNPZWholeSplit(t *testing.T) {
	dir := t.TempDir()
	a, b := made("0", 3, 5), made("1", 3, 5)
	path := filepath.Join(dir, "all.npz")
	members := map[string][]byte{
		"features": npyBytes("<f4", slices.Concat(a.features, b.features), 2, 3, 5),
		"boxes":    npyBytes("<f8", wide(slices.Concat(a.boxes, b.boxes)), 2, 3, 4),
		"size":     npyBytes("<i4", []int32{int32(a.w), int32(a.h), int32(b.w), int32(b.h)}, 2, 2),
	}
	npz(t, path, members)
	o := target(filepath.Join(dir, "out"))
	try.Get(o.from(".npz", path))(t)
	checkSplit(t, o.Out, "x", npy.F32, a, b)

	o.Splits = []Split{{"dev", write(t, dir, "ids.txt", "1\n2\n3\n")}}
	try.Refuses(o.from(".npz", path))(t, "ids.txt", "expected 2 ids", "found 3")

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
		bad := maps.Clone(members)
		bad[c.member] = c.bytes
		npz(t, path, bad)
		try.Refuses(o.from(".npz", path))(t, "all.npz", c.want)
		if _, err := os.Stat(filepath.Join(o.Out, "dev_ims.npy")); err == nil {
			t.Errorf("%s: an incomplete file was left", name)
		}
	}
	write(t, dir, "all.npz", "not a zip file")
	try.Refuses(o.from(".npz", path))(t, "all.npz", "not a readable .npz archive")
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
	o := to(filepath.Join(dir, "out"))
	for name, c := range map[string]struct {
		method uint16
		rows   int
	}{"stored": {zip.Store, 1 << 33}, "deflated": {zip.Deflate, 1 << 33}, "stored, few": {zip.Store, 1 << 10}} {
		path := write(t, dir, "lie.npz", string(lying(c.method, c.rows)))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := o.from(".npz", path)
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
	try.Refuses(o.from(".npz", write(t, dir, "lie.npz", string(raw))))(t, "features.npy",
		"claims 1073741824 bytes in an archive of")
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
		o := to(filepath.Join(t.TempDir(), "out"))
		if _, err := o.from(".npz", write(t, dir, "fuzz.npz", string(b))); err != nil {
			leftovers(t, o.Out)
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
		a := try.Get(openArchive(path, &Options{}))(t)
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
	path := func(name string) string { return filepath.Join(dir, name) }
	half, wide := Options{Out: path("h.npy"), DType: npy.F16}, Options{Out: path("b.npy"), DType: npy.F32}
	p := made("1", 6, 5)
	try.Do(t, npy.WriteFloat32(path("a.npy"), []int{2, 3, 5}, p.features))
	try.Get(half.from(".npy", path("a.npy")))(t)
	try.Get(wide.from(".npy", path("h.npy")))(t)
	if f := opened(t, dir, "h.npy"); f.DType != npy.F16 || len(f.Shape) != 3 {
		t.Errorf("type %s, shape %v", f.DType, f.Shape)
	}
	checkRows(t, path("b.npy"), picture{features: p.features[:15]}, picture{features: p.features[15:]})
	try.Refuses(half.from(".npy", path("a.npy")))(t, "already exists")
	half.Out, half.Force = path("a.npy"), true // in place
	try.Get(half.from(".npy", path("a.npy")))(t)
	half.Out, wide.Out = path("c.npy"), path("c.npy")
	p.features[7] = 1e5
	try.Do(t, npy.WriteFloat32(path("b.npy"), []int{2, 3, 5}, p.features))
	try.Refuses(half.from(".npy", path("b.npy")))(t, "row 0", "100000")
	p.features[7] = float32(math.Inf(1))
	try.Do(t, npy.WriteFloat32(path("b.npy"), []int{2, 3, 5}, p.features))
	try.Refuses(wide.from(".npy", path("b.npy")))(t, "row 0", "region 1, channel 2 is +Inf")
}

// Other types become float32, and an error says what to do with what is refused.
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
		{npy.U8, []int{2, 3}, 0, "", "found uint8: integers need --scale"},
		{npy.F32, []int{1, 1, 3, 2}, 0, "", "--squeeze 1"},
		{npy.F32, []int{1, 3, 1, 2}, 0, "nchw", "[1 2 3] 1 3 5 2 4 6"},
		{npy.U8, []int{1, 1, 2, 3}, 2, "nhwc", "[1 2 3] 2 4 6 8 10 12"},
		{npy.F32, []int{2, 3}, 0, "nchw", "--grid nchw expects 4 axes"},
	} {
		src := filepath.Join(dir, "src.npy")
		w := try.Get(npy.Create(src, c.dtype, c.shape))(t)
		try.Do(t, errors.Join(w.WriteFloat32([]float32{1, 2, 3, 4, 5, 6}), w.Close()))
		o := Options{Out: filepath.Join(dir, "dst.npy"), DType: npy.F32, Scale: c.scale, Axes: Axes{Grid: c.grid},
			Force: true}
		_, err := o.from(".npy", src)
		if !strings.HasPrefix(c.want, "[") {
			try.Fails(t, err, c.want)
			continue
		}
		try.Do(t, err)
		f := opened(t, dir, "dst.npy")
		v := try.Get(f.Float64s())(t)
		if got := fmt.Sprint(f.Shape) + " " + strings.Trim(fmt.Sprint(v), "[]"); got != c.want {
			t.Errorf("%v %s: %s, want %s", c.shape, c.dtype, got, c.want)
		}
	}
}

// Means are added in the order of the regions, in float32: NumPy's x.mean(1) has the same bits.
func TestRetypeMean(t *testing.T) {
	dir := t.TempDir()
	src, dst := filepath.Join(dir, "a_ims.npy"), filepath.Join(dir, "b_ims.npy")
	try.Do(t, npy.WriteFloat32(src, []int{2, 3, 2}, []float32{1e8, 1, 1, 2, -1e8, 4, .1, .2, .3, .4, .5, .7}))
	o := Options{Out: dst, DType: npy.F32, Mean: true}
	try.Get(o.from(".npy", src))(t)
	f := opened(t, dir, "b_ims.npy")
	for i, want := range [][]uint32{{0, 0x40155555}, {0x3e999999, 0x3edddddd}} {
		got := make([]float32, 2)
		try.Do(t, f.ReadRow(got, i))
		if len(f.Shape) != 2 || math.Float32bits(got[0]) != want[0] || math.Float32bits(got[1]) != want[1] {
			t.Errorf("row %d of the shape %v is %x %x, want %x", i, f.Shape, math.Float32bits(got[0]),
				math.Float32bits(got[1]), want)
		}
	}
	o.Out = filepath.Join(dir, "c.npy")
	try.Refuses(o.from(".npy", dst))(t, "expected regions [N, R, D]")
	write(t, dir, "a_lengths.npy", "")
	try.Refuses(o.from(".npy", src))(t, "_lengths.npy")
}
