package runtest

import (
	"os"
	"path/filepath"
	"testing"

	"vsetrain/internal/files/onnx"
	"vsetrain/lab/try"
)

// Extractor writes an ONNX model that makes 36 cells of the given number of values from a picture of 6 x 6 pixels, with
// its description, and returns its path.
func Extractor(t *testing.T, values int) string {
	t.Helper()
	g := onnx.New("cells", "", nil)
	x := g.Input("x", onnx.Float, onnx.Dims("batch", 3, 6, 6))
	w := g.Tensor("w", []int{values, 3, 1, 1}, func() []float32 {
		v := make([]float32, 3*values)
		for i := range v {
			v[i] = float32(i%5-2) / 2
		}
		return v
	})
	g.Output("y", onnx.Float, onnx.Dims("batch", values, 6, 6), g.Op("Conv", []onnx.Value{x, w}))
	path := filepath.Join(t.TempDir(), "cells.onnx")
	f := try.Get(os.Create(path))(t)
	defer f.Close()
	try.Do(t, g.Encode(f))
	const text = "resize: 6\nfit: stretch\nfilter: bilinear\ncolours: rgb\nlayout: nchw\nscale: 255\n" +
		"mean: [0.5, 0.5, 0.5]\nstd: [1, 1, 1]\noutput_layout: nchw\n"
	try.Do(t, os.WriteFile(filepath.Join(filepath.Dir(path), "cells.yaml"), []byte(text), 0o644))
	return path
}
