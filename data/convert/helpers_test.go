package convert

import (
	"archive/zip"
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"vsetrain/internal/compute/philox"
	"vsetrain/internal/files/npy"
	"vsetrain/lab/try"
)

// to are options for split x, or other splits, of float32.
func to(out string, splits ...Split) Options {
	if len(splits) == 0 {
		splits = []Split{{Name: "x"}}
	}
	return Options{Out: out, Splits: splits, DType: npy.F32}
}

// target is the same for images of 3 regions of 5 channels.
func target(out string, splits ...Split) Options {
	o := to(out, splits...)
	o.Regions, o.Dim = 3, 5
	return o
}

// from converts sources as the command does.
func (o Options) from(kind string, sources ...string) (*Report, error) {
	o.Sources = sources
	f := &Formats[slices.IndexFunc(Formats, func(f Format) bool { return f.Kind == kind })]
	if err := f.Check(&o); err != nil {
		return nil, err
	}
	return f.Convert(&o, nil)
}

// tsv converts the text of a .tsv file.
func (o Options) tsv(t testing.TB, text string) (*Report, error) {
	t.Helper()
	return o.from(".tsv", write(t, t.TempDir(), "a.tsv", text))
}

// picture is a made-up image of a source.
type picture struct {
	id       string
	w, h     int
	boxes    []float32 // [R, 4]
	features []float32 // [R, D]
}

func made(id string, regions, dim int) picture {
	s := philox.NewKey(5, "convert/"+id).Stream(0)
	p := picture{id: id, w: 300 + s.IntN(300), h: 200 + s.IntN(300)}
	for range regions {
		for range 4 {
			p.boxes = append(p.boxes, float32(s.IntN(2000))/8)
		}
		for range dim {
			p.features = append(p.features, float32(s.IntN(4096))/256) // exact in float16 up to 8
		}
	}
	for i := range p.features {
		p.features[i] = min(p.features[i], 7.75)
	}
	return p
}

func base(v []float32) string {
	b := make([]byte, 0, 4*len(v))
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return base64.StdEncoding.EncodeToString(b)
}

func (p *picture) line() string {
	return fmt.Sprintf("%s\t%d\t%d\t%d\t%s\t%s", p.id, p.w, p.h, len(p.boxes)/4, base(p.boxes), base(p.features))
}

// write stores text in a file of a temporary folder and returns its path.
func write(t testing.TB, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	try.Do(t, os.WriteFile(path, []byte(text), 0o666))
	return path
}

// tsv writes pictures as a source file.
func tsv(t testing.TB, dir, name, end string, pictures ...picture) string {
	t.Helper()
	var b strings.Builder
	for i := range pictures {
		b.WriteString(pictures[i].line() + end)
	}
	return write(t, dir, name, b.String())
}

// checkSplit compares the files of a split with the pictures they must hold.
func checkSplit(t *testing.T, dir, split string, dtype npy.DType, want ...picture) {
	t.Helper()
	if ims := opened(t, dir, split+"_ims.npy"); ims.DType != dtype {
		t.Errorf("%s: type %s, want %s", split, ims.DType, dtype)
	}
	checkRows(t, filepath.Join(dir, split+"_ims.npy"), want...)
	boxes, sizes := opened(t, dir, split+"_ims_bbx.npy"), opened(t, dir, split+"_ims_size.npy")
	if boxes.Rows() != len(want) || sizes.Rows() != len(want) {
		t.Fatalf("%s: shapes %v %v, want %d rows", split, boxes.Shape, sizes.Shape, len(want))
	}
	wh := try.Get(sizes.Ints())(t)
	var ids string
	for i, p := range want {
		b := make([]float32, boxes.RowLen())
		try.Do(t, boxes.ReadRow(b, i))
		if !slices.Equal(b, p.boxes) || wh[2*i] != int64(p.w) || wh[2*i+1] != int64(p.h) {
			t.Errorf("%s: row %d has boxes %v of %v, want those of image %s", split, i, b, wh[2*i:2*i+2], p.id)
		}
		ids += p.id + "\n"
	}
	if got := string(try.Get(os.ReadFile(filepath.Join(dir, split+"_ids.txt")))(t)); got != ids {
		t.Errorf("%s_ids.txt is %q, want %q", split, got, ids)
	}
}

func opened(t *testing.T, dir, name string) *npy.File {
	t.Helper()
	f := try.Get(npy.Open(filepath.Join(dir, name)))(t)
	t.Cleanup(func() { f.Close() })
	return f
}

// checkRows compares the rows of an array with the features of pictures.
func checkRows(t *testing.T, path string, want ...picture) {
	t.Helper()
	f := try.Get(npy.Open(path))(t)
	defer f.Close()
	if f.Rows() != len(want) {
		t.Errorf("%s: shape %v, want %d rows", path, f.Shape, len(want))
		return
	}
	for i, p := range want {
		v := make([]float32, f.RowLen())
		try.Do(t, f.ReadRow(v, i))
		if !slices.Equal(v, p.features) {
			t.Errorf("%s: row %d is not image %s", path, i, p.id)
		}
	}
}

// mixed draws an order of lines.
func mixed(s *philox.Stream, lines []string) (out []string) {
	order := make([]int32, len(lines))
	s.Perm(order)
	for _, i := range order {
		out = append(out, lines[i])
	}
	return out
}

// replaceField changes a field of a line.
func replaceField(line string, field int, with string) string {
	f := strings.Split(line, "\t")
	f[field] = with
	return strings.Join(f, "\t")
}

// leftovers fails when a folder holds anything.
func leftovers(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, e := range entries {
		t.Errorf("left behind: %s", e.Name())
	}
}

// npyBytes is an array as numpy.save writes it.
func npyBytes(descr string, data any, shape ...int) []byte {
	dims := strings.Trim(strings.Join(strings.Fields(fmt.Sprint(shape)), ", "), "[]")
	if len(shape) == 1 {
		dims += ","
	}
	head := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }\n", descr, dims)
	var b bytes.Buffer
	b.WriteString("\x93NUMPY\x01\x00")
	binary.Write(&b, binary.LittleEndian, uint16(len(head)))
	b.WriteString(head)
	binary.Write(&b, binary.LittleEndian, data)
	return b.Bytes()
}

// npz writes an archive; every second member is compressed.
func npz(t testing.TB, path string, members map[string][]byte) {
	t.Helper()
	f := try.Get(os.Create(path))(t)
	defer f.Close()
	z := zip.NewWriter(f)
	method := zip.Store
	for name, b := range members {
		w := try.Get(z.CreateHeader(&zip.FileHeader{Name: name + ".npy", Method: method}))(t)
		try.Get(w.Write(b))(t)
		method = zip.Deflate - method
	}
	try.Do(t, z.Close())
}
