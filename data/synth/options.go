package synth

import (
	"fmt"

	"vsetrain/internal/files/npy"
	"vsetrain/internal/system/options"
)

// Options says how much of the synthetic world is written and in which form.
type Options struct {
	// Images of each split; 0 leaves the split out, but one must be positive. The pictures of test are the first ones
	// of testall, and the first n pictures of a split do not depend on how many follow.
	Train   int `yaml:"train" min:"0" max:"100000000" doc:"images of the train split"`
	Dev     int `yaml:"dev" min:"0" max:"100000000" doc:"images of the dev split"`
	Test    int `yaml:"test" min:"0" max:"100000000" doc:"images of the test split"`
	TestAll int `yaml:"testall" min:"0" max:"100000000" doc:"images of the testall split"`

	Regions          int       `yaml:"regions" min:"1" max:"1024" doc:"regions per image; 1 is one vector for the whole picture"` // R
	Dim              int       `yaml:"dim" min:"16" max:"65536" doc:"feature size of a region"`                                   // D
	CaptionsPerImage int       `yaml:"captions" min:"1" max:"50" doc:"captions per image"`                                        // readers of precomp folders know 5, and 1 with Repeat or without
	Seed             uint64    `yaml:"seed" doc:"seed of the world; the same options and seed give the same bytes"`
	Repeat           bool      `yaml:"repeat" doc:"store each image row once per caption in dev and test, as SCAN's Flickr30K does"`
	DType            npy.DType // npy.F32 or npy.F16
	Images           bool      `yaml:"images" doc:"also draw every scene as a PNG"` // images/{id}.png and id_mapping.json
	// ImagesOf are the splits whose scenes are drawn where Images is false.
	ImagesOf []string `yaml:"images_of" enum:"train|dev|test|testall" list:"," arg:"SPLITS" not:"images" doc:"also draw the scenes of these SPLITS as PNGs"`
	Force    bool     `yaml:"force" doc:"replace an existing data set"`
	Threads  int      `yaml:"threads" min:"0" max:"4096" doc:"CPU threads; 0 uses all processors; never changes the result"`
}

// Default returns the world of the demonstration: 3,000 training images of 36 regions of 512 channels, five captions
// each.
func Default() Options {
	return Options{Train: 3000, Dev: 200, Test: 500, Regions: 36, Dim: 512, CaptionsPerImage: 5, Seed: 7,
		DType: npy.F32}
}

// Validate returns an error that names the first field that cannot be used.
func (o *Options) Validate() error {
	if err := options.Check(o); err != nil {
		return fmt.Errorf("synthetic world: %w", err)
	}
	if o.Train+o.Dev+o.Test+o.TestAll == 0 {
		return fmt.Errorf("synthetic world: every split has 0 images; ask for at least one image in train, dev, test " +
			"or testall")
	}
	if o.DType != npy.F32 && o.DType != npy.F16 {
		return fmt.Errorf("synthetic world: feature type: expected f32 (%s) or f16 (%s), found %q", npy.F32, npy.F16,
			string(o.DType))
	}
	return nil
}
