package eval

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"vsetrain/internal/compute/par"
	"vsetrain/internal/files/npy"
	"vsetrain/lab/try"
)

func TestSavedScoresComeBack(t *testing.T) {
	const n, k, dim = saveRows + 7, 4, 11 // several tiles of rows and of captions
	rng := rand.New(rand.NewPCG(31, 32))
	e := try.Get(newEmbeddings(nil, gaussian(rng, n, dim), gaussian(rng, n*k, dim), dim))(t)
	pool := par.New(3)
	defer pool.Close()
	path := filepath.Join(t.TempDir(), "scores.npy")
	try.Do(t, SaveScores(pool, path, e))
	s := try.Get(LoadScores(path))(t)
	if gn, gm := s.Dims(); gn != n || gm != n*k {
		t.Fatalf("%d x %d scores came back, want %d x %d", gn, gm, n, n*k)
	}
	for i := range n {
		for c := range n * k {
			if got, want := s.At(i, c), float64(float32(e.At(i, c))); got != want {
				t.Fatalf("S[%d,%d] = %v, want %v", i, c, got, want)
			}
		}
	}
	stored := try.Get(OpenScores(path))(t)
	defer stored.Close()
	for i := n - 1; i >= 0; i -= 3 { // from block to block, and back within one
		for _, c := range []int{n*k - 1, i, 0} {
			if got, want := stored.At(i, c), s.At(i, c); got != want {
				t.Fatalf("S[%d,%d] = %v from the file, want %v", i, c, got, want)
			}
		}
	}
}

func TestLoadScoresReadsFloat64AndRefusesOthers(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, d npy.DType, shape []int, v ...float32) string {
		t.Helper()
		path := filepath.Join(dir, name)
		w := try.Get(npy.Create(path, d, shape))(t)
		try.Do(t, w.WriteFloat32(v))
		try.Do(t, w.Close())
		return path
	}
	s, err := LoadScores(write("f64.npy", npy.F64, []int{1, 2}, 0.5, 3))
	if err != nil || s.At(0, 0) != 0.5 || s.At(0, 1) != 3 {
		t.Errorf("float64 scores: %v, %v", s, err)
	}
	for path, want := range map[string]string{
		write("cube.npy", npy.F32, []int{1, 1, 2}, 1, 2): "found float32 of shape [1 1 2]",
		write("ints.npy", npy.I32, []int{1, 2}, 1, 2):    "found int32 of shape [1 2]",
		write("none.npy", npy.F32, []int{0, 2}): "expected floats of shape [images, captions], found float32 of " +
			"shape [0 2]",
		filepath.Join(dir, "absent.npy"): "absent.npy",
	} {
		try.Refuses(LoadScores(path))(t, want)
	}
}

func TestSaveScoresNamesTheFileItCannotWrite(t *testing.T) {
	d, _ := newDense[float32](1, 1)
	path := filepath.Join(t.TempDir(), "absent", "scores.npy")
	try.Fails(t, SaveScores(nil, path, d), path)
	if _, err := os.Stat(path); err == nil {
		t.Error("the file exists all the same")
	}
}
