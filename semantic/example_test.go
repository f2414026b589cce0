package semantic_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"vsetrain/semantic"
)

// Semantic vectors of four captions: two say nearly the same, one shares a word with them, one shares none.
func ExamplePrecompute() {
	dir, err := os.MkdirTemp("", "semantic")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	captions, vectors := filepath.Join(dir, "train_caps.txt"), filepath.Join(dir, "train_svd.npy")
	const lines = "A brown dog runs on the beach.\n" +
		"A dog is running along a beach.\n" +
		"A brown horse jumps.\n" +
		"Two women cook dinner.\n"
	if err := os.WriteFile(captions, []byte(lines), 0o666); err != nil {
		log.Fatal(err)
	}
	stats, err := semantic.Precompute(context.Background(), captions, vectors, semantic.Options{K: 3}, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(stats.Terms, "terms:", semantic.Terms("A brown dog runs on the beach."), "...")

	s, err := semantic.Open(vectors, semantic.OpenOptions{CaptionFile: captions})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	first, other := make([]float32, s.RowLen()), make([]float32, s.RowLen())
	if err := s.ReadRow(first, 0); err != nil {
		log.Fatal(err)
	}
	for i := 1; i < s.Rows(); i++ {
		if err := s.ReadRow(other, i); err != nil {
			log.Fatal(err)
		}
		var dot float32
		for j := range first {
			dot += first[j] * other[j]
		}
		fmt.Printf("similarity of captions 0 and %d: %.1f\n", i, max(dot, 0)) // rounding may leave it below 0
	}
	// Output:
	// 9 terms: [brown dog run beach] ...
	// similarity of captions 0 and 1: 0.9
	// similarity of captions 0 and 2: 0.3
	// similarity of captions 0 and 3: 0.0
}
