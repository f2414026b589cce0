// Package golden reads the golden numeric cases that the tests of every package compare with.
//
// The folder is named by the environment variable VSETRAIN_GOLDEN, by default testdata/golden of the project. The same
// tests thus run unchanged on any other set of cases in the same format. Files that the other set lacks are read from
// the project.
package golden

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
)

// Tensor is a row-major tensor as the golden files store it.
type Tensor struct {
	Shape []int     `json:"shape"`
	Data  []float64 `json:"data"`
}

// T is the test that reads the cases.
type T interface {
	Helper()
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// Dir returns the folder of golden cases and fails the test if it does not exist.
func Dir(t T) string {
	t.Helper()
	dir := cmp.Or(os.Getenv("VSETRAIN_GOLDEN"), own())
	if _, err := os.Stat(dir); err != nil {
		t.Fatalf("golden cases: %v (set VSETRAIN_GOLDEN to their folder)", err)
	}
	return dir
}

// own is the folder of the project.
func own() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..", "testdata", "golden")
}

// Load decodes one golden file into v.
func Load(t T, name string, v any) {
	t.Helper()
	path := filepath.Join(Dir(t), name)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		path = filepath.Join(own(), name)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, v); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// Tolerance is the largest accepted difference: Rel times the largest expected magnitude of the tensor, plus Abs.
type Tolerance struct{ Rel, Abs float64 }

// The tolerances of the golden cases: float64, and float32 outputs and gradients.
var (
	FP64     = Tolerance{Rel: 1e-9, Abs: 1e-12}
	FP32     = Tolerance{Rel: 2e-4, Abs: 1e-5}
	FP32Grad = Tolerance{Rel: 2e-3, Abs: 1e-5}
)

// Close compares element by element and reports the worst difference as a test error.
func Close(t T, what string, got, want []float64, tol Tolerance) {
	t.Helper()
	if err := diff(got, want, tol); err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

// diff returns an error that names the worst element when got differs from want by more than tol allows.
func diff(got, want []float64, tol Tolerance) error {
	if len(got) != len(want) {
		return fmt.Errorf("%d elements, want %d", len(got), len(want))
	}
	var scale, worst float64
	for _, w := range want {
		scale = max(scale, math.Abs(w))
	}
	at := -1
	for i, w := range want {
		d := math.Abs(got[i] - w)
		if math.IsNaN(d) {
			return fmt.Errorf("element %d is %v, want %v", i, got[i], w)
		}
		if d > worst {
			worst, at = d, i
		}
	}
	if limit := tol.Rel*scale + tol.Abs; worst > limit {
		return fmt.Errorf("element %d is %.12g, want %.12g (difference %.3g, allowed %.3g)", at, got[at], want[at],
			worst, limit)
	}
	return nil
}

// ByLength returns the order of sequences by decreasing length, ties in their own order: the order of the packed
// layout, whatever order a case has.
func ByLength(lengths []int32) []int {
	order := make([]int, len(lengths))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return int(lengths[b] - lengths[a]) })
	return order
}

// Rows returns rows of width w in the given order.
func Rows[T any](x []T, w int, order []int) []T {
	out := make([]T, 0, len(order)*w)
	for _, i := range order {
		out = append(out, x[i*w:(i+1)*w]...)
	}
	return out
}

// Columns returns a matrix of n rows with its columns in the given order.
func Columns(x []float64, n int, order []int) []float64 {
	w := len(x) / max(1, n)
	out := make([]float64, 0, len(x))
	for i := range n {
		for _, j := range order {
			out = append(out, x[i*w+j])
		}
	}
	return out
}
