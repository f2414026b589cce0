package npy_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"vsetrain/internal/files/npy"
)

// Two images of three values each, as numpy.save would write them; rows are read one at a time from the mapped file.
func ExampleOpen() {
	dir, err := os.MkdirTemp("", "npy")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "test_ims.npy")
	if err := npy.WriteFloat32(path, []int{2, 3}, []float32{1, 2, 3, 4, 5, 6}); err != nil {
		log.Fatal(err)
	}

	f, err := npy.Open(path)
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	row := make([]float32, f.RowLen())
	if err := f.ReadRow(row, 1); err != nil {
		log.Fatal(err)
	}
	fmt.Println(f.Rows(), "rows, the last is", row)
	// Output: 2 rows, the last is [4 5 6]
}
