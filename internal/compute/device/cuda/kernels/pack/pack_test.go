package main

import (
	"archive/zip"
	"bytes"
	"os"
	"testing"
	"time"
)

// The committed table is what the sources declare, and no source changed after it was written.
func TestTableIsOfTheSources(t *testing.T) {
	want, err := declared("..")
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../kernels.tsv")
	if err != nil {
		t.Fatal(err)
	}
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
		if err := os.WriteFile(dir+"/"+name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	one, err := packed(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(dir+"/a.ptx", fixed, fixed); err != nil {
		t.Fatal(err)
	}
	if r, err := zip.NewReader(bytes.NewReader(one), int64(len(one))); err != nil || len(r.File) != 2 ||
		r.File[0].Name != "a.ptx" {
		t.Errorf("not an archive of both by name: %v", err)
	}
	if two, err := packed(dir); err != nil || !bytes.Equal(one, two) {
		t.Errorf("the same PTX gives other bytes: %v", err)
	}
}
