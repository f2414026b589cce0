package config

import (
	"fmt"
	"math"

	"vsetrain/data"
	"vsetrain/internal/system/options"
	"vsetrain/train"
)

// Together checks every key that says when or how much something happens against the length of the run and the range
// of what it is compared with. What leaves nothing of the run is a *Mistake; what never happens, or always, is a
// warning: of what only delays or limits one where a person chose the value, not a preset. captions are the captions of
// the training split; 0 is unknown, and leaves out what depends on them.
func (c *Config) Together(captions int) (warnings []error, err error) {
	r := &reach{c: c, captions: captions, optim: c.Optim, steps: math.MaxInt64, validations: math.MaxInt64}
	r.optim.Settle(c.Train.Epochs)
	if n := c.Train.MaxSteps; n > 0 {
		r.steps = int64(n)
	}
	if captions > 0 {
		if err := r.measure(); err != nil {
			return nil, err
		}
	}
	r.batch()
	r.loss()
	r.rate()
	r.loop()
	return r.warnings, nil
}

// reach is how far a run comes: what a step counted from 0, and an epoch, are compared with.
type reach struct {
	c                  *Config
	optim              train.OptimOptions // settled
	captions, batches  int                // of the training split, and of an epoch; 0 is unknown
	steps, validations int64              // at most
	warnings           []error
}

// measure finds out how long the run is, and refuses what leaves nothing of it.
func (r *reach) measure() error {
	t, o := &r.c.Train, &r.optim
	s, err := data.NewSampler(r.captions, t.Batch, r.c.Seed, t.Shuffle, t.DropLast)
	if err != nil {
		return Mistakef("train.batch: expected at most %d, the captions of the training split, with train.drop_last, "+
			"found %d: no batch would be complete", r.captions, t.Batch)
	}
	r.batches = s.BatchesPerEpoch()
	r.steps, r.validations = t.Planned(r.batches)
	if t.Overfit > r.batches {
		return Mistakef("train.overfit is %d, but an epoch has %d batches of %d captions; expected at most that many",
			t.Overfit, r.batches, t.Batch)
	}
	// the rate would be the rate of the end at once
	if steps := o.CosineEpochs * r.batches; o.Schedule == train.Cosine && o.WarmupSteps >= steps {
		return Mistakef("optim.warmup_steps is %d, but the cosine ends after %d steps (optim.cosine_epochs %d of %d "+
			"steps); expected a shorter warm-up", o.WarmupSteps, steps, o.CosineEpochs, r.batches)
	}
	return nil
}

// doubt adds a warning about a key.
func (r *reach) doubt(key string, found any, expected, then string) {
	e := &options.Error{Key: key, Found: fmt.Sprint(found), Expected: expected, Remedy: then}
	r.warnings = append(r.warnings, e)
}

// beyond adds a warning where a number of steps or validations is more than the run has.
func (r *reach) beyond(key string, found int, most int64, what, then string) {
	if int64(found) > most {
		r.doubt(key, found, fmt.Sprintf("at most %d, the %s of the run", most, what), then)
	}
}

// reaches reports whether the run has a step of an epoch, counted from 0.
func (r *reach) reaches(epoch int) bool {
	if r.batches == 0 {
		return epoch < r.c.Train.Epochs
	}
	return r.steps > int64(epoch)*int64(r.batches)
}

// epochs says how many epochs the run has, which is less than train.epochs where it ends before.
func (r *reach) epochs() string {
	t := &r.c.Train
	if r.batches > 0 && r.steps < int64(t.Epochs)*int64(r.batches) {
		return fmt.Sprintf("%.3g, the epochs of the run (train.max_steps %d)", float64(r.steps)/float64(r.batches),
			t.MaxSteps)
	}
	return fmt.Sprintf("%d, the epochs of the run", t.Epochs)
}

const (
	fewBatches = 10   // in an epoch
	highLR     = 0.05 // the papers' learning rates end at 0.003
)

// batch looks at the sizes of batches.
func (r *reach) batch() {
	t := &r.c.Train
	pairs := t.Batch
	if r.captions > 0 && r.captions < pairs {
		pairs = r.captions
		r.doubt("train.batch", t.Batch, fmt.Sprintf("at most %d, the captions of the training split", pairs),
			fmt.Sprintf("every batch has %d pairs, and an epoch is one update of the weights", pairs))
	} else if n := r.batches; n > 0 && n < fewBatches && t.Epochs > 1 {
		steps := "1 step"
		if n != 1 {
			steps = fmt.Sprintf("%d steps", n)
		}
		r.warnings = append(r.warnings, fmt.Errorf("an epoch has only %s: train.batch is %d of %d captions, and each "+
			"batch is one update of the weights; lower train.batch", steps, t.Batch, r.captions))
	}
	if t.MicroBatch >= pairs {
		r.doubt("train.micro_batch", t.MicroBatch, fmt.Sprintf("less than the %d pairs of a batch", pairs),
			"no batch is divided")
	}
}

// loss looks at the warm-up of the loss and at constants that are compared with scores.
func (r *reach) loss() {
	l := &r.c.Loss
	if l.WarmsUp() && !r.reaches(l.WarmupEpochs) {
		r.doubt("loss.warmup_epochs", l.WarmupEpochs, "less than "+r.epochs(), fmt.Sprintf("loss %s never acts, only "+
			"its warm-up does; lower loss.warmup_epochs, or train for longer", l.Name))
	}
	pairs := r.c.Train.Batch
	if r.captions > 0 {
		pairs = min(pairs, r.captions)
	}
	for _, e := range l.Doubts(r.c.Model.Traits().Span, pairs) {
		r.warnings = append(r.warnings, options.Under("loss", e))
	}
}

// rate looks at the schedule of the learning rate.
func (r *reach) rate() {
	o, c := &r.optim, r.c
	if o.LR > highLR {
		r.warnings = append(r.warnings, fmt.Errorf("optim.lr %g is high: %s changes every weight by about that much "+
			"in a step, and most weights are smaller; if the loss does not fall, try 0.0002 to 0.002", o.LR, o.Name))
	}
	rateAt := func(step int64) float64 { return o.LearningRate(step, max(1, r.batches)) / o.LR }
	if n := int64(o.WarmupSteps); n > r.steps {
		r.doubt("optim.warmup_steps", n, fmt.Sprintf("at most %d, the steps of the run", r.steps),
			fmt.Sprintf("the learning rate ends at %.4g %% of optim.lr", 100*float64(r.steps)/float64(n)))
	} else if n > 0 && r.batches > 0 && rateAt(n-1) < 1-1e-9 {
		r.doubt("optim.warmup_steps", n, fmt.Sprintf("at most %d, the steps before the first decay (optim.lr_update)",
			o.LRUpdate*r.batches), "the learning rate never reaches optim.lr")
	}
	const higher = "the learning rate does not fall; lower it, or train for longer"
	if o.Schedule == train.Cosine {
		if o.CosineEnd == 1 {
			r.doubt("optim.cosine_end", o.CosineEnd, "less than 1", "the learning rate never falls")
		}
		if n := o.CosineEpochs; !r.reaches(n-1) || r.batches > 0 && r.steps < int64(n)*int64(r.batches) {
			if c.Optim.CosineEpochs > 0 && (n > c.Train.Epochs || c.chosen["optim.cosine_epochs"]) {
				r.doubt("optim.cosine_epochs", n, "at most "+r.epochs(),
					"the cosine does not come to its end"+r.fallen())
			}
		}
		return
	}
	if n := o.LRUpdate; n > 0 && c.chosen["optim.lr_update"] && !r.reaches(n) {
		r.doubt("optim.lr_update", n, "less than "+r.epochs()+", or 0", higher)
	}
	if n := o.LRUpdate2; n > 0 && c.chosen["optim.lr_update2"] && !r.reaches(n) {
		r.doubt("optim.lr_update2", n, "less than "+r.epochs()+", or 0",
			"the learning rate does not fall again; lower it, or train for longer")
	}
}

// fallen says how far a cosine has fallen when the run ends.
func (r *reach) fallen() string {
	if r.batches == 0 {
		return ""
	}
	rate := r.optim.LearningRate(r.steps-1, r.batches)
	return fmt.Sprintf(": the learning rate ends at %.4g %% of optim.lr", 100*rate/r.optim.LR)
}

// loop looks at what is done every N steps or validations.
func (r *reach) loop() {
	c, t := r.c, &r.c.Train
	if c.chosen["train.max_steps"] && r.batches > 0 {
		all := int64(t.Epochs) * int64(r.batches)
		r.beyond("train.max_steps", t.MaxSteps, all, "steps",
			"train.epochs ends it first; raise that to train for longer")
	}
	r.beyond("train.overfit", t.Overfit, r.steps, "steps", "the others are never trained on")
	if c.chosen["train.val_step"] {
		r.beyond("train.val_step", t.ValStep, r.steps, "steps",
			"validations run only at the end of each epoch; set 0 for that")
	}
	if c.chosen["train.log_step"] {
		r.beyond("train.log_step", t.LogStep, r.steps, "steps",
			"no step is logged, so that the run has no curve of its loss")
	}
	// a best validation, n in vain, and a later one that is left out
	if n := t.EarlyStop; n > 0 && int64(n)+2 > r.validations {
		r.doubt("train.early_stop", r.validations, fmt.Sprintf("a run of at least %d validations", n+2),
			"it never ends the run; lower it or train.val_step, or train for longer")
	}
	if t.Keep > 1 {
		r.beyond("train.keep", t.Keep, r.validations, "validations", "all of them are kept")
	}
	if c.chosen["train.collapse_steps"] || c.chosen["train.on_collapse"] {
		r.beyond("train.collapse_steps", t.CollapseSteps, r.steps, "steps", "a collapse is never told")
		if c.Loss.Margin == 0 && t.CollapseSteps > 0 {
			r.doubt("train.collapse_steps", t.CollapseSteps, "0 with loss.margin 0", "a collapse is never told")
		}
	}
	if c.Optim.EMA > 0 && r.steps < 2 {
		r.doubt("optim.ema", c.Optim.EMA, "0 for a run of one step", "its average is the weights themselves")
	}
}
