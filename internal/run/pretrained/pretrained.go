// Package pretrained opens trained networks, each with a split of the data that it fits.
package pretrained

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"vsetrain/data"
	"vsetrain/data/text"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cpu"
	"vsetrain/internal/run/config"
	"vsetrain/internal/run/inputs"
	"vsetrain/internal/run/placement"
	"vsetrain/internal/system/options"
	"vsetrain/models"
	"vsetrain/train"
)

// Request asks for a trained network together with a split.
type Request struct {
	Checkpoint string // run directory, folder in the Hub's layout, or file of vsetrain or of a reference
	// Set are options of the network ("model.scan.lambda=9") that a file of a reference repository does not contain.
	Set      []string
	Data     string           // folder; empty is the one that the run was trained on
	PerImage options.PerSplit // captions per image, which the files must confirm; empty takes the run's setting
	Vocab    string           // file; empty is the run's own, or the data set's
	Split    string           // "" opens none: for a network that only reads typed captions
	Boxes    bool             // read the boxes of the regions too, even if the network does not use them
	Partial  bool             // accept a split of images only, or of captions only
	Original bool             // ignore images and captions that were added to or removed from a gallery
	Device   device.Options
	BLAS     string
	Warn     func(error) // receives warnings about the device; may be nil
	World    device.Job  // the job whose ranks divide the work; nil is one rank
}

// Network is a network with its weights on a device, and a split that fits it.
type Network struct {
	Model     *models.Model
	Runner    *models.Runner // of Model
	Split     *data.Split    // nil without
	Tokenizer text.Tokenizer
	Name      string // last element of the path in the request
	Found     string // description of the checkpoint, for people
	File      string // of the checkpoint
	Data      data.Options
	Choice    placement.Choice // of the device
	Origin    Origin           // of the features of Split
	// OriginNote is a remark on the origin, "" if it is the same.
	OriginNote string
	provenance provenance // of the features of the training
	dev        device.Device
}

// Open opens a checkpoint and a split and checks that weights, features and vocabulary belong together.
func Open(r Request) (*Network, error) {
	p, err := r.Prepare()
	if err != nil {
		return nil, err
	}
	return p.Start(&r)
}

// Start copies the weights to a device. It uses up p, even after an error.
func (p *Prepared) Start(r *Request) (_ *Network, err error) {
	defer p.Weights.Close()
	t := &p.Network
	defer func() {
		if err != nil {
			t.Close()
		}
	}()
	if t.dev, t.Choice, err = placement.Choose(r.Device, r.BLAS); err != nil {
		return nil, err
	}
	if t.dev, err = placement.Join(t.dev, r.World); err != nil {
		return nil, err
	}
	for _, w := range t.Choice.Warnings {
		r.warn(w)
	}
	if t.Model, err = models.NewModel(t.dev, p.Weights.Network(), p.dims); err != nil {
		return nil, err
	}
	t.Runner = models.NewRunner(t.Model, nil)
	if err := p.Weights.Restore(t.Model); err != nil {
		return nil, err
	}
	t.Model.Instance.Params.Freeze()
	return t, t.compare()
}

// Copy copies the network to a device of its own, without the split, to compute in another precision or in parallel
// with t.
func (t *Network) Copy(o device.Options, blas string) (_ *Network, err error) {
	c := *t
	c.Split = nil
	if c.dev, c.Choice, err = placement.Choose(o, blas); err != nil {
		return nil, err
	}
	if c.Model, err = models.NewModel(c.dev, t.Model.Options, t.Model.Dims); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	c.Runner = models.NewRunner(c.Model, nil)
	for _, p := range t.Model.Params() {
		v := t.Model.Instance.Params.Value(p.Name)
		x := make([]float32, v.N)
		t.Model.Instance.Dev.DownloadFloats(x, v)
		c.dev.UploadFloats(c.Model.Instance.Params.Value(p.Name), x)
	}
	c.Model.Instance.Params.Freeze()
	return &c, nil
}

// BF16First opens the network in bf16 for eval.EncodeOptions.First; o and blas describe the device of t itself. It
// returns nil if the ranks could differ from fp32 or would take as long. The score of a pair must not depend on the
// other pairs that are scored with it, which it may on a GPU and in the products that blas names.
func (t *Network) BF16First(o device.Options, blas string) (*Network, error) {
	dev := t.Model.Instance.Dev
	_, gpu := device.As[device.Resident](dev)
	_, pairs := t.Model.PairScorer()
	if _, ranks := device.RankOf(dev); gpu || !pairs || ranks > 1 || blas != "" || o.Precision != cpu.FP32 {
		return nil, nil
	}
	o.Kind, o.Precision = "cpu", cpu.BF16
	c, err := t.Copy(o, blas)
	if err != nil || !c.Choice.Emulated {
		return c, err
	}
	return nil, c.Close()
}

// compare returns an error on all ranks of a job if they opened different weights or captions.
func (t *Network) compare() error {
	r := train.RanksOn(t.Model)
	if r == nil {
		return nil
	}
	own := ""
	if t.Split != nil {
		own = t.Digest()
	}
	first := own
	if err := r.Agree(&first); err != nil {
		return err
	}
	if first != own {
		return fmt.Errorf("%s: split %s of %s has other captions than on rank 0", t.Name, t.Split.Name(),
			t.Split.Dir())
	}
	return r.Compare()
}

// Prepared is an opened request before any device is started: a Network without its model.
type Prepared struct {
	Network
	Weights models.Weights
	dims    models.Dims
}

// Prepare opens the weights and the split of a request and checks that they belong together.
func (r *Request) Prepare() (_ *Prepared, err error) {
	c, err := OpenWeights(r.Checkpoint, r.Set, r.warn)
	if err != nil {
		return nil, err
	}
	p := &Prepared{Weights: c, Network: Network{Name: filepath.Base(filepath.Clean(r.Checkpoint)), Found: c.Describe(),
		File: c.File()}}
	defer func() {
		if err != nil {
			p.Close()
		}
	}()
	network := c.Network()
	vocab := r.Vocab
	if vocab == "" {
		if vocab, err = VocabularyOf(r.Checkpoint, &network); err != nil {
			return nil, err
		}
	}
	if p.Data, err = r.dataOptions(vocab); err != nil {
		return nil, err
	}
	if p.Tokenizer, err = r.lexicon(vocab, p.Data, &network); err != nil {
		return nil, r.nameFolder(err)
	}
	p.dims = c.Sizes()
	if r.Split == "" {
		return p, SameVocabulary(c, p.Tokenizer)
	}
	if p.Split, err = r.open(p.Data, network); err != nil {
		return nil, r.nameFolder(err)
	}
	if err = r.sameData(p.Split); err != nil {
		return nil, err
	}
	if p.dims, err = fits(c, p.Split, p.Tokenizer); err != nil {
		return nil, err
	}
	if p.provenance, err = trace(r.Checkpoint, p.Split.Dir()); err != nil {
		return nil, err
	}
	p.Origin, p.OriginNote, err = p.provenance.of(p.Split)
	// users of a search see no recalls that would reveal it
	if err == nil && p.OriginNote != "" && (p.Origin == OtherOrigin || r.Partial) {
		r.warn(errors.New(p.OriginNote))
	}
	return p, err
}

// Close closes everything that Start has not taken over.
func (p *Prepared) Close() {
	p.Weights.Close()
	p.Network.Close()
}

// warn passes a warning to the user.
func (r *Request) warn(err error) {
	if r.Warn != nil {
		r.Warn(err)
	}
}

// sameData warns of files of the split that have changed since the run started.
func (r *Request) sameData(s *data.Split) error {
	dir, ok, err := RunOf(r.Checkpoint)
	if err != nil || !ok || r.Data != "" {
		return err
	}
	changed, err := inputs.ChangedData(dir, s)
	if len(changed) > 0 {
		r.warn(fmt.Errorf("%s: changed since the run %s began with %s", strings.Join(changed, ", "), dir, s.Dir()))
	}
	return err
}

// nameFolder adds how to name a data folder other than the one of the request or of its run.
func (r *Request) nameFolder(err error) error {
	var started []string
	if dir, ok, e := RunOf(r.Checkpoint); r.Data == "" && ok && e == nil {
		started, _ = inputs.StartedIn(dir) // the error at hand matters more
	}
	return inputs.NameFolder(err, "--data", started)
}

// open opens the split with the parts that the network needs; with Boxes, with its boxes, features and captions only.
func (r *Request) open(o data.Options, network models.Options) (*data.Split, error) {
	if r.Boxes {
		return data.Open(o.Dir, r.Split, data.OpenOptions{CaptionsPerImage: o.CaptionsPerImage.Of(r.Split),
			FeatureDType: o.FeatureDType, Boxes: true, Partial: r.Partial, Original: r.Original})
	}
	return inputs.OpenSplit(o, network, r.Split, data.OpenOptions{Partial: r.Partial, Original: r.Original,
		Warn: r.warn})
}

// Again opens the split of a request from its current files for the network of t, which must be the network of the
// request. Closing the result closes only the split.
func (r *Request) Again(t *Network) (*Network, error) {
	again := *t
	again.dev, again.Split = nil, nil
	s, err := r.open(t.Data, t.Model.Options)
	if err != nil {
		return nil, r.nameFolder(err)
	}
	if d := t.Model.Dims; s.Regions() > 0 && s.Regions()*s.Dim() != d.Regions*d.Feature {
		err := fmt.Errorf("%s has features of %d x %d now; the network was opened for %d x %d", s.FeaturePath(),
			s.Regions(), s.Dim(), d.Regions, d.Feature)
		return nil, errors.Join(err, s.Close())
	}
	again.Split = s
	if again.Origin, again.OriginNote, err = t.provenance.of(s); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if again.OriginNote != t.OriginNote && again.OriginNote != "" {
		r.warn(errors.New(again.OriginNote))
	}
	return &again, nil
}

// Close releases the device and the split.
func (t *Network) Close() error {
	if t.dev != nil {
		t.dev.Close()
	}
	if t.Split != nil {
		return t.Split.Close()
	}
	return nil
}

// FollowNoise gives the captions of the training split the images that the run was trained with (data.noise_index).
// Other splits and other data sets stay unchanged.
func (t *Network) FollowNoise() error {
	began, path := t.Model.Noise, t.Data.NoiseIndex
	if path == "" || t.Split.Name() != "train" {
		return nil
	}
	now, err := data.AttachNoise(t.Split, path)
	if err != nil {
		return err
	}
	if began == nil || began.SHA256 != now.SHA256 {
		return fmt.Errorf("%s: %s has another noise index now than the one of the training: %s; bring that back",
			t.Name, path, now)
	}
	return nil
}

// Digest identifies the captions of the split, so that scores of different data are never combined.
func (t *Network) Digest() string { return data.Digest(t.Split) }

// dataOptions are the options of the run that the checkpoint belongs to, or the defaults, with the folder of the
// request. vocab is the vocabulary, "" for the one of the data set.
func (r *Request) dataOptions(vocab string) (data.Options, error) {
	o := data.DefaultOptions()
	dir, ok, err := RunOf(r.Checkpoint)
	if err != nil {
		return o, err
	}
	if ok {
		cfg, err := inputs.LoadRun(dir)
		if err != nil {
			return o, err
		}
		o = cfg.Data
		if r.Data != "" && !sameFolder(r.Data, o.Dir) {
			d := data.DefaultOptions()
			o.Vocab, o.CaptionsPerImage, o.FeatureDType, o.NoiseIndex = d.Vocab, d.CaptionsPerImage, d.FeatureDType, ""
		}
	}
	o.Dir = cmp.Or(r.Data, o.Dir)
	o.CaptionsPerImage = cmp.Or(r.PerImage, o.CaptionsPerImage)
	if o.Dir == "" && (r.Split != "" || vocab == "") {
		return o, config.Mistakef("which data set? name its folder with --data (only a run directory knows the one " +
			"it was trained on)")
	}
	return o, nil
}

// sameFolder reports whether two paths lead to one folder.
func sameFolder(a, b string) bool {
	x, errA := os.Stat(a)
	y, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(x, y)
}

// lexicon opens the tokenizer in file, or the one of the data set.
func (r *Request) lexicon(file string, o data.Options, m *models.Options) (text.Tokenizer, error) {
	if file != "" {
		return inputs.LoadLexicon(file, m)
	}
	v, err := inputs.OpenLexicon(o, m)
	if errors.Is(err, inputs.ErrNoVocabulary) { // a newly built one would differ
		return nil, fmt.Errorf("%s: no vocabulary; name the one that %s was trained with with --vocab",
			o.Dir, r.Checkpoint)
	}
	return v, err
}

// AnalysisRequest names the subject of an analysis: a trained network and a split of its data.
type AnalysisRequest struct {
	Data     string           // folder; empty is the one that the run was trained on
	PerImage options.PerSplit // see Request
	Split    string
	Device   device.Options
	BLAS     string
	Warn     func(error) // receives warnings about device and data; may be nil
}

// Load opens a checkpoint, for a run directory the best one, with the split, and with the boxes of its regions if boxes
// is set.
func (r *AnalysisRequest) Load(path string, boxes bool) (*Network, error) {
	return Open(Request{Checkpoint: path, Data: r.Data, PerImage: r.PerImage, Split: r.Split, Boxes: boxes,
		Device: r.Device, BLAS: r.BLAS, Warn: r.Warn})
}
