package extract

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"vsetrain/data"
	"vsetrain/internal/files/integrity"
	"vsetrain/internal/files/npy"
	"vsetrain/internal/files/onnx"
	"vsetrain/internal/files/pictures"
	"vsetrain/internal/system/onnxruntime"
	"vsetrain/lab/try"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	try.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
	try.Do(t, os.WriteFile(path, []byte(text), 0o644))
}

const described = `resize: 4
fit: stretch
filter: bilinear
colours: rgb
layout: nchw
scale: 1
mean: [0, 0, 0]
std: [1, 1, 1]
output_layout: nchw
`

// model writes a model whose features of a cell of a 2 x 2 grid are its mean red, green and blue, and their sum, with a
// description.
func model(t *testing.T, dir, description string) string {
	t.Helper()
	g := onnx.New("means", "", nil)
	x := g.Input("x", onnx.Float, onnx.Dims("batch", 3, 4, 4))
	w := g.Tensor("w", []int{4, 3, 1, 1}, func() []float32 { return []float32{1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1} })
	y := g.Op("AveragePool", []onnx.Value{g.Op("Conv", []onnx.Value{x, w})},
		onnx.Attr{Name: "kernel_shape", Value: []int{2, 2}}, onnx.Attr{Name: "strides", Value: []int{2, 2}})
	g.Output("y", onnx.Float, onnx.Dims("batch", 4, 2, 2), y)
	path := filepath.Join(dir, "means.onnx")
	f := try.Get(os.Create(path))(t)
	defer f.Close()
	try.Do(t, g.Encode(f))
	write(t, preprocessingFile(path), description)
	return path
}

// open opens a model, and skips the test where there is no ONNX Runtime.
func open(t *testing.T, path string) *Extractor {
	t.Helper()
	x, err := Open(path, os.Getenv, 1)
	if errors.Is(err, onnxruntime.ErrNone) {
		t.Skip(err)
	}
	try.Do(t, err)
	t.Cleanup(x.Close)
	return x
}

// picture writes a picture of two colours, the left half and the right.
func picture(t *testing.T, path string, width, height int, left, right color.Color) {
	t.Helper()
	m := image.NewRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			if m.Set(x, y, left); x >= width/2 {
				m.Set(x, y, right)
			}
		}
	}
	try.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
	f := try.Get(os.Create(path))(t)
	defer f.Close()
	try.Do(t, png.Encode(f, m))
}

// folder makes pictures 0.png to n-1.png: picture i is i red on the left and i green on the right.
func folder(t *testing.T, n int) string {
	dir := filepath.Join(t.TempDir(), "pictures")
	for i := range n {
		picture(t, filepath.Join(dir, fmt.Sprint(i)+".png"), 4, 4, color.RGBA{byte(i), 0, 0, 255},
			color.RGBA{0, byte(i), 0, 255})
	}
	return dir
}

func request(images, out string) Request {
	return Request{Images: images, Out: out, Split: "test", DType: npy.F32, Batch: 2, Threads: 2}
}

// cancelled runs a request and cancels it when that many pictures are done.
func cancelled(t *testing.T, x *Extractor, r Request, pictures int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r.Progress = func(done, _ int) {
		if done >= pictures {
			cancel()
		}
	}
	if _, err := Run(ctx, x, r); !errors.Is(err, context.Canceled) {
		t.Fatalf("stopped after %d pictures: %v", pictures, err)
	}
}

// rowsOf reads the rows of an array of float32.
func rowsOf(t *testing.T, path string) (rows [][]float32) {
	t.Helper()
	f := try.Get(npy.Open(path))(t)
	defer f.Close()
	for i := range f.Shape[0] {
		row := make([]float32, f.Shape[1]*f.Shape[2])
		try.Do(t, f.ReadRow(row, i))
		rows = append(rows, row)
	}
	return rows
}

// digest is taken over all files in a folder, hidden ones too. The manifest has times of files; it lists the digests.
func digest(t *testing.T, dir string) string {
	t.Helper()
	entries := try.Get(os.ReadDir(dir))(t)
	m := try.Get(integrity.Read(dir))(t)
	var all []string
	for _, e := range entries {
		if e.Name() == integrity.ManifestName {
			continue
		}
		b := try.Get(os.ReadFile(filepath.Join(dir, e.Name())))(t)
		sum := fmt.Sprintf("%x", sha256.Sum256(b))
		if sum != m.Files[e.Name()].SHA256 {
			t.Errorf("%s is not as the manifest lists it", e.Name())
		}
		all = append(all, e.Name()+" "+sum)
	}
	return strings.Join(all, "\n")
}

// Features, boxes and sizes belong to the cells, in the order of the ids.
func TestRun(t *testing.T) {
	x, out := open(t, model(t, t.TempDir(), described)), t.TempDir()
	r := request(folder(t, 5), out)
	r.IDs = filepath.Join(t.TempDir(), "ids.txt")
	write(t, r.IDs, "4\n2.png\n0\n")
	rep := try.Get(Run(t.Context(), x, r))(t)
	if rep.Rows != 3 || rep.Regions != 4 || rep.Dim != 4 || len(rep.Files) != 5 {
		t.Errorf("report %+v", rep)
	}
	rows := rowsOf(t, filepath.Join(out, "test_ims.npy"))
	if want := []float32{4, 0, 0, 4, 0, 4, 0, 4, 4, 0, 0, 4, 0, 4, 0, 4}; len(rows) != 3 ||
		!slices.Equal(rows[0], want) || rows[1][0] != 2 || rows[1][5] != 2 {
		t.Errorf("rows %v, want %v first", rows, want)
	}
	boxes := rowsOf(t, filepath.Join(out, "test_ims_bbx.npy"))
	if want := []float32{0, 0, 2, 2, 2, 0, 4, 2, 0, 2, 2, 4, 2, 2, 4, 4}; !slices.Equal(boxes[0], want) {
		t.Errorf("boxes %v, want %v", boxes[0], want)
	}
	if ids := try.Get(os.ReadFile(filepath.Join(out, "test_ids.txt")))(t); string(ids) != "4\n2.png\n0\n" {
		t.Errorf("ids %q", ids)
	}
	record, err := data.LoadExtractor(out, "test")
	if err != nil || record.Hash != x.Hash || x.Made(record) != nil {
		t.Errorf("record %+v, %v", record, err)
	}
	other := open(t, model(t, t.TempDir(), strings.Replace(described, "bilinear", "bicubic", 1)))
	try.Fails(t, other.Made(record), "is not the model that made")
	try.Refuses(Run(t.Context(), x, r))(t, "replace it with --force")
}

// Wherever a session ends, the next one computes the rest and leaves the same files.
func TestResume(t *testing.T) {
	x, images, whole := open(t, model(t, t.TempDir(), described)), folder(t, 7), t.TempDir()
	try.Get(Run(t.Context(), x, request(images, whole)))(t)
	want := digest(t, whole)
	for stop := range 4 {
		out := t.TempDir()
		r := request(images, out)
		cancelled(t, x, r, 2*stop)
		if stop == 2 { // the last batch of a session that lost power is not what its record says
			rows, _ := workFiles(filepath.Join(out, "test_ims.npy"))
			f, err := os.OpenFile(rows, os.O_RDWR, 0)
			try.Do(t, err)
			_, err = f.WriteAt([]byte{1, 2, 3}, 128+3*64)
			try.Do(t, errors.Join(err, f.Close()))
		}
		rep := try.Get(Run(t.Context(), x, r))(t)
		if expected := map[int]int{0: 0, 1: 2, 2: 2, 3: 6}[stop]; rep.Resumed != expected {
			t.Errorf("after %d batches: %d pictures taken over, want %d", stop, rep.Resumed, expected)
		}
		if got := digest(t, out); got != want {
			t.Errorf("after %d batches:\n%s\nwant\n%s", stop, got, want)
		}
	}
	for name, change := range map[string]func(*Request){"type": func(r *Request) { r.DType = npy.F16 },
		"batch": func(r *Request) { r.Batch = 3 }} {
		r := request(images, t.TempDir())
		cancelled(t, x, r, 4)
		change(&r) // work with other options starts again
		if rep := try.Get(Run(t.Context(), x, r))(t); rep.Resumed != 0 {
			t.Errorf("another %s: %+v", name, rep)
		}
	}
}

// A picture that cannot be read is named; SkipBroken leaves it out and goes on from there.
func TestBroken(t *testing.T) {
	x, images, out := open(t, model(t, t.TempDir(), described)), folder(t, 5), t.TempDir()
	write(t, filepath.Join(images, "3.png"), "no picture")
	r := request(images, out)
	try.Refuses(Run(t.Context(), x, r))(t, `image "3.png": `+filepath.Join(images, "3.png")+
		": expected a JPEG, PNG, WebP or GIF", "--skip-broken")
	var told []string
	r.SkipBroken, r.Broken = true, func(id string, _ error) { told = append(told, id) }
	rep := try.Get(Run(t.Context(), x, r))(t)
	if rep.Rows != 4 || rep.Skipped != 1 || rep.Resumed != 2 || !slices.Equal(told, []string{"3.png"}) {
		t.Errorf("%+v, told of %q", rep, told)
	}
	ids, err := os.ReadFile(filepath.Join(out, "test_ids.txt"))
	if err != nil || string(ids) != "0.png\n1.png\n2.png\n4.png\n" {
		t.Errorf("ids %q, %v", ids, err)
	}
	if rows := rowsOf(t, filepath.Join(out, "test_ims.npy")); rows[3][0] != 4 {
		t.Errorf("the last row is %v", rows[3])
	}
	write(t, filepath.Join(images, "0.png"), "no picture") // and good ones after it in its batch
	r.Out, r.Batch = t.TempDir(), 8
	try.Get(Run(t.Context(), x, r))(t)
	for i, row := range rowsOf(t, filepath.Join(r.Out, "test_ims.npy")) {
		if want := []float32{1, 2, 4}[i]; row[0] != want {
			t.Errorf("row %d of the good pictures begins with %v, want %v", i, row[0], want)
		}
	}
	for _, id := range []string{"../3", "none"} {
		r.IDs = filepath.Join(t.TempDir(), "ids.txt")
		write(t, r.IDs, id+"\n")
		r.SkipBroken, r.Out = false, t.TempDir()
		try.Refuses(Run(t.Context(), x, r))(t, "no picture")
	}
}

// What the description says has to be what the model is.
func TestOpenErrors(t *testing.T) {
	for _, c := range map[string]struct{ from, to, want string }{
		"size":   {"resize: 4", "resize: 5", `input "x" has the shape [-1 3 4 4], the preprocessing makes [-1 3 5 5]`},
		"layout": {"layout: nchw\nscale", "layout: nhwc\nscale", "the preprocessing makes [-1 4 4 3]"},
		"output": {"output_layout: nchw", "output_layout: nrd", `output "y" has the shape [1 4 2 2] for one picture; ` +
			`output_layout: nrd expects 3 axes`},
		"name": {"resize: 4", "resize: 4\noutput: z", `the model has no output "z"; it has ["y"]`},
	} {
		path := model(t, t.TempDir(), strings.Replace(described, c.from, c.to, 1))
		_, err := Open(path, os.Getenv, 1)
		if errors.Is(err, onnxruntime.ErrNone) {
			t.Skip(err)
		}
		try.Fails(t, err, c.want)
	}
	try.Refuses(Open(filepath.Join(t.TempDir(), "none.onnx"), os.Getenv, 1))(t, "model: ")
	path := filepath.Join(t.TempDir(), "t.pt") // of PyTorch
	write(t, path, "PK")
	try.Refuses(Open(path, os.Getenv, 1))(t, path+": expected FILE.onnx with "+
		"its description FILE.yaml beside it; scripts/torch_backbone_to_onnx.py writes both")
}

// Every mistake in a description is told with its line.
func TestPreprocessingErrors(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{"scale: 1", "scale: 0", ":6:8: scale: expected a number > 0, found 0"},
		{"scale: 1\n", "", ": scale: missing; expected a number > 0 (what pixel values are divided by"},
		{"mean: [0, 0, 0]", "mean: [0, 0]", ":7:7: mean: expected a list of 3 finite numbers, found [0, 0]"},
		{"std: [1, 1, 1]", "std: [1, 0, 1]", ":8:6: std: expected a list of 3 numbers > 0"},
		{"filter: bilinear", "filter: linear", `filter: expected one of bilinear, bicubic, found "linear"`},
		{"colours: rgb", "colors: rgb", "unknown key; did you mean colours?"},
		{"resize: 4", "resize: 4\ncrop: 5", "crop: expected at most resize, 4, found 5"},
		{"fit: stretch", "fit: shorter", "or set fit: stretch"},
		{"resize: 4", "resize: 4\nresize: 5", "duplicate key; already set in line 1"},
	} {
		path := filepath.Join(t.TempDir(), "m.yaml")
		write(t, path, strings.Replace(described, c.from, c.to, 1))
		try.Refuses(loadPreprocessing(path))(t, c.want)
	}
	try.Refuses(loadPreprocessing(filepath.Join(t.TempDir(), "m.yaml")))(t, "no such file")
}

// A wide picture is brought to the size and cut in its middle; red and blue change places, values are scaled. The
// numbers are computed by hand: 6 x 2 pixels with resize 2 stay, and columns 2 and 3 are cut out.
func TestTensor(t *testing.T) {
	p := &Preprocessing{Resize: 2, Fit: "shorter", Crop: 2, Filter: "bilinear", Colours: "bgr", Layout: "nchw",
		Scale: 255, Mean: [3]float64{0.5, 0, 0}, Std: [3]float64{0.25, 1, 1}}
	pic := &pictures.RGB{Width: 6, Height: 2, Pix: make([]byte, 36)}
	for i := range 12 {
		pic.Pix[3*i], pic.Pix[3*i+2] = byte(i), 51
	}
	try.Do(t, p.validate())
	got := make([]float32, 12)
	p.tensor(got, pic)
	const blue = (0.2 - 0.5) / 0.25
	for i, want := range []float64{blue, blue, blue, blue, 0, 0, 0, 0, 2. / 255, 3. / 255, 8. / 255, 9. / 255} {
		if d := float64(got[i]) - want; d > 1e-6 || d < -1e-6 {
			t.Errorf("value %d is %v, want %v", i, got[i], want)
		}
	}
	p.Layout = "nhwc"
	p.tensor(got, pic)
	if got[1] != 0 || got[2] != 2./255 || got[5] != 3./255 {
		t.Errorf("nhwc: %v", got)
	}
	if w := p.window(6, 2); w != (window{6, 2, 2, 0, 2}) {
		t.Errorf("window %+v", w)
	}
	if b := p.boxes(60, 20, 1, 2); !slices.Equal(b, []float32{20, 0, 30, 20, 30, 0, 40, 20}) {
		t.Errorf("boxes %v", b)
	}
	if err := p.check(&pictures.RGB{Width: 100_000_000, Height: 1}); err == nil {
		t.Error("a picture of 100,000,000 x 1 may become 200,000,000 x 2")
	}
}

// Every file of a folder but hidden ones is a picture or counted by its ending.
func TestOthers(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a.jpg", "B.JPEG", "sub/c.webp", "d.bmp", "e.TIFF", "sub/f.tiff", "g.avif", "h.jpe",
		"README", "._a.jpg", ".DS_Store", "folder.png/i.heic"} {
		write(t, filepath.Join(dir, filepath.FromSlash(name)), "")
	}
	ids, others, err := listPictures(dir)
	if want := "no ending (1), .avif (1), .bmp (1), .heic (1), .jpe (1), .tiff (2)"; err != nil ||
		others.String() != want || !slices.Equal(ids, []string{"B.JPEG", "a.jpg", "sub/c.webp"}) {
		t.Errorf("%q, %v, %v; want %s", ids, others, err, want)
	}
	_, _, err = listPictures(filepath.Join(dir, "folder.png"))
	try.Fails(t, err, "no pictures; expected files ending in .jpg, .jpeg, .png, .webp, .gif, found .heic (1)")
}
