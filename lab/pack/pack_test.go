package main

import (
	"archive/zip"
	"bytes"
	"os"
	"testing"
	"time"

	"vsetrain/lab/try"
)

// The committed table is what the sources declare, and no source changed after it was written.
func TestTableIsOfTheSources(t *testing.T) {
	want := try.Get(declared("../../internal/compute/device/cuda/kernels"))(t)
	got := try.Get(os.ReadFile("../../internal/compute/device/cuda/kernels/kernels.tsv"))(t)
	if !bytes.Equal(got, want) {
		t.Error("kernels.tsv is not of these sources: run make kernels")
	}
}

var fixed = time.Unix(0, 0)

func TestPacked(t *testing.T) {
	dir := t.TempDir()
	if _, err := packed(dir); err == nil {
		t.Error("an empty folder gives no error")
	}
	for name, text := range map[string]string{"b.ptx": "second", "a.ptx": "first"} {
		try.Do(t, os.WriteFile(dir+"/"+name, []byte(text), 0o644))
	}
	one := try.Get(packed(dir))(t)
	try.Do(t, os.Chtimes(dir+"/a.ptx", fixed, fixed))
	if r, err := zip.NewReader(bytes.NewReader(one), int64(len(one))); err != nil || len(r.File) != 2 ||
		r.File[0].Name != "a.ptx" {
		t.Errorf("not an archive of both by name: %v", err)
	}
	if two, err := packed(dir); err != nil || !bytes.Equal(one, two) {
		t.Errorf("the same PTX gives other bytes: %v", err)
	}
}
