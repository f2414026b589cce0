package eval

import (
	"fmt"
	"slices"
	"testing"

	"vsetrain/internal/compute/device"
	"vsetrain/lab/try"
	"vsetrain/models"
)

// small is a device that has no memory for more than a number of elements at a time.
type small struct {
	device.Device
	most int
}

func (s *small) Alloc(t device.DType, n int) (device.Buffer, error) {
	if n > s.most {
		return nil, fmt.Errorf("allocate: %w", &device.OutOfMemoryError{Want: 4 * int64(n), Err: fmt.Errorf("full")})
	}
	return s.Device.Alloc(t, n)
}

// A device without memory for a tile scores it in smaller ones, to the same scores, and says so once; one without
// memory for a single pair is an error.
func TestTilesThatFit(t *testing.T) {
	score := func(most int) (scores []float32, warnings []error, err error) {
		dev := &small{onCPU(t), 1 << 30}
		w := newPairWorld(t, dev, models.SAF)
		dev.most = most
		p := &pairTiles{r: w.r, images: w.images, captions: w.captions, tileI: worldImages, tileC: worldCaptions,
			warn: func(err error) { warnings = append(warnings, err) }}
		scores = make([]float32, worldImages*worldCaptions)
		err = p.score(scores, 0, worldImages, 0, worldCaptions, func() error { return nil })
		return scores, warnings, err
	}
	want, warnings, err := score(1 << 30)
	if err != nil || len(warnings) != 0 {
		t.Fatal(err, warnings)
	}
	fitted := 0
	for most := 1 << 20; most > 1; most /= 2 {
		got, warnings, err := score(most)
		if err != nil {
			try.Fails(t, err, "one image with one caption")
			break
		}
		if !slices.Equal(got, want) {
			t.Errorf("with capacity for %d elements: %v, want %v", most, got, want)
		}
		if len(warnings) == 1 {
			fitted++
		}
	}
	if fitted < 2 {
		t.Errorf("%d sizes of memory made tiles smaller", fitted)
	}
}
