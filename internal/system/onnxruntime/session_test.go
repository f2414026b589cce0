package onnxruntime

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"vsetrain/internal/files/onnx"
	"vsetrain/lab/try"
)

// example is y[n, 2] = the mean over pixels of a convolution of x[n, 1, h, w] with 1 and with 10, in one file, or with
// the weights in another.
func example(t *testing.T, apart bool) string {
	t.Helper()
	g := onnx.New("example", "", nil)
	x := g.Input("x", onnx.Float, onnx.Dims("batch", 1, "height", "width"))
	w := g.Tensor("w", []int{512, 1, 1, 1}, func() []float32 {
		v := make([]float32, 512)
		for i := range v {
			v[i] = float32(i)
		}
		return v
	})
	y := g.Op("GlobalAveragePool", []onnx.Value{g.Op("Conv", []onnx.Value{x, w})})
	g.Output("y", onnx.Float, onnx.Dims("batch", 512), g.Squeeze(y, 2, 3))
	path := filepath.Join(t.TempDir(), "example.onnx")
	f := try.Get(os.Create(path))(t)
	defer f.Close()
	if !apart {
		try.Do(t, g.Encode(f))
		return path
	}
	data := try.Get(os.Create(path + ".data"))(t)
	defer data.Close()
	try.Do(t, g.EncodeApart(f, data, filepath.Base(path)+".data"))
	return path
}

// session opens a model, and skips the test where there is no library.
func session(t *testing.T, path string) *Session {
	t.Helper()
	s, err := Open(path, os.Getenv, 1)
	if errors.Is(err, ErrNone) {
		t.Skip(err)
	}
	try.Do(t, err)
	t.Cleanup(s.Close)
	return s
}

// A model gives the same with its weights inside and outside, in every batch, from several goroutines.
func TestRun(t *testing.T) {
	for _, apart := range []bool{false, true} {
		s := session(t, example(t, apart))
		if got := fmt.Sprint(s.Inputs, s.Outputs); got != "[{x true [-1 1 -1 -1]}] [{y true [-1 512]}]" {
			t.Errorf("ports %s", got)
		}
		var all sync.WaitGroup
		for n := 1; n <= 3; n++ {
			all.Go(func() {
				x := Tensor{Shape: []int64{int64(n), 1, 2, 2}}
				for i := range 4 * n {
					x.Values = append(x.Values, float32(i))
				}
				y, err := s.Run("x", x, "y")
				if err != nil || !slices.Equal(y.Shape, []int64{int64(n), 512}) {
					t.Errorf("apart %v: shape %v, %v", apart, y.Shape, err)
					return
				}
				for i, v := range y.Values {
					if want := (4*float32(i/512) + 1.5) * float32(i%512); v != want {
						t.Errorf("apart %v, batch %d: y[%d] is %v, want %v", apart, n, i, v, want)
						return
					}
				}
			})
		}
		all.Wait()
	}
}

func TestErrors(t *testing.T) {
	path := example(t, false)
	s := session(t, path)
	if !strings.HasPrefix(s.Version, "1.") || s.Library == "" {
		t.Errorf("version %q of %q", s.Version, s.Library)
	}
	x := Tensor{Shape: []int64{1, 2, 1, 1}, Values: []float32{1, 2}}
	try.Refuses(s.Run("x", x, "y"))(t, "Got: 2 Expected: 1")
	try.Refuses(s.Run("x", Tensor{Shape: []int64{2}, Values: x.Values[:1]}, "y"))(t, "1 values of shape [2]")
	try.Refuses(s.Run("other", x, "y"))(t, "other")
	bad := filepath.Join(t.TempDir(), "bad.onnx")
	try.Do(t, os.WriteFile(bad, []byte("no model"), 0o644))
	for _, p := range []string{bad, bad + ".missing"} {
		_, err := Open(p, os.Getenv, 0)
		try.Fails(t, err, p+": ONNX Runtime: ")
	}
}

// Without the library, or with another file in its place, the error says what to do. A file that is named has to load:
// the error is not ErrNone, with which tests skip.
func TestNoLibrary(t *testing.T) {
	_, err := Search(t.TempDir(), func(string) string { return "" })
	if try.Fails(t, err, "pip install onnxruntime"); !errors.Is(err, ErrNone) {
		t.Errorf("no library: %v", err)
	}
	path := example(t, false)
	_, err = Open(path, func(name string) string { return map[string]string{Setting: path}[name] }, 0)
	if text := fmt.Sprint(err); !strings.Contains(text, "loads no libraries") &&
		(errors.Is(err, ErrNone) || !strings.Contains(text, Setting)) {
		t.Errorf("a model as library: %v", err)
	}
}

func TestFind(t *testing.T) {
	ports := []Port{{"a", true, nil}, {"b", false, nil}}
	for _, c := range []struct {
		ports      []Port
		name, want string
	}{
		{ports[:1], "", ""}, {ports, "a", ""}, {ports, "", `the model has 2 outputs, ["a" "b"]; name one`},
		{ports, "c", `the model has no output "c"; it has ["a" "b"]`},
		{ports, "b", `output "b" is not a tensor of float32`},
	} {
		_, err := Find("output", c.ports, c.name)
		if got := fmt.Sprint(err); got != c.want && !(c.want == "" && err == nil) {
			t.Errorf("%q: %v, want %q", c.name, err, c.want)
		}
	}
}
