package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"vsetrain/internal/compute/philox"
	"vsetrain/internal/files/npy"
	"vsetrain/lab/try"
)

var convertCommand = regexp.MustCompile("`(vsetrain data convert [^`]*)`[^:;]*: (\\[[0-9 ]*\\])")

// Every command that a message about axes names is run as it stands. It gives the array that the message says, whose
// values are the values of the flags; and where the array was made of features, by axes of length 1 or the axes of a
// grid in another order, one of the commands gives the features back.
func TestAdviceAboutAxes(t *testing.T) {
	dir := try.MemoryDir(t)
	for seed := range 60 {
		s := philox.NewKey(uint64(seed), "axes").Stream(0)
		n, r, d := 2+s.IntN(3), 2+s.IntN(3), 2+s.IntN(4)
		truth := make([]float32, n*r*d)
		for i := range truth {
			truth[i] = float32(s.Norm())
		}
		shape, stored, want := []int{n, r, d}, truth, []int{n, r, d}
		switch kind := s.IntN(4); kind {
		case 0, 1: // a grid [n, 2, r, d] whose places are regions
			if s.IntN(2) == 0 {
				n = 1
			}
			truth = truth[:0]
			for range n * 2 * r * d {
				truth = append(truth, float32(s.Norm()))
			}
			want, shape, stored = []int{n, 2 * r, d}, []int{n, 2, r, d}, truth
			if kind == 1 { // channels first
				stored, shape = make([]float32, len(truth)), []int{n, d, 2, r}
				for i := range n {
					for place := range 2 * r {
						for c := range d {
							stored[(i*d+c)*2*r+place] = truth[(i*2*r+place)*d+c]
						}
					}
				}
			}
			if n == 1 {
				want = nil // images may lie along the second axis as well
			}
		case 2:
			shape, want = []int{n, r * d}, []int{n, r * d}
		}
		ones := s.IntN(3)
		if len(shape)+ones < 4 {
			ones = 4 - len(shape)
		}
		for range ones {
			at := s.IntN(len(shape) + 1)
			shape = slices.Insert(slices.Clone(shape), at, 1)
		}
		data := filepath.Join(dir, fmt.Sprint("d ", seed))
		try.Do(t, os.Mkdir(data, 0o777))
		try.Do(t, npy.WriteFloat32(filepath.Join(data, "test_ims.npy"), shape, stored))
		out, _ := exec.Command("vsetrain", "data", "check", data).CombinedOutput()
		advice := convertCommand.FindAllStringSubmatch(string(out), -1)
		if len(advice) == 0 {
			t.Errorf("seed %d: shape %v: no advice in %s", seed, shape, out)
		}
		back := false
		for _, a := range advice {
			run := exec.Command("sh", "-c", "rm -f NEW.npy && "+a[1])
			run.Dir = data
			if out, err := run.CombinedOutput(); err != nil {
				t.Errorf("seed %d: shape %v: %s: %s", seed, shape, a[1], out)
				continue
			}
			f := try.Get(npy.Open(filepath.Join(data, "NEW.npy")))(t)
			var got []float32
			for i := range f.Rows() {
				row := make([]float32, f.RowLen())
				try.Do(t, f.ReadRow(row, i))
				got = append(got, row...)
			}
			flags := strings.Fields(a[1])
			if fmt.Sprint(f.Shape) != a[2] || !slices.Equal(got, asFlagsSay(shape, stored, flags)) {
				t.Errorf("seed %d: shape %v: %s gives %v or other values than said: %s", seed, shape, a[1], f.Shape,
					a[2])
			}
			back = back || slices.Equal(f.Shape, want) && slices.Equal(got, truth)
			f.Close()
		}
		if want != nil && !back {
			t.Errorf("seed %d: shape %v of features %v: no command gives them back: %s", seed, shape, want, out)
		}
	}
}

// asFlagsSay returns the values in the order that --squeeze and --grid ask for.
func asFlagsSay(shape []int, v []float32, flags []string) []float32 {
	if !slices.Contains(flags, "nchw") {
		return v
	}
	if i := slices.Index(flags, "--squeeze"); i >= 0 {
		drop := strings.Split(flags[i+1], ",")
		var left []int
		for axis, length := range shape {
			if !slices.Contains(drop, strconv.Itoa(axis)) {
				left = append(left, length)
			}
		}
		shape = left
	}
	n, c, places := shape[0], shape[1], shape[2]*shape[3]
	out := make([]float32, 0, len(v))
	for i := range n {
		for p := range places {
			for ch := range c {
				out = append(out, v[(i*c+ch)*places+p])
			}
		}
	}
	return out
}
