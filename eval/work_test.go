package eval

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"vsetrain/internal/files/runfs"
	"vsetrain/lab/try"
)

var workTiling = tiling{images: 5, captions: 7, tileI: 2, tileC: 3}

// openTest opens the work file of a key and returns what it holds.
func openTest(t *testing.T, dir string, key byte) (*workFile, map[int][]float32) {
	t.Helper()
	got := map[int][]float32{}
	w, err := openWork(dir, "", "saf", [32]byte{key}, workTiling, func(k int, s []float32) { got[k] = slices.Clone(s) })
	try.Do(t, err)
	return w, got
}

// found is what the work file of a key holds.
func found(t *testing.T, dir string, key byte) map[int][]float32 {
	t.Helper()
	w, got := openTest(t, dir, key)
	try.Do(t, w.close())
	return got
}

func tileOf(k int) []float32 {
	i0, i1, c0, c1 := workTiling.tile(k)
	s := make([]float32, (i1-i0)*(c1-c0))
	for i := range s {
		s[i] = float32(k*100 + i)
	}
	return s
}

// written makes a work file with tiles. It returns the path of the file, its contents, and where each record ends.
func written(t *testing.T, dir string, tiles ...int) (path string, whole []byte, ends []int64) {
	t.Helper()
	w, got := openTest(t, dir, 1)
	if len(got) != 0 {
		t.Fatalf("a new file holds %v", got)
	}
	for _, k := range tiles {
		try.Do(t, w.add(k, tileOf(k)))
		ends = append(ends, try.Get(w.f.Seek(0, io.SeekCurrent))(t))
	}
	try.Do(t, w.close())
	names, _ := filepath.Glob(filepath.Join(dir, "saf-*.tiles"))
	if len(names) != 1 {
		t.Fatalf("files %v", names)
	}
	return names[0], try.Get(os.ReadFile(names[0]))(t), ends
}

// A file truncated anywhere returns the tiles that were complete, and takes the others.
func TestWorkFileSurvivesBeingCut(t *testing.T) {
	dir := t.TempDir()
	order := []int{3, 0, 8, 5} // any order, edge tiles among them
	path, whole, ends := written(t, dir, order...)
	for cut := 0; cut <= len(whole); cut++ {
		try.Do(t, os.WriteFile(path, whole[:cut], 0o666))
		got := found(t, dir, 1)
		want := 0
		for i, end := range ends {
			if int64(cut) >= end {
				want = i + 1
				if !slices.Equal(got[order[i]], tileOf(order[i])) {
					t.Fatalf("cut at %d: tile %d is %v", cut, order[i], got[order[i]])
				}
			}
		}
		if len(got) != want {
			t.Fatalf("cut at %d: %d tiles, want %d", cut, len(got), want)
		}
	}
	for from := range len(header([32]byte{}, workTiling)) - 1 { // as a power failure leaves it
		try.Do(t, os.WriteFile(path, append(slices.Clone(whole[:from]), make([]byte, len(whole)-from)...), 0o666))
		if got := found(t, dir, 1); len(got) != 0 {
			t.Fatalf("a file of zeros from byte %d on holds %v", from, got)
		}
	}
	broken := slices.Clone(whole)
	broken[ends[0]+10] ^= 1 // in the second record
	try.Do(t, os.WriteFile(path, broken, 0o666))
	again, got := openTest(t, dir, 1)
	if len(got) != 1 {
		t.Fatalf("after a corrupted record: %v", got)
	}
	_, err := openWork(dir, "", "saf", [32]byte{1}, workTiling, nil)
	if try.Fails(t, err, "--work"); !errors.Is(err, runfs.ErrLocked) {
		t.Fatalf("a second program at the same tiles: %v", err)
	}
	try.Do(t, again.add(7, tileOf(7)))
	try.Do(t, again.close())
	if got := found(t, dir, 1); len(got) != 2 || !slices.Equal(got[7], tileOf(7)) {
		t.Fatalf("after a repair: %v", got)
	}
	if got := found(t, dir, 2); len(got) != 0 {
		t.Errorf("another key found %v", got)
	}
	for magic, want := range map[string]string{workMagic: "holds tiles of others",
		"VSETILE1": "tiles of an earlier version"} {
		try.Do(t, os.WriteFile(path, append([]byte(magic), bytes.Repeat([]byte{1}, 100)...), 0o666))
		try.Refuses(openWork(dir, "", "saf", [32]byte{1}, workTiling, nil))(t, want, "remove")
	}
}

// A record replaces no other tile: not when a bit of its number is damaged, and not when it repeats a number.
func TestWorkFileKeepsTilesApart(t *testing.T) {
	dir := t.TempDir()
	path, whole, ends := written(t, dir, 0, 1) // of one size
	for at := ends[0]; at < ends[1]; at++ {
		for bit := range 8 {
			damaged := slices.Clone(whole)
			damaged[at] ^= 1 << bit
			try.Do(t, os.WriteFile(path, damaged, 0o666))
			if got := found(t, dir, 1); len(got) != 1 || !slices.Equal(got[0], tileOf(0)) {
				t.Fatalf("bit %d of byte %d damaged: %v", bit, at, got)
			}
		}
	}
	other := tileOf(1)
	for i := range other {
		other[i]++
	}
	try.Do(t, os.WriteFile(path, whole, 0o666))
	again, _ := openTest(t, dir, 1)
	try.Do(t, again.add(1, other))
	try.Do(t, again.close())
	if got := found(t, dir, 1); !slices.Equal(got[1], tileOf(1)) {
		t.Errorf("a tile that is there twice: %v", got[1])
	}
}
