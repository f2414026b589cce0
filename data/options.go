package data

import "vsetrain/internal/system/options"

// Options says where a data set lies and how its files are read (layout: README, "Data").
type Options struct {
	// Dir holds {split}_caps.txt, {split}_ims.npy and {split}_ids.txt. Empty is accepted here and refused by
	// the commands that read data.
	Dir string `yaml:"dir" doc:"folder of the data set: {train,dev,test}_caps.txt, _ims.npy, _ids.txt"`

	// CaptionsPerImage must agree with what the files say (solveLayout).
	CaptionsPerImage options.PerSplit `yaml:"captions_per_image" doc:"captions per image, checked against the files; auto reads it from them"`

	// DevCaptions is OpenOptions.DevCaptions.
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

// DefaultOptions returns the options of a data set in the usual layout; only Dir is left to name.
func DefaultOptions() Options {
	return Options{CaptionsPerImage: "auto", DevCaptions: 5000, Vocab: "auto", FeatureDType: "auto", Semantics: "auto"}
}

// Validate returns an *options.Error for the first option that cannot be used.
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

// OpenOptions says how Open reads a split. The zero value reads what the files hold and refuses what does not
// fit together.
type OpenOptions struct {
	// CaptionsPerImage is k; 0 derives it from the files (see Split.CaptionsPerImage).
	CaptionsPerImage int

	// FeatureDType insists on "f32" or "f16" features; "" and "auto" accept both.
	FeatureDType string

	// Semantics names an .npy matrix [captions, k] of semantic vectors; "" reads none.
	Semantics string

	// MaxCaptions keeps the first that many captions, rounded down to whole images. 0 is the field's rule: 5,000 for
	// the dev split (Flickr30K has 5,070, of which every published result uses the first 5,000), all for others. A
	// negative number keeps all.
	MaxCaptions int

	// Boxes reads where the regions are (see ReadBoxes).
	Boxes bool

	// Dependencies reads the dependency trees of the captions: "" reads none, "check" those that are there, "need"
	// insists on them.
	Dependencies string

	// WordIDs takes {split}_precaps_stan.txt, if there is one, instead of tokenising the captions.
	WordIDs bool

	// Partial accepts a split of images alone, a gallery, with its changes, or of captions alone. Training and
	// evaluation need both, and look at no changes.
	Partial bool

	// Original leaves out what was added and removed since the files of a gallery were written.
	Original bool

	// Warn is told of files that fit the manifest of the data set in all but their time; nil is nobody.
	Warn func(error)

	// AllowEmpty accepts captions without a word, which the references train on as <start> <end>.
	AllowEmpty bool
}

// warn tells what a check finds, if somebody wants to know.
func (o *OpenOptions) warn(check func() error) {
	if o.Warn != nil {
		if err := check(); err != nil {
			o.Warn(err)
		}
	}
}
