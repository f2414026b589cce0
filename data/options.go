package data

import "vsetrain/internal/system/options"

// Options says where a data set is and how to read its files (layout: README, "Data").
type Options struct {
	// Dir holds {split}_caps.txt, {split}_ims.npy and {split}_ids.txt. Validate accepts "", but commands that read data
	// refuse it.
	Dir string `yaml:"dir" doc:"folder of the data set: {train,dev,test}_caps.txt, _ims.npy, _ids.txt"`

	// CaptionsPerImage must agree with the files (solveLayout).
	CaptionsPerImage options.PerSplit `yaml:"captions_per_image" doc:"captions per image, checked against the files; auto reads it from them"`

	// DevCaptions is OpenOptions.MaxCaptions of the dev split, with 0 for all.
	DevCaptions int `yaml:"dev_captions" min:"0" doc:"use only the first N captions of the dev split; 0 uses all"`

	// Vocab is a SCAN JSON or Python pickle vocabulary, or "auto": vocab.json in Dir.
	Vocab string `yaml:"vocab" doc:"vocabulary file (SCAN JSON or pickle); auto is vocab.json in the data folder"`

	// FeatureDType is the type of the stored image features; "auto" takes it from the file.
	FeatureDType string `yaml:"feature_dtype" enum:"auto|f32|f16" doc:"required type of the stored features; auto accepts both"`

	// Semantics is the file of semantic vectors of the training captions that LSEH needs, .npy or comma-separated text;
	// "auto": train_{svd,bert}.npy, then train_{svd,bert}.txt, in Dir.
	Semantics string `yaml:"semantics" doc:"semantic vectors of the training captions (lseh); auto is train_svd.npy or .txt (train_bert.* for loss.lseh.semantics bert) in the data folder"`

	// NoiseIndex gives the training captions other images than their own (AttachNoise).
	NoiseIndex string `yaml:"noise_index" doc:"file from vsetrain data noise, which gives training captions wrong images; empty gives none"`

	// Mined puts mined negatives into the batches of their anchors (AttachMined).
	Mined string `yaml:"mined" doc:"file from vsetrain mine, whose negatives join the batches of their anchors; empty only shuffles"`
}

// DefaultOptions returns the options of a data set in the usual layout, without Dir.
func DefaultOptions() Options {
	return Options{CaptionsPerImage: "auto", DevCaptions: 5000, Vocab: "auto", FeatureDType: "auto", Semantics: "auto"}
}

// Validate returns an *options.Error for the first invalid option.
func (o *Options) Validate() error {
	if err := options.Check(o); err != nil {
		return err
	}
	if o.Vocab == "" {
		return &options.Error{Key: "vocab", Found: `""`, Expected: "auto or a file"}
	}
	if o.Semantics == "" {
		return &options.Error{Key: "semantics", Found: `""`, Expected: "auto or a file"}
	}
	return nil
}

// OpenOptions says how Open reads a split. The zero value reads captions, features and ids.
type OpenOptions struct {
	// CaptionsPerImage is k; 0 derives it from the files.
	CaptionsPerImage int

	// FeatureDType is the required type of features, "f32" or "f16"; "" and "auto" accept both.
	FeatureDType string

	// Semantics names an .npy matrix [captions, k] of semantic vectors; "" reads none.
	Semantics string

	// MaxCaptions is the number of captions to use, from the first, rounded down to whole images. 0 uses 5,000 of the
	// dev split (Flickr30K has 5,070, but published results use the first 5,000) and all of other splits. A negative
	// number uses all.
	MaxCaptions int

	// Boxes reads the boxes of the regions (ReadBoxes).
	Boxes bool

	// Dependencies reads the dependency trees of the captions: "" reads none, "check" reads them if there are any, and
	// "need" requires them.
	Dependencies string

	// WordIDs uses {split}_precaps_stan.txt, if there is one, instead of tokenising the captions.
	WordIDs bool

	// Partial accepts a split with only images, a gallery, together with its changes, or with only captions. Training
	// and evaluation need both, and ignore changes.
	Partial bool

	// Original ignores the changes of a gallery.
	Original bool

	// Warn, if not nil, receives warnings: files whose time differs from the manifest, ids that repeat, captions left
	// out, and zeros that look like padding.
	Warn func(error)

	// AllowEmpty accepts empty captions, which the references train on as <start> <end>.
	AllowEmpty bool
}

// warn passes the error of a check to Warn.
func (o *OpenOptions) warn(check func() error) {
	if o.Warn != nil {
		if err := check(); err != nil {
			o.Warn(err)
		}
	}
}
