package semantic

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"vsetrain/internal/compute/par"
	"vsetrain/internal/files/atomicfile"
	"vsetrain/internal/files/npy"
	"vsetrain/lab/try"
)

const someCaptions = "Two dogs run over green grass.\nA dog jumps over a red fence.\n\nMen climb the steep " +
	"mountain\nIt is what it is.\nA red bird sits on green grass"

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	try.Do(t, os.WriteFile(path, []byte(text), 0o666))
	return path
}

func TestPrecomputeAndOpen(t *testing.T) {
	caps := writeFile(t, "train_caps.txt", someCaptions)
	out := filepath.Join(t.TempDir(), "train_svd.npy")
	phases := map[string]int{}
	s := try.Get(Precompute(context.Background(), caps, out, Options{K: 4}, func(phase string, done, total int) {
		if done < phases[phase] || done > total {
			t.Errorf("%s: %d of %d after %d", phase, done, total, phases[phase])
		}
		phases[phase] = done
	}))(t)
	if s.Lines != 6 || s.Empty != 2 || s.Zero != 2 || s.K != 4 || s.Terms != 13 || s.SigmaMin <= 0 ||
		s.SigmaMax < s.SigmaMin {
		t.Errorf("stats %+v", s)
	}
	if phases[PhaseTerms] != 6 || phases[PhaseSVD] != 100 || phases[PhaseWrite] != 6 {
		t.Errorf("progress ended at %v", phases)
	}
	want, k, err := vectorsOf(context.Background(), strings.Split(someCaptions, "\n"), Options{K: 4})
	try.Do(t, err)
	store := try.Get(Open(out, OpenOptions{Captions: 6, CaptionFile: caps}))(t)
	defer store.Close()
	if store.Rows() != 6 || store.RowLen() != k || store.Sidecar == nil || store.Sidecar.Terms != 13 {
		t.Fatalf("store [%d, %d], %+v", store.Rows(), store.RowLen(), store.Sidecar)
	}
	row := make([]float32, k)
	for i := range 6 {
		try.Do(t, store.ReadRow(row, i))
		if !slices.Equal(row, want[i*k:(i+1)*k]) {
			t.Errorf("row %d is %v, want %v", i, row, want[i*k:(i+1)*k])
		}
	}

	other := writeFile(t, "train_caps.txt", strings.Replace(someCaptions, "red", "blue", 1))
	_, err = Open(out, OpenOptions{Captions: 6, CaptionFile: other})
	try.Fails(t, err, "computed from another train_caps.txt", "run precompute-svd again")
	try.Refuses(Open(out, OpenOptions{Captions: 7}))(t, "one row for each of 7 captions", "found 6 rows")
	try.Do(t, npy.WriteFloat32(out, []int{2, 3}, make([]float32, 6)))
	try.Refuses(Open(out, OpenOptions{}))(t, "are [2, 3]", "describes [6, 4]")
}

// The text form holds the same float32 values.
func TestPrecomputeText(t *testing.T) {
	caps := writeFile(t, "train_caps.txt", someCaptions)
	dir := t.TempDir()
	var rows [2][]float32
	for i, name := range []string{"train_svd.npy", "train_svd.txt"} {
		path := filepath.Join(dir, name)
		try.Get(Precompute(context.Background(), caps, path, Options{K: 4}, nil))(t)
		s := try.Get(Open(path, OpenOptions{Captions: 6, CaptionFile: caps}))(t)
		rows[i] = make([]float32, 6*4)
		for r := range 6 {
			try.Do(t, s.ReadRow(rows[i][r*4:(r+1)*4], r))
		}
		s.Close()
	}
	if !slices.Equal(rows[0], rows[1]) {
		t.Errorf("text holds %v, the array %v", rows[1], rows[0])
	}
	w := try.Get(Create(filepath.Join(dir, "half.txt"), Sidecar{Captions: 2, Dim: 2}))(t)
	try.Fails(t, errors.Join(w.Write([]float32{1, 2, 3}), w.Close()), "half.txt",
		"3 values written, expected 2 rows of 2")
	if left, _ := filepath.Glob(filepath.Join(dir, "half*")); len(left) != 0 {
		t.Errorf("%v left behind", left)
	}
}

// Vectors whose description cannot be written do not replace the earlier ones, and nothing is left behind.
func TestNoVectorsWithoutDescription(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "train_svd.npy")
	write := func(v float32) error {
		w := try.Get(Create(path, Sidecar{Method: "svd", CaptionSHA256: "old", Captions: 1, Dim: 1}))(t)
		return errors.Join(w.Write([]float32{v}), w.Close())
	}
	try.Do(t, write(1))
	try.Do(t, errors.Join(os.Remove(sidecarPath(path)), os.Mkdir(sidecarPath(path), 0o777)))
	try.Fails(t, write(2), "train_svd.npy.json", "description", "found a folder")
	a := try.Get(npy.Open(path))(t)
	defer a.Close()
	row := make([]float32, 1)
	if err := a.ReadRow(row, 0); err != nil || row[0] != 1 {
		t.Errorf("row %v (%v)", row, err)
	}
	if all, _ := os.ReadDir(dir); len(all) != 3 { // with the manifest
		t.Errorf("%v in the folder", all)
	}
}

// The vectors are the last file to come, so that no kill leaves them with the description of others or with none.
func TestVectorsComeLast(t *testing.T) {
	path := filepath.Join(t.TempDir(), "train_svd.npy")
	w := try.Get(Create(path, Sidecar{Method: "svd", Captions: 1, Dim: 1}))(t)
	set := &atomicfile.Set{}
	defer set.Abort()
	try.Do(t, errors.Join(w.Write([]float32{1}), w.prepare(set)))
	if got := set.Paths(); !slices.Equal(got, []string{sidecarPath(path), path}) {
		t.Errorf("%v", got)
	}
}

// A small corpus allows one dimension less than it has terms.
func TestVectorsOfFewTerms(t *testing.T) {
	ctx := context.Background()
	v, k, err := vectorsOf(ctx, []string{"red dog", "blue dog", "red"}, DefaultOptions())
	if err != nil || k != 2 || len(v) != 6 {
		t.Errorf("k %d, %d values, %v", k, len(v), err)
	}
	_, _, err = vectorsOf(ctx, []string{"dog", "the dog"}, DefaultOptions())
	try.Fails(t, err, "2 captions hold 1 different terms")
	_, _, err = vectorsOf(ctx, []string{"red dog"}, Options{K: 0})
	try.Fails(t, err, "k: expected")
}

// A caption whose only term no other caption has is orthogonal to the leading vectors: rounding noise becomes zero.
func TestVectorOutsideTheSubspace(t *testing.T) {
	lines := []string{"red dog", "red dog runs", "dog runs fast", "giraffe", "red dog fast", "it is"}
	v, k, err := vectorsOf(context.Background(), lines, Options{K: 1})
	if err != nil || k != 1 {
		t.Fatal(k, err)
	}
	for i, want := range []bool{true, true, true, false, true, false} {
		if (v[i] != 0) != want {
			t.Errorf("vector of %q is %v", lines[i], v[i])
		}
	}
}

func TestPrecomputeErrors(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	out := filepath.Join(dir, "out.npy")
	caps := writeFile(t, "caps.txt", someCaptions)
	for _, c := range []struct {
		in, out string
		want    []string
	}{
		{filepath.Join(dir, "none.txt"), out, []string{"none.txt"}},
		{writeFile(t, "empty.txt", ""), out, []string{"empty.txt", "expected one caption per line"}},
		{writeFile(t, "binary.txt", "a dog\nb\x00"), out, []string{"binary.txt:2", "zero byte"}},
		{writeFile(t, "stop.txt", "it is\nwhat it is\n"), out, []string{"stop.txt", "0 different terms"}},
		{caps, filepath.Join(dir, "out.csv"), []string{"out.csv", "ending in .npy or .txt"}},
		{caps, filepath.Join(dir, "no", "out.txt"), []string{"out.txt"}},
		{caps, filepath.Join(dir, "no", "out.npy"), []string{"out.npy"}},
	} {
		try.Refuses(Precompute(ctx, c.in, c.out, DefaultOptions(), nil))(t, c.want...)
	}
	stop, cancel := context.WithCancel(ctx)
	_, err := Precompute(stop, caps, out, Options{K: 3}, func(phase string, _, _ int) {
		if phase == PhaseSVD {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("failures left %v behind", left)
	}
}

// vectorsOf returns the semantic vectors [N, k] of N captions and k, which is o.K or, where that is less, the number of
// different terms minus one. A caption without terms, or with none that the subspace
// knows, has the zero vector.
func vectorsOf(ctx context.Context, lines []string, o Options) ([]float32, int, error) {
	if err := o.Validate(); err != nil {
		return nil, 0, err
	}
	pool := par.New(o.Threads)
	defer pool.Close()
	d, err := decompose(ctx, pool, lines, o, func(string, int, int) {})
	if err != nil {
		return nil, 0, err
	}
	k := len(d.svd.Sigma)
	out := make([]float32, len(lines)*k)
	d.project(pool, 0, len(lines), out)
	return out, k, nil
}
