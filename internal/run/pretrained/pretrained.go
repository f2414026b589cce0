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
	"vsetrain/internal/files/regular"
	"vsetrain/internal/run/config"
	"vsetrain/internal/run/inputs"
	"vsetrain/internal/run/placement"
	"vsetrain/internal/system/options"
	"vsetrain/models"
	"vsetrain/train"
)

// Request asks for a trained network together with a split.
type Request struct {
	Checkpoint string // run directory, folder of the Hub's layout, or file of vsetrain or of a reference
	// Set are options of the network, "model.scan.lambda=9", that a file of a reference repository does not tell.
	Set      []string
	Data     string           // folder; empty is the one the run was trained on
	PerImage options.PerSplit // captions of an image that the files must bear out; empty is the run's setting
	Vocab    string           // file; empty is the run's own, or the data set's
	Split    string           // "" opens none: for a network that is applied to captions that are typed
	Boxes    bool             // the boxes of the regions too, also where the network does not look at them
	Partial  bool             // a split of images alone, or of captions alone, will do
	Original bool             // without what was added to and removed from a gallery since its files were written
	Device   device.Options
	BLAS     string
	Warn     func(error) // what a person should know of the device; may be nil
	World    device.Job  // the job whose ranks divide the work; nil is one rank
}

// Network is a network with its weights on a device, and a split that it fits.
type Network struct {
	Model     *models.Model
	Runner    *models.Runner // of Model
	Split     *data.Split    // nil without
	Tokenizer text.Tokenizer
	Name      string // what the request called it, its last element
	Found     string // the checkpoint that was found, and what it holds, for people
	File      string // of the checkpoint
	Data      data.Options
	Choice    placement.Choice // of the device
	Origin    Origin           // of the features of Split
	// OriginNote is what a person should know of it, "" where the origin is the same.
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

// Start brings the weights to a device. The prepared is used up, also by an error.
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

// Copy copies the network to its own device, without the split: to compute in another precision, or beside t.
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

// BF16First opens the network in bf16 for eval.EncodeOptions.First, where o and blas are what it computes with itself.
// It returns nil where the ranks would not be those of fp32 or take no less time. The score of a pair must not depend
// on what is scored with it, as it may on a GPU and in products that blas names.
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

// compare returns an error on all ranks of a job where they opened other weights or captions.
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

// Prepared is what can be told of a request before a device computes anything: a Network without its model.
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
	// a person who searches sees no recalls that would tell
	if err == nil && p.OriginNote != "" && (p.Origin == OtherOrigin || r.Partial) {
		r.warn(errors.New(p.OriginNote))
	}
	return p, err
}

// Close closes what Start has not taken over.
func (p *Prepared) Close() {
	p.Weights.Close()
	p.Network.Close()
}

// warn tells what a person should know.
func (r *Request) warn(err error) {
	if r.Warn != nil {
		r.Warn(err)
	}
}

// sameData tells which files of the split a run was not trained beside: they were changed since it began.
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

// nameFolder says how to name another data folder than the one of the request or of its run.
func (r *Request) nameFolder(err error) error {
	var started []string
	if dir, ok, e := RunOf(r.Checkpoint); r.Data == "" && ok && e == nil {
		started, _ = inputs.StartedIn(dir) // the error in hand is the one to tell
	}
	return inputs.NameFolder(err, "--data", started)
}

// Repeated warns of files of an ensemble that hold the same: their mean is the mean of fewer networks.
func Repeated(files []string, warn func(error)) error {
	for i, a := range files {
		for _, b := range files[:i] {
			same, err := regular.Same(a, b)
			if err != nil {
				return err
			}
			if same && warn != nil {
				what := b + " and " + a + " are the same"
				if a == b {
					what = a + " is named twice"
				}
				warn(fmt.Errorf("%s: an ensemble of a network with itself is that network; leave one out", what))
				break
			}
		}
	}
	return nil
}

// SameSplit returns an error where two checkpoints, a on s and b on t, are not applied to the same images and captions,
// so that their scores cannot be averaged.
func SameSplit(a string, s *data.Split, b string, t *data.Split) error {
	same := s.NumImages() == t.NumImages() && s.NumCaptions() == t.NumCaptions() && data.Digest(s) == data.Digest(t)
	for i := 0; same && s.HasIDs() && t.HasIDs() && i < s.NumImages(); i++ {
		same = s.ImageID(s.RowOf(i)) == t.ImageID(t.RowOf(i))
	}
	if same {
		return nil
	}
	what := func(s *data.Split) string {
		return fmt.Sprintf("split %s of %s (%d images, %d captions)", s.Name(), s.Dir(), s.NumImages(), s.NumCaptions())
	}
	return fmt.Errorf("%s is applied to %s, %s to %s; an ensemble needs the same images and captions: "+
		"name one data set for all with --data", a, what(s), b, what(t))
}

// open opens the split as the network needs it, or, with Boxes, with its boxes and nothing else beside features and
// captions.
func (r *Request) open(o data.Options, network models.Options) (*data.Split, error) {
	if r.Boxes {
		return data.Open(o.Dir, r.Split, data.OpenOptions{CaptionsPerImage: o.CaptionsPerImage.Of(r.Split),
			FeatureDType: o.FeatureDType, Boxes: true, Partial: r.Partial, Original: r.Original})
	}
	return inputs.OpenSplit(o, network, r.Split, data.OpenOptions{Partial: r.Partial, Original: r.Original,
		Warn: r.warn})
}

// Again opens the split of a request as its files are now, for the network of t, which must be the request's. Closing
// the result closes the split alone.
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

// FollowNoise gives the captions of the training split the images that the run of the network trained them with
// (data.noise_index). Other splits, and other data than the data of the run, stay as they are.
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

// Digest identifies the captions of the split, so that scores of different data are never mixed.
func (t *Network) Digest() string { return data.Digest(t.Split) }

// dataOptions are the options of the run the checkpoint lies in, or the defaults, with the folder of the request. vocab
// is the vocabulary, "" where the data set has it.
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

// tokenizer is from the file, or the tokenizer of the data set.
func (r *Request) lexicon(file string, o data.Options, m *models.Options) (text.Tokenizer, error) {
	if file != "" {
		return inputs.LoadLexicon(file, m)
	}
	v, err := inputs.OpenLexicon(o, m)
	if errors.Is(err, inputs.ErrNoVocabulary) { // one that is built now would be another
		return nil, fmt.Errorf("%s: no vocabulary; name the one that %s was trained with with --vocab",
			o.Dir, r.Checkpoint)
	}
	return v, err
}

// AnalysisRequest names what an analysis looks at: a trained network and a split of its data.
type AnalysisRequest struct {
	Data     string           // folder; empty is the one the run was trained on
	PerImage options.PerSplit // see Request
	Split    string
	Device   device.Options
	BLAS     string
	Warn     func(error) // what a person should know of the device and of the data; may be nil
}

// Load opens a checkpoint, the best one of a run directory, with the split, and the boxes of its regions where asked
// for.
func (r *AnalysisRequest) Load(path string, boxes bool) (*Network, error) {
	return Open(Request{Checkpoint: path, Data: r.Data, PerImage: r.PerImage, Split: r.Split, Boxes: boxes,
		Device: r.Device, BLAS: r.BLAS, Warn: r.Warn})
}
