package extract

import (
	"errors"
	"fmt"
	"image/color"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vsetrain/data"
	"vsetrain/internal/files/disk"
	"vsetrain/internal/files/npy"
	"vsetrain/internal/files/pictures"
	"vsetrain/lab/crash"
	"vsetrain/lab/try"
)

// images are the ids of a gallery, each with its features and boxes.
func images(t *testing.T, dir string) string {
	t.Helper()
	s := try.Get(data.Open(dir, "test", data.OpenOptions{Partial: true, Boxes: true}))(t)
	defer s.Close()
	var out strings.Builder
	row, boxes := make([]float32, s.Regions()*s.Dim()), make([]float32, 4*s.Regions())
	for i, id := range data.ImageIDs(s) {
		try.Do(t, s.ReadImage(row, i))
		try.Do(t, s.ReadBoxes(boxes, i))
		w, h := s.ImageSize(i)
		fmt.Fprintln(&out, id, row, boxes, w, h)
	}
	return out.String()
}

// Pictures that are added have what they have when all are computed together, wherever a session was killed.
func TestAdd(t *testing.T) {
	x, dir := open(t, model(t, t.TempDir(), described)), folder(t, 7)
	for _, d := range []npy.DType{npy.F32, npy.F16} {
		whole, out := t.TempDir(), t.TempDir()
		r := request(dir, whole)
		r.DType = d
		try.Get(Run(t.Context(), x, r))(t)
		r.Out, r.IDs = out, filepath.Join(t.TempDir(), "ids.txt")
		write(t, r.IDs, "0.png\n1.png\n")
		r.Add = true // makes a gallery where there is none
		rep, err := Run(t.Context(), x, r)
		if err != nil || rep.Rows != 2 || rep.Added {
			t.Fatalf("%+v, %v", rep, err)
		}
		r.IDs = ""
		before := images(t, out)
		for stop := range 3 {
			if cancelled(t, x, r, 2*stop); images(t, out) != before {
				t.Fatalf("the gallery changed after %d batches", stop)
			}
		}
		if rep := try.Get(Run(t.Context(), x, r))(t); rep.Rows != 5 || rep.Had != 2 || !rep.Added || rep.Resumed != 4 {
			t.Errorf("%+v", rep)
		}
		if got := images(t, out); got != images(t, whole) {
			t.Errorf("%s\nwant\n%s", got, images(t, whole))
		}
		if rep := try.Get(Run(t.Context(), x, r))(t); rep.Rows != 0 || rep.Had != 7 ||
			images(t, out) != images(t, whole) {
			t.Errorf("again: %+v", rep)
		}
		if left, err := filepath.Glob(filepath.Join(out, ".test_ims*")); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
		fold := filepath.Join(t.TempDir(), "new")
		try.Do(t, data.Amend(t.Context(), out, "test", data.Change{Removed: []string{"0.png", "5.png"}}, nil))
		if _, err := data.Fold(out, "test", fold); err != nil || images(t, fold) != images(t, out) ||
			strings.Count(images(t, fold), "png") != 5 {
			t.Errorf("folded: %v\n%s\nwant\n%s", err, images(t, fold), images(t, out))
		}
		if r, err := data.LoadExtractor(fold, "test"); err != nil || r == nil || r.Hash != x.Hash {
			t.Errorf("record %+v, %v", r, err)
		}
		if _, err := os.Stat(data.ChangesFile(fold, "test")); err == nil {
			t.Error("changes of a folded gallery")
		}
		try.Refuses(data.Fold(out, "test", fold))(t, "exists")
	}
}

// Wherever the disk is full while pictures are added, the gallery stays as it was, and with room they are added.
func TestAddOnFullDisk(t *testing.T) {
	x, dir, first := open(t, model(t, t.TempDir(), described)), folder(t, 3), t.TempDir()
	r := request(dir, first)
	r.IDs = filepath.Join(t.TempDir(), "ids.txt")
	write(t, r.IDs, "0.png\n")
	try.Get(Run(t.Context(), x, r))(t)
	before := images(t, first)
	r.Add, r.IDs = true, ""
	for at, done := 0, false; !done; at++ {
		r.Out = filepath.Join(t.TempDir(), "gallery")
		try.Do(t, os.CopyFS(r.Out, os.DirFS(first)))
		restore := disk.Use(&crash.Faults{At: map[int]string{at: crash.ShortWrite}})
		_, err := Run(t.Context(), x, r)
		restore()
		got := images(t, r.Out)
		done = err == nil && at > 20
		if err == nil != (got != before) || err != nil && !disk.Full(err) {
			t.Errorf("full at call %d: %v\n%s", at, err, got)
		}
		rep, err := Run(t.Context(), x, r)
		if err != nil || rep.Had+rep.Rows != 3 || !strings.HasPrefix(images(t, r.Out), before) {
			t.Errorf("with room after call %d: %+v, %v\n%s", at, rep, err, images(t, r.Out))
		}
	}
}

// A gallery adds a picture of its own size and type; what it cannot add changes nothing.
func TestGalleryAdds(t *testing.T) {
	x, dir, out := open(t, model(t, t.TempDir(), described)), folder(t, 3), t.TempDir()
	try.Get(Run(t.Context(), x, request(dir, out)))(t)
	path := filepath.Join(t.TempDir(), "p.png")
	picture(t, path, 8, 2, color.RGBA{9, 0, 0, 255}, color.RGBA{0, 9, 0, 255})
	p := try.Get(pictures.Open(t.Context(), path))(t)
	g := &Gallery{out, "test", x}
	try.Do(t, g.Add(t.Context(), "new", p))
	if err := g.Add(t.Context(), "1.png", p); !errors.Is(err, data.ErrImageExists) {
		t.Errorf("an id twice: %v", err)
	}
	lines := strings.Split(images(t, out), "\n")
	if len(lines) != 5 || !strings.HasPrefix(lines[3], "new [8.5 0.5 0 9 0.5 8.5 0 9 ") ||
		!strings.HasSuffix(lines[3], "8 2") {
		t.Errorf("%v", lines)
	}
	r := request(dir, out)
	r.Add = true
	other := open(t, model(t, t.TempDir(), strings.Replace(described, "scale: 1\n", "scale: 2\n", 1)))
	try.Refuses(Run(t.Context(), other, r))(t, "is not the model")
	r.IDs = filepath.Join(t.TempDir(), "ids.txt")
	write(t, r.IDs, "2.png\n0.png\n2.png\n")
	try.Refuses(Run(t.Context(), x, r))(t, `"2.png" is listed twice`)
	try.Do(t, os.Remove(data.ExtractorFile(out, "test")))
	try.Refuses(Run(t.Context(), x, r))(t, "does not say which model")
	write(t, filepath.Join(out, "test_caps.txt"), strings.Repeat("x\n", 3))
	try.Fails(t, g.Add(t.Context(), "more", p), "has captions")
	try.Do(t, os.Remove(filepath.Join(out, "test_caps.txt")))
	r = request(dir, out)
	r.Force = true // computes all features again, without the added picture
	try.Get(Run(t.Context(), x, r))(t)
	if got := images(t, out); strings.Contains(got, "new") {
		t.Errorf("%s", got)
	}
}
