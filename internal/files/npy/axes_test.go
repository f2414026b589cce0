package npy

import (
	"path/filepath"
	"slices"
	"testing"

	"vsetrain/lab/try"
)

// What is said about axes; cmd/vsetrain runs the commands (TestAdviceAboutAxes).
func TestAxesRemedy(t *testing.T) {
	const run = "; `vsetrain data convert 'my x.npy' --out NEW.npy "
	for _, c := range []struct {
		shape []int
		want  string
	}{
		{[]int{9, 1, 4, 8}, run + "--squeeze 1` drops axis 1: [9 4 8]"},
		{[]int{9, 8, 1, 1}, run + "--squeeze 2,3` drops axis 2, axis 3: [9 8]"},
		{[]int{1, 9, 4, 8}, run + "--squeeze 0` drops axis 0, for 9 images: [9 4 8]"},
		{[]int{1, 1, 4, 8}, run + "--squeeze 1` drops axis 1, for one image of 4 regions: [1 4 8]" + run +
			"--squeeze 0,1` drops axis 0, axis 1, for 4 images of one vector: [4 8]"},
		{[]int{9, 8, 2, 3}, run + "--grid nchw` takes the axes for [N, C, H, W]: [9 6 8]" + run +
			"--grid nhwc` takes the axes for [N, H, W, C]: [9 16 3]"},
		{[]int{9, 2, 3, 4, 5}, "; no command knows what its axes stand for: reshape it in Python"},
		{[]int{9}, "; no command knows what its axes stand for: reshape it in Python"},
	} {
		if got := AxesRemedy("my x.npy", c.shape); got != c.want {
			t.Errorf("%v: %s, want %s", c.shape, got, c.want)
		}
	}
	if got := Readings([]int{1, 8, 2, 3}, true); len(got) != 2 || got[0].Flags != "--squeeze 0 --grid nchw" ||
		!slices.Equal(got[0].Shape, []int{6, 8}) {
		t.Errorf("one image: %v", got)
	}
}

func TestReshape(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.npy")
	try.Do(t, WriteFloat32(path, []int{1, 2, 3}, []float32{1, 2, 3, 4, 5, 6}))
	f := try.Get(Open(path))(t)
	defer f.Close()
	try.Do(t, f.Reshape([]int{2, 3}))
	row := make([]float32, 3)
	if try.Do(t, f.ReadRow(row, 1)); f.Rows() != 2 || !slices.Equal(row, []float32{4, 5, 6}) {
		t.Errorf("%d rows, the second is %v", f.Rows(), row)
	}
	for _, bad := range [][]int{{2, 2}, {}, {-2, -3}} {
		try.Fails(t, f.Reshape(bad), "shape [2 3] cannot become")
	}
}
