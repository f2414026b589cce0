package eval

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"vsetrain/batch"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cpu"
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
	base := try.Get(cpu.New(cpu.Options{Threads: 1}))(t)
	defer base.Close()
	const n, regions, feature, words = 6, 3, 4, 5
	score := func(most int) (scores []float32, warnings []error, err error) {
		dev := &small{base, 1 << 30}
		o := models.DefaultOptions()
		o.Network, o.EmbedDim, o.WordDim = models.SAF, 16, 8
		m, err := models.NewModel(dev, o, models.Dims{Regions: regions, Feature: feature, Vocab: 20})
		try.Do(t, err)
		m.Init(5, nil)
		r := rand.New(rand.NewPCG(1, 2))
		var images, captions models.EncodedSet
		x := make([]float32, n*regions*feature)
		for i := range x {
			x[i] = r.Float32()
		}
		ids, lengths := make([]int32, n*words), make([]int32, n)
		for i := range ids {
			ids[i] = int32(1 + r.IntN(19))
		}
		for i := range lengths {
			lengths[i] = int32(words - i/3)
		}
		run := models.NewRunner(m, nil).Pairs
		try.Do(t, run.AppendImages(&images, batch.Images{N: n, Features: x}, n))
		try.Do(t, run.AppendCaptions(&captions, packed(ids, words, lengths), n))
		dev.most = most
		p := &pairTiles{r: run, images: &images, captions: &captions, tileI: n, tileC: n,
			warn: func(err error) { warnings = append(warnings, err) }}
		scores = make([]float32, n*n)
		err = p.score(scores, 0, n, 0, n, func() error { return nil })
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
			if !strings.Contains(err.Error(), "one image with one caption") {
				t.Error(err)
			}
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

// packed leaves out what lies after the words of captions [n, width].
func packed(words []int32, width int, lengths []int32) (out batch.Captions) {
	for i, n := range lengths {
		out.Add(words[i*width:][:n])
	}
	return out
}
