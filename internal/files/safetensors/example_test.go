package safetensors_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"vsetrain/internal/files/safetensors"
)

// A checkpoint with one matrix, written and opened again.
func ExampleOpen() {
	dir, err := os.MkdirTemp("", "safetensors")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "model.safetensors")
	w, err := os.Create(path)
	if err != nil {
		log.Fatal(err)
	}
	weight := safetensors.FromFloat32s("img.fc.weight", []int{2, 2}, []float32{1, 0, 0, 1})
	if err := safetensors.Write(w, []safetensors.Tensor{weight}, map[string]string{"step": "1410"}); err != nil {
		log.Fatal(err)
	}
	if err := w.Close(); err != nil {
		log.Fatal(err)
	}

	f, err := safetensors.Open(path)
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	for _, name := range f.Names() {
		t, _ := f.Tensor(name)
		values := make([]float32, t.Len())
		if err := f.Float32s(name, values); err != nil {
			log.Fatal(err)
		}
		fmt.Println(name, t.DType, t.Shape, values, "after step", f.Metadata()["step"])
	}
	// Output: img.fc.weight F32 [2 2] [1 0 0 1] after step 1410
}
