package pictures

import (
	"path/filepath"
	"strings"
	"testing"

	"vsetrain/lab/try"
)

// Chroma at half the resolution, and animations, are decoded as Pillow 13.0 (libjpeg-turbo, libwebp) does: next to each
// picture is what Pillow made of it. WebP is equal; the transform of a JPEG rounds luma and chroma differently by at
// most one, which is three in blue.
func TestColoursAsPillow(t *testing.T) {
	dir := try.Fixtures(t, "pictures")
	for name, most := range map[string]int{"420.jpg": 3, "422.jpg": 3, "440.jpg": 3, "even.webp": 0, "odd.webp": 0,
		"animated-lossy.webp": 0, "animated-lossless.webp": 0} {
		got := try.Get(Open(t.Context(), filepath.Join(dir, name)))(t)
		want, err := Open(t.Context(), filepath.Join(dir, strings.TrimSuffix(name, filepath.Ext(name))+".png"))
		try.Do(t, err)
		if got.Width != want.Width || got.Height != want.Height {
			t.Fatalf("%s: %d x %d, want %d x %d", name, got.Width, got.Height, want.Width, want.Height)
		}
		sum, worst := 0, 0
		for i, v := range got.Pix {
			d := max(int(v)-int(want.Pix[i]), int(want.Pix[i])-int(v))
			sum, worst = sum+d, max(worst, d)
		}
		if mean := float64(sum) / float64(len(got.Pix)); worst > most || mean > 0.1 {
			t.Errorf("%s: differs from Pillow by %d at most, by %.3f on average; at most %d and 0.1 are rounding", name,
				worst, mean, most)
		}
	}
}
