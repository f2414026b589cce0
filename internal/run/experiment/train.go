package experiment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"vsetrain/data"
	"vsetrain/data/text"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/par"
	"vsetrain/internal/files/runfs"
	"vsetrain/internal/run/config"
	"vsetrain/internal/run/mlflow"
	"vsetrain/models"
	"vsetrain/semantic"
	"vsetrain/train"
)

// Plan describes a run that is about to start.
type Plan struct {
	RunDir        string
	Device        string
	Network       string
	Loss          string
	Parameters    int
	TrainCaptions int
	TrainImages   int
	DevImages     int
	Batches       int // per epoch
	Epochs        int
	Resume        bool           // an earlier run goes on
	Resumed       train.Position // where it goes on; zero for a new run, and before the first checkpoint
	Choice        string         // how device.kind auto chose, empty if the device was named
	Memory        *MemoryPlan    // nil on the CPU
}

// TrainRequest is what a training run needs to know beside its configuration.
type TrainRequest struct {
	Config   *config.Config
	RunDir   string
	Resume   bool
	BLAS     string
	Env      runfs.Env // of this session; device and matrix product are filled in
	Now      func() time.Time
	Observer Observer              // nil is Unobserved
	Copying  func(done, total int) // rows of features copied to the GPU; nil reports nothing
	// FreeDisk returns the bytes that may still be written below a folder, 0 when unknown; nil does not look.
	FreeDisk func(dir string) (int64, error)
	// FreeMemory returns the bytes of main memory that are available, 0 when unknown; nil does not look.
	FreeMemory func() int64
	// Saved is called with the step of each checkpoint as soon as it is written, and first, when the directory is
	// locked, with that of the run so far, 0 without one; nil is not called.
	Saved func(step int64)
	// Tracking is the MLflow server that the records are sent to as well; without an address there is none.
	Tracking mlflow.Target
}

// Outcome is how a run ended.
type Outcome struct {
	Position train.Position
	RunDir   string
}

// Train runs a training run to its end, or until ctx ends: then the error is train.ErrInterrupted and the run can be
// resumed.
func Train(ctx context.Context, r TrainRequest) (Outcome, error) {
	t := newTraining(r)
	defer t.close()
	if err := t.open(ctx); err != nil {
		return Outcome{RunDir: r.RunDir}, explainDevice(err, t.cfg.Device, "no step had been done")
	}
	if err := t.track(); err != nil {
		t.closeLogs()
		return Outcome{RunDir: r.RunDir}, err
	}
	err := explainDevice(t.loop.Run(ctx), t.cfg.Device, t.survives())
	if e := t.closeLogs(); err == nil {
		err = e
	}
	t.endTracking(err)
	return Outcome{Position: t.loop.Position, RunDir: r.RunDir}, err
}

func newTraining(r TrainRequest) *training {
	c := *r.Config
	c.Optim.Settle(c.Train.Epochs)
	if r.Observer == nil {
		r.Observer = Unobserved{}
	}
	return &training{TrainRequest: r, archive: archive{dir: r.RunDir, resume: r.Resume, told: r.Saved,
		setup: setup{cfg: &c, named: &c, copying: r.Copying}}}
}

// setup is a configuration with its data, and a network for them on a device: what a training and a benchmark share.
type setup struct {
	cfg       *config.Config // with the paths of a resumed run located
	named     *config.Config // as it was given
	warnings  []error        // that wait until the run is shown
	vocab     text.Lexicon
	train     *data.Split
	val       *data.Split
	semantics io.Closer
	similar   *semantic.Store // by which false negatives are counted; nil without
	loader    *data.Loader

	dev        device.Device
	pool       *par.Pool // of evaluation
	model      *models.Model
	step       *train.Step
	resident   *models.Resident      // what of the training split is on the device; may be nil
	copying    func(done, total int) // rows of features copied to the GPU; may be nil
	validation *models.Runner
	heard      int           // warnings of the device that were passed on
	gauged     time.Time     // when the use of the device was looked at last
	used       *device.Usage // what it was then
}

// archive is the run directory of a training: what it keeps and what it goes on from.
type archive struct {
	setup
	run        *runfs.Dir
	logs       *logs
	perEpoch   int // batches
	dir        string
	resume     bool
	told       func(step int64) // TrainRequest.Saved
	saved      int64            // step of the last checkpoint, 0 without one
	best       int64            // step of the best checkpoint on the disk, 0 without one
	counted    int              // lines of the log that the last checkpoint counts, 0 without one
	keptBefore []Kept           // checkpoints of the best validations so far (train.keep)
}

// training is a session of a run.
type training struct {
	TrainRequest
	archive
	started    []string // working directories of earlier sessions
	loop       *train.Loop
	tracker    *tracker // nil without a server
	untracked  bool     // the person knows that it does not answer
	warned     bool
	callByCall string // what the plan said
}

// savedAt notes that the state at a step is safe on disk.
func (t *archive) savedAt(step int64) {
	t.saved = step
	if t.told != nil {
		t.told(step)
	}
}

// survives says what of a run is safe on disk.
func (t *archive) survives() string {
	if t.saved == 0 {
		return "no checkpoint had been written yet: start the run again"
	}
	return fmt.Sprintf("the checkpoint of step %d stands: when the GPU is back (nvidia-smi), go on with vsetrain "+
		"train --resume --run %s", t.saved, t.run.Path())
}

func (t *setup) close() {
	if t.loader != nil {
		t.loader.Close()
	}
	if t.semantics != nil {
		t.semantics.Close()
	}
	for _, s := range []*data.Split{t.train, t.val} {
		if s != nil {
			s.Close()
		}
	}
	if t.dev != nil {
		t.dev.Close()
	}
	if t.pool != nil {
		t.pool.Close()
	}
}

func (t *archive) close() {
	t.setup.close()
	if t.run != nil {
		t.run.Close()
	}
}

// open checks everything that can be wrong before the first byte of an earlier run is touched.
func (t *training) open(ctx context.Context) (err error) {
	if err := t.locate(); err != nil {
		return err
	}
	defer func() { err = nameFolder(err, "data.dir", t.started) }()
	if err = t.openData(); err != nil {
		return err
	}
	if err = t.openRun(); err != nil {
		return err
	}
	c := t.cfg
	position, plan, err := t.build(ctx)
	if err != nil {
		return err
	}
	if err = t.record(); err != nil {
		return err
	}
	if t.logs, err = t.openLogs(position); err != nil {
		return err
	}
	t.perEpoch = plan.Batches
	t.loop = &train.Loop{Options: c.Train, Optim: c.Optim, Warmup: c.Loss.WarmupEpochs, Margin: c.Loss.Margin,
		Step: t.step, Source: t.loader, Batches: plan.Batches, Validate: t.validate, Now: t.Now, Position: position,
		Hooks: train.Hooks{Step: t.onStep, Validation: t.onValidation, Warn: t.onWarning, Save: t.save,
			Due: t.logs.due}}
	if t.step.Averages() {
		t.loop.ValidateAverage = t.validateAverage
	}
	t.show(plan)
	return nil
}

// openData opens the vocabulary and the splits.
func (t *training) openData() (err error) {
	c := t.cfg
	if c.Model.TextEncoder == models.TextBert && c.Model.Bert.Init == models.BertPretrained && c.Model.Bert.Dir == "" &&
		c.Train.InitFrom == "" && !t.Resume {
		return errors.New("model.bert.dir is empty; name the folder of a pretrained BERT (vocab.txt and " +
			"model.safetensors or pytorch_model.bin), or set model.bert.init to random")
	}
	if t.vocab, err = openLexicon(c.Data, &c.Model); err != nil {
		return err
	}
	if err = t.openTrain(); err != nil {
		return err
	}
	if c.Train.LogStep > 0 {
		t.openSimilarities()
	}
	if t.val, err = openSplit(c.Data, c.Model, "dev"); err != nil {
		return err
	}
	if t.val.Regions() != t.train.Regions() || t.val.Dim() != t.train.Dim() {
		return fmt.Errorf("%s: features of split dev are %dx%d, those of train %dx%d", c.Data.Dir, t.val.Regions(),
			t.val.Dim(), t.train.Regions(), t.train.Dim())
	}
	return nil
}

// show tells the observer about a run that is about to start, and what a person should know of it.
func (t *training) show(plan Plan) {
	t.Observer.Started(plan)
	for _, w := range slices.Concat(t.warnings, t.advice(plan.Batches)) {
		t.Observer.Warning(w)
	}
}

// build opens the device and puts the network with its weights, the data and the batches on it. Nothing is written.
func (t *training) build(ctx context.Context) (position train.Position, plan Plan, err error) {
	c := t.cfg
	if err := t.checkOverfit(); err != nil {
		return position, plan, err
	}
	var choice Choice
	if t.dev, choice, err = chooseDevice(c.Device, t.BLAS); err != nil {
		return position, plan, err
	}
	t.compute(choice.Precision)
	c = t.cfg
	t.warnings = append(choice.Warnings, t.warnings...)
	t.pool = par.New(c.Device.Threads)
	if t.model, err = models.NewModel(t.dev, c.Model, dimsOf(t.train, t.vocab)); err != nil {
		return position, plan, err
	}
	if t.step, err = train.NewStep(t.model, c.Loss, c.Optim); err != nil {
		return position, plan, err
	}
	t.step.Seed = c.Seed
	t.readFrom(nil, nil)
	if err := t.checkDisk(); err != nil {
		return position, plan, err
	}
	t.checkMemory()
	if position, err = t.initialise(); err != nil {
		return position, plan, err
	}
	t.savedAt(position.Step)
	memory, err := t.planMemory(ctx)
	if err != nil {
		return position, plan, err
	}
	t.callByCall = t.step.CallByCall()
	t.deviceWarnings() // which were passed on when it was opened
	t.loader, err = data.NewLoader(t.train, t.vocab, t.streamed(memory,
		data.LoaderOptions{Batch: c.Train.Batch, Seed: c.Seed, Shuffle: c.Train.Shuffle, DropLast: c.Train.DropLast,
			Repeat: c.Train.Overfit, StartEpoch: position.Epoch, StartIter: position.Iter}))
	if err != nil {
		return position, plan, err
	}
	plan = Plan{RunDir: t.RunDir, Device: t.dev.Name(), Network: c.Model.Network, Loss: c.Loss.Name,
		Parameters: t.model.Instance.Params.Count(), TrainCaptions: t.train.NumCaptions(),
		TrainImages: t.train.NumImages(), DevImages: t.val.NumImages(), Batches: t.loader.BatchesPerEpoch(),
		Epochs: c.Train.Epochs, Resume: t.Resume, Resumed: position, Choice: choice.Reason, Memory: memory}
	return position, plan, t.checkSchedule(plan.Batches)
}

// compute fixes the precision of the run, which its configuration keeps: a run that is resumed elsewhere goes on in it.
func (t *setup) compute(precision string) {
	for _, c := range []**config.Config{&t.cfg, &t.named} {
		if *c == nil {
			continue
		}
		resolved := **c
		resolved.Device.Precision = precision
		*c = &resolved
	}
}

// openTrain opens the training split, with its semantic vectors where the loss needs them.
func (t *setup) openTrain() (err error) {
	if t.train, err = openSplit(t.cfg.Data, t.cfg.Model, "train"); err != nil || !t.cfg.Loss.NeedsSemantics() {
		return err
	}
	t.semantics, err = attachSemantics(t.train, t.cfg.Data, &t.cfg.Loss, t.warn)
	return err
}

// warn keeps what a person hears before the first step.
func (t *setup) warn(err error) { t.warnings = append(t.warnings, err) }

// initialise sets the parameters: from the last checkpoint of the run, from train.init_from, or drawn from the seed.
func (t *archive) initialise() (train.Position, error) {
	if t.resume {
		path := t.run.Path(runfs.CheckpointsName, lastName)
		if there, err := runfs.Exists(path); err != nil {
			return train.Position{}, err
		} else if there {
			return t.restore(path)
		}
		if err := t.neverSaved(); err != nil {
			return train.Position{}, err
		}
	}
	return t.draw()
}

func (t *setup) draw() (train.Position, error) {
	t.model.Init(t.cfg.Seed, t.pool)
	if from := t.cfg.Train.InitFrom; from != "" { // which may lack what serves training only
		return train.Position{}, loadWeights(t.model, from, t.vocab)
	}
	if b := t.cfg.Model.Bert; t.cfg.Model.TextEncoder == models.TextBert && b.Init == models.BertPretrained {
		return train.Position{}, models.LoadBert(t.model, b.Dir)
	}
	return train.Position{}, nil
}
