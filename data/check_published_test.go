package data

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vsetrain/internal/files/npy"
	"vsetrain/lab/try"
)

// Published features are recognised by name, type and shape, all files together.
func TestRecognisePublishedFeatures(t *testing.T) {
	array := func(name string, rows int) FileReport {
		return FileReport{Name: name, Kind: "features", DType: "<f4", Shape: []int{rows, 36, 2048}}
	}
	small, half := array("test_ims.npy", 1000), array("test_ims.npy", 1000)
	small.Shape, half.DType = []int{1000, 36, 1024}, "<f2"
	for want, cases := range map[string][][]FileReport{
		"f30k_precomp": {{array("train_ims.npy", 29000), array("dev_ims.npy", 5070), array("test_ims.npy", 5000)},
			{array("dev_ims.npy", 1014), {Name: "notes.txt", Kind: "other"}}},
		"coco_precomp":                 {{array("train_ims.npy", 113287)}, {array("testall_ims.npy", 5000)}},
		"f30k_precomp or coco_precomp": {{array("test_ims.npy", 1000)}},
		"": {{}, {small}, {half}, {array("train_ims.npy", 6000)}, {array("testall_ims.npy", 1000)},
			{array("train_ims.npy", 29000), array("testall_ims.npy", 5000)}, {array("mine_ims.npy", 1000)}},
	} {
		for _, files := range cases {
			if got := recognise(files); got != want {
				t.Errorf("%v: %q, want %q", files, got, want)
			}
		}
	}
}

// The check of a folder says so.
func TestCheckNamesPublishedFeatures(t *testing.T) {
	dir := t.TempDir()
	head := try.Get(npy.Header(npy.F32, []int{1000, 36, 2048}))(t)
	path := filepath.Join(dir, "test_ims.npy")
	try.Do(t, os.WriteFile(path, head, 0o666))
	if err := os.Truncate(path, int64(len(head))+1000*36*2048*4); err != nil { // holes, which take no room
		t.Fatal(err)
	}
	var captions strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&captions, "caption %d\n", i)
	}
	try.Do(t, os.WriteFile(filepath.Join(dir, "test_caps.txt"), []byte(captions.String()), 0o666))
	r, err := Check(dir, CheckOptions{SampleRows: 2})
	if err != nil || r.Features != "f30k_precomp or coco_precomp" {
		t.Errorf("%q, %v", r.Features, err)
	}
}
