package training

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"vsetrain/data"
	"vsetrain/data/text"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/files/runfs"
	"vsetrain/internal/run/config"
	"vsetrain/internal/run/inputs"
	"vsetrain/internal/run/placement"
	"vsetrain/internal/run/pretrained"
	"vsetrain/internal/run/records"
	"vsetrain/internal/run/tracking"
	"vsetrain/models"
	"vsetrain/train"
)

// Outcome is how a run ended.
type Outcome struct {
	Position train.Position
	RunDir   string
}

// Train runs a training to its end, or until ctx ends: then the error is train.ErrInterrupted and the run can be
// resumed.
func Train(ctx context.Context, r Request) (Outcome, error) {
	t := newTraining(r)
	defer t.close()
	if err := t.open(ctx); err != nil {
		return Outcome{RunDir: r.RunDir}, placement.Explain(err, t.Cfg.Device, "no step had been done")
	}
	if t.Tracking.URL != "" && t.first() {
		var err error
		if t.tracker, err = tracking.Start(t.run.Path(), t.Cfg, t.Tracking); err != nil {
			t.logs.Close()
			return Outcome{RunDir: r.RunDir}, err
		}
	}
	err := t.loop.Run(ctx)
	if !t.first() {
		return Outcome{Position: t.loop.Position, RunDir: r.RunDir}, placement.Explain(err, t.Cfg.Device,
			"rank 0 says what is saved")
	}
	if e := t.background.settle(true); e != nil {
		err = errors.Join(err, e)
	}
	saved := t.survives()
	_, notFinite := errors.AsType[*train.NotFiniteError](err)
	if notFinite {
		err = fmt.Errorf("%w; %s", err, saved)
	}
	err = placement.Explain(err, t.Cfg.Device, saved+" when the GPU is back (nvidia-smi)")
	if e := t.logs.Close(); err == nil {
		err = e
	}
	t.endTracking(err)
	return Outcome{Position: t.loop.Position, RunDir: r.RunDir}, err
}

// open checks everything that can be wrong before it changes any file of an earlier run.
func (t *training) open(ctx context.Context) (err error) {
	if err := t.locate(); err != nil {
		return err
	}
	defer func() { err = inputs.NameFolder(err, "data.dir", t.started) }()
	if err = t.openData(); err != nil {
		return err
	}
	if t.first() {
		if err = t.openRun(); err != nil {
			return err
		}
	}
	position, plan, err := t.build(ctx)
	if err != nil {
		return err
	}
	c := t.Cfg
	t.perEpoch = plan.Batches
	t.loop = &train.Loop{Options: c.Train, Optim: c.Optim, Warmup: c.Loss.WarmupEpochs, Margin: c.Loss.Margin,
		Step: t.Step, Source: t.Loader, Batches: plan.Batches, Validate: t.validate, Now: t.Now, Position: position,
		Ranks: train.RanksOf(t.Step)}
	if t.Step.Averages() {
		t.loop.ValidateAverage = t.validateAverage
	}
	if !t.first() {
		return nil
	}
	if err = t.log(position); err != nil {
		return err
	}
	t.loop.Hooks = train.Hooks{Step: t.onStep, Validation: t.onValidation, Warn: t.onWarning, Save: t.save,
		Due: t.logs.Due}
	t.show(plan)
	return nil
}

// log writes the records of a new session to the run directory, and opens its logs.
func (t *training) log(position train.Position) (err error) {
	if err = t.record(); err != nil {
		return err
	}
	env := t.Env
	env.Device = t.Device.Name()
	if w := t.Model.Words; w != nil {
		env.WordInit = w.SHA256
	}
	env.NoiseIndex = t.Model.Noise
	for _, d := range t.doubts {
		env.Warnings = append(env.Warnings, d.Error())
	}
	sessions, err := runfs.ReadSessions(t.run.Path())
	if err != nil {
		return err
	}
	if n := len(sessions); n > 0 && sessions[n-1].Build() != env.Build() {
		t.Observer.Warning(fmt.Errorf("the run was trained by vsetrain %s so far and goes on with %s, which may round "+
			"differently", sessions[n-1].Build(), env.Build()))
	}
	if err = t.run.AppendEnv(env); err != nil {
		return err
	}
	t.logs, err = records.Open(t.run, t.Cfg, position, t.counted, env.Host, t.Now)
	return err
}

// openData opens the vocabulary and the splits.
func (t *training) openData() (err error) {
	c := t.Cfg
	if c.Model.TextEncoder == models.TextBert && c.Model.Bert.Init == models.BertPretrained && c.Model.Bert.Dir == "" &&
		c.Train.InitFrom == "" && !t.Resume {
		return config.Mistakef("model.bert.dir is empty; name the folder of a pretrained BERT (vocab.txt and " +
			"model.safetensors or pytorch_model.bin), or set model.bert.init to random")
	}
	if c.Model.WordInit != "" && c.Train.InitFrom != "" {
		return config.Mistakef("model.word_init and train.init_from both bring word vectors; leave one of them out")
	}
	if err = t.OpenTrain(); err != nil {
		return err
	}
	if c.Train.LogStep > 0 {
		t.openSimilarities()
	}
	if t.Val, err = inputs.OpenSplit(c.Data, c.Model, "dev", data.OpenOptions{Warn: t.Warn}); err != nil {
		return err
	}
	for i, s := range []*data.Split{t.Train, t.Val} {
		if !t.first() {
			break
		}
		t.coverage[i] = data.CoverageOf(s, t.Tokenizer)
		warning, err := t.coverage[i].Check()
		if err != nil {
			return fmt.Errorf("%s: %w", s.CaptionPath(), err)
		}
		if warning != nil {
			t.Warn(fmt.Errorf("%s: %w", s.CaptionPath(), warning))
		}
	}
	if err := data.SharedImages(t.Train, t.Val); err != nil && t.first() {
		t.Warn(err)
	}
	if t.Val.Regions() != t.Train.Regions() || t.Val.Dim() != t.Train.Dim() {
		return fmt.Errorf("%s: features of split dev are %dx%d, those of train %dx%d", c.Data.Dir, t.Val.Regions(),
			t.Val.Dim(), t.Train.Regions(), t.Train.Dim())
	}
	return nil
}

// show reports the plan of a run and its warnings to the observer.
func (t *training) show(plan Plan) {
	t.Observer.Started(plan)
	for _, w := range slices.Concat(t.Warnings, t.doubts) {
		t.Observer.Warning(w)
	}
}

// build opens the device and puts the network with its weights, the data and the batches on it. It writes nothing.
func (t *training) build(ctx context.Context) (position train.Position, plan Plan, err error) {
	c := t.Cfg
	if t.doubts, err = c.Together(t.Train.NumCaptions()); err != nil {
		return position, plan, err
	}
	dev, choice, err := placement.Choose(c.Device, t.BLAS)
	if err != nil {
		return position, plan, err
	}
	if dev, err = placement.Join(dev, t.World); err != nil {
		return position, plan, err
	}
	t.Warnings = append(choice.Warnings, t.Warnings...)
	t.named = t.named.WithPrecision(choice.Precision)
	dims := inputs.Dims(t.Train, t.Tokenizer)
	dims.Counted = dims.Counted || data.Counted(t.Val)
	if err = t.Build(dev, choice.Precision, dims); err != nil {
		return position, plan, err
	}
	c = t.Cfg
	t.checkMemory()
	if position, err = t.begin(); err != nil {
		return position, plan, err
	}
	if _, own := device.As[device.Resident](t.Device); !own { // a GPU computes while its process waits
		t.attention.processor = t.ProcessorTime
	}
	t.Model.Noise, t.Model.Mined = t.Noise, t.Mined
	memory, err := t.PlanMemory(ctx)
	if err != nil {
		return position, plan, err
	}
	t.callByCall = t.Step.CallByCall()
	t.gauge.warnings(t.Device) // which were passed on when it was opened
	batches := data.LoaderOptions{Batch: c.Train.Batch, Seed: c.Seed, Shuffle: c.Train.Shuffle,
		DropLast: c.Train.DropLast, Repeat: c.Train.Overfit, StartEpoch: position.Epoch, StartIter: position.Iter}
	batches.Rank, batches.Ranks = device.RankOf(dev)
	t.Loader, err = data.NewLoader(t.Train, t.Tokenizer, t.Streamed(memory, batches))
	if err != nil {
		return position, plan, err
	}
	plan = Plan{RunDir: t.RunDir, Device: t.Device.Name(), Network: c.Model.Network, Loss: c.Loss.Name,
		Parameters: t.Model.Instance.Params.Count(), TrainCaptions: t.Train.NumCaptions(),
		TrainImages: t.Train.NumImages(), DevImages: t.Val.NumImages(), Batches: t.Loader.BatchesPerEpoch(),
		Epochs: c.Train.Epochs, Resume: t.Resume, Resumed: position, Choice: choice.Reason, Memory: memory,
		MicroBytes: train.MicroBytes(t.Step), Words: t.Model.Words, Coverage: t.coverage, Noise: t.Model.Noise,
		Pairs: min(c.Train.Batch, t.Train.NumCaptions())}
	return position, plan, nil
}

// begin sets the parameters and the state of all ranks to those of rank 0.
func (t *training) begin() (train.Position, error) {
	var start train.State
	if t.first() {
		if err := t.checkDisk(); err != nil {
			return start.Position, err
		}
		var err error
		if start.Position, err = t.initialise(); err != nil {
			return start.Position, err
		}
		t.savedAt(start.Position.Step)
	}
	err := train.BroadcastState(t.Step, &start)
	return start.Position, err
}

// initialise sets the parameters: from the last checkpoint of the run, from train.init_from, or drawn from the seed.
func (t *archive) initialise() (train.Position, error) {
	if t.resume {
		path := t.run.Path(runfs.CheckpointsName, runfs.LastName)
		if there, err := runfs.Exists(path); err != nil {
			return train.Position{}, err
		} else if there {
			return t.restore(path)
		}
		if err := t.neverSaved(); err != nil {
			return train.Position{}, err
		}
	}
	t.Model.Init(t.Cfg.Seed, t.Pool)
	if from := t.Cfg.Loss.Earlier(); from != "" {
		if err := t.remember(from); err != nil {
			return train.Position{}, fmt.Errorf("what loss %s learned in an earlier run: %w", t.Cfg.Loss.Name, err)
		}
	}
	if from := t.Cfg.Train.InitFrom; from != "" { // which may lack what serves training only
		if err := pretrained.LoadWeights(t.Model, from, t.Tokenizer, t.Warn); err != nil {
			return train.Position{}, fmt.Errorf("train.init_from: %w", err)
		}
		return train.Position{}, nil
	}
	if path := t.Cfg.Model.WordInit; path != "" {
		return train.Position{}, startWords(t.Model, path, t.Tokenizer)
	}
	if b := t.Cfg.Model.Bert; t.Cfg.Model.TextEncoder == models.TextBert && b.Init == models.BertPretrained {
		return train.Position{}, models.LoadBert(t.Model, b.Dir)
	}
	return train.Position{}, nil
}

// startWords sets the word vectors of a model from a file of pretrained ones (model.word_init).
func startWords(m *models.Model, path string, v text.Tokenizer) error {
	vocab, ok := v.(*text.Vocabulary)
	if !ok {
		return fmt.Errorf("model.word_init: %s has word pieces, which bring their own vectors", v.FileName())
	}
	words := make([]string, vocab.Len(), vocab.Len()+1)
	for i := range words {
		words[i] = vocab.Word(int32(i))
	}
	if m.Options.Traits().MaskWord {
		words = append(words, text.MaskWord)
	}
	w, err := text.ReadWordVectors(path, words, m.Options.WordDim)
	if err != nil {
		return err
	}
	return m.StartWords(w.Rows, models.Words{File: filepath.Base(path), SHA256: w.SHA256, Found: w.Found,
		Of: len(words)})
}

// openSimilarities finds the semantic vectors for counting false negatives during a training: those of its loss,
// otherwise those of the data set. Without any, nothing is counted.
func (t *training) openSimilarities() {
	if t.Semantics != nil {
		return
	}
	path, err := inputs.SemanticsPath(t.Cfg.Data, &t.Cfg.Loss)
	if err != nil {
		return // there are none
	}
	if t.Semantics, err = inputs.OpenSemantics(path, t.Train, t.Warn); err != nil {
		t.Semantics = nil
		t.Warn(fmt.Errorf("false hard negatives are not counted: %w", err))
	}
}
