package report

import (
	"os"
	"path/filepath"
	"testing"
)

// A picture is written beside the earlier one and takes its place as a whole: a second name of the earlier one still
// holds that.
func TestPicturesAreReplacedWhole(t *testing.T) {
	columns := []Column{{Name: "lr", Labels: []string{"0", "1"}, At: []float64{0, 1}}, {Name: "M-Recall"}}
	tracks := []Track{{At: []float64{0, 1}, Value: 2}, {At: []float64{1, 0}, Value: 1}}
	for name, draw := range map[string]func(path string) error{
		"parallel.svg": func(path string) error { return Parallel(path, "two points", columns, tracks) },
		"importance.png": func(path string) error {
			return Bars(path, "effects", "share", []string{"lr"}, []float64{0.5})
		},
	} {
		dir := t.TempDir()
		path, earlier := filepath.Join(dir, name), filepath.Join(dir, "earlier")
		if err := os.WriteFile(path, []byte("old"), 0o666); err != nil {
			t.Fatal(err)
		}
		if err := os.Link(path, earlier); err != nil {
			t.Skipf("needs hard links: %v", err)
		}
		if err := draw(path); err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(path); err != nil || len(b) < 1000 {
			t.Errorf("%s: %d bytes, %v", name, len(b), err)
		}
		if b, err := os.ReadFile(earlier); err != nil || string(b) != "old" {
			t.Errorf("%s was written over: %.20q, %v", name, b, err)
		}
	}
}
