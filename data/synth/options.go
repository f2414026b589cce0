package synth

import (
	"fmt"
	"slices"
	"strings"

	"vsetrain/internal/files/npy"
)

// Options says how much of the synthetic world is written and in which form.
type Options struct {
	// Images of each split; 0 leaves the split out, but one must be positive. The pictures of test are the first ones
	// of testall, and the first n pictures of a split do not depend on how many follow.
	Train, Dev, Test, TestAll int

	Regions          int    // R, regions per image, 1 to 1024; 1 is one vector for the whole picture
	Dim              int    // D, feature channels, 16 to 65536
	CaptionsPerImage int    // 1 to 50; the readers of precomp folders know 5, and 1 with Repeat or without
	Seed             uint64 // of everything; the same options and seed give the same bytes
	// store each image row of dev, test and testall CaptionsPerImage times, as SCAN's Flickr30K does
	Repeat bool
	DType  npy.DType // npy.F32 or npy.F16
	Images bool      // also draw every scene: images/{id}.png and id_mapping.json
	// ImagesOf are the splits whose scenes are drawn where Images is false.
	ImagesOf []string
	Force    bool // replace a data set that is already in the folder
	Threads  int  // 0 is all processors; never changes the result
}

// Default returns the world of the demonstration: 3,000 training images of 36 regions of 512 channels, five captions
// each.
func Default() Options {
	return Options{Train: 3000, Dev: 200, Test: 500, Regions: 36, Dim: 512, CaptionsPerImage: 5, Seed: 7,
		DType: npy.F32}
}

// Validate returns an error that names the first field that cannot be used.
func (o *Options) Validate() error {
	for _, f := range []struct {
		name     string
		v        int
		min, max int
	}{
		{"train", o.Train, 0, 1e8}, {"dev", o.Dev, 0, 1e8}, {"test", o.Test, 0, 1e8}, {"testall", o.TestAll, 0, 1e8},
		{"regions", o.Regions, 1, 1024}, {"dim", o.Dim, 16, 65536},
		{"captions per image", o.CaptionsPerImage, 1, 50}, {"threads", o.Threads, 0, 4096},
	} {
		if f.v < f.min || f.v > f.max {
			return fmt.Errorf("synthetic world: %s: expected a whole number in [%d, %d], found %d", f.name, f.min,
				f.max, f.v)
		}
	}
	if o.Train+o.Dev+o.Test+o.TestAll == 0 {
		return fmt.Errorf("synthetic world: every split has 0 images; ask for at least one image in train, dev, test " +
			"or testall")
	}
	for _, name := range o.ImagesOf {
		if !slices.Contains(splits, name) {
			return fmt.Errorf("synthetic world: images of split %q: expected one of %s", name,
				strings.Join(splits, ", "))
		}
	}
	if o.DType != npy.F32 && o.DType != npy.F16 {
		return fmt.Errorf("synthetic world: feature type: expected f32 (%s) or f16 (%s), found %q", npy.F32, npy.F16,
			string(o.DType))
	}
	return nil
}
