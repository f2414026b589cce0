package extract

import (
	"context"
	"errors"
	"fmt"
	"image/color"
	"path/filepath"
	"slices"
	"testing"

	"vsetrain/data"
	"vsetrain/internal/files/pictures"
	"vsetrain/internal/run/verify"
	"vsetrain/internal/system/onnxruntime"
	"vsetrain/lab/crash"
	"vsetrain/lab/try"
)

// constant is a model whose features of a picture are parts of it.
type constant struct{}

func (constant) Run(_ string, x onnxruntime.Tensor, _ string) (onnxruntime.Tensor, error) {
	y := onnxruntime.Tensor{Shape: []int64{x.Shape[0], 4, 2, 2}}
	for k := range int(x.Shape[0]) {
		y.Values = append(y.Values, x.Values[k*len(x.Values)/int(x.Shape[0]):][:16]...)
	}
	return y, nil
}

func (constant) Close() {}

// The features of pictures, and pictures that are added to a gallery by a command or by a server: wherever a session
// ends, and whatever call fails, the next one leaves what it should, and no file is damaged.
func TestDisturbedExtractions(t *testing.T) {
	dir, images := try.MemoryDir(t), folder(t, 5)
	description := preprocessingFile(filepath.Join(dir, "m.onnx"))
	write(t, description, described)
	x := &Extractor{Model: filepath.Join(dir, "m.onnx"), Hash: "of m", session: constant{}}
	x.prep = try.Get(loadPreprocessing(description))(t)
	try.Do(t, x.outputs([]int64{1, 4, 2, 2}))
	path := filepath.Join(t.TempDir(), "p.png")
	picture(t, path, 8, 2, color.RGBA{9, 0, 0, 255}, color.RGBA{0, 9, 0, 255})
	p := try.Get(pictures.Open(context.Background(), path))(t)

	extract := func(out string, more func(*Request)) func() error {
		return func() error {
			r := request(images, out)
			r.Threads, r.Force = 1, true
			if more != nil {
				more(&r)
			}
			_, err := Run(context.Background(), x, r)
			return err
		}
	}
	some := func(r *Request) { r.IDs = filepath.Join(dir, "ids") }
	write(t, filepath.Join(dir, "ids"), "3.png\n1.png\n4.png\n")
	written := []string{"test_ims.npy", "test_ids.txt", "test_ims_bbx.npy", "test_ims_size.npy", "test_extractor.json"}
	adds := func(r *Request) { r.Force, r.Add = false, true }
	changes := []string{filepath.Base(data.ChangesFile(dir, "test"))}
	programs := []struct {
		name    string
		before  func(*Request) // nil is nothing
		run     func(out string) func() error
		outputs []string
	}{
		{"data extract", nil, func(out string) func() error { return extract(out, nil) }, written},
		{"data extract over another", some, func(out string) func() error { return extract(out, nil) }, written},
		{"data extract --add", some, func(out string) func() error { return extract(out, adds) }, changes},
		{"serve, an image added", some, func(out string) func() error {
			return func() error {
				err := (&Gallery{out, "test", x}).Add(context.Background(), "new", p)
				if errors.Is(err, data.ErrImageExists) {
					return nil
				}
				return err
			}
		}, changes},
	}
	for i, c := range programs {
		out := try.MemoryDir(t)
		if c.before != nil {
			try.Do(t, extract(out, c.before)())
		}
		if slices.Equal(c.outputs, changes) { // which say when the features were written, where they begin
			try.Do(t, data.Amend(t.Context(), out, "test", data.Change{Removed: []string{"3.png"}}, nil))
		}
		program := &crash.Program{Dir: out, Run: c.run(out), Again: c.run(out), Outputs: c.outputs,
			Done: func() error { return undamaged(out) }}
		if slices.Equal(c.outputs, changes) {
			program.Journal = changes[0]
		} else {
			program.Left = program.Done
		}
		crash.Disturb(t, c.name, len(programs)-i, program)
	}
}

// undamaged returns an error where verify finds a damage.
func undamaged(dir string) error {
	r, err := verify.Path(context.Background(), dir, func(string, int, int) {})
	if err == nil && len(r.Damaged) > 0 {
		err = fmt.Errorf("verify: %v", r.Damaged)
	}
	return err
}
