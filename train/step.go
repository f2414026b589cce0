package train

import (
	"fmt"

	"vsetrain/batch"
	"vsetrain/data"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/graph"
	"vsetrain/loss"
	"vsetrain/models"
)

// Names of the graph inputs of the losses.
const (
	inputSemantics = "in.semantics" // [B, k]
	inputImages    = "in.images"    // int32 [B]
)

// Step runs training steps: forward, loss, backward, clip, update. One compiled graph serves all batches of one
// shape; steps of a known shape allocate nothing.
type Step struct {
	// Seed is that of the run, from which dropout draws; it is set before the first step.
	Seed uint64

	model    *models.Model
	feeder   *models.Feeder
	loss     loss.Options
	opt      *optimiser
	programs map[shape]*program
	last     *program  // of the last step
	captions []int32   // of the last step that was started
	hardest  []float32 // scratch memory of gap
	counter  [2]int32  // the number of steps done, for dropout
	labels   labels    // staging of the labels of a captioning branch

	runner   runner
	recorder *recorder // the runner, where the device records; nil on others
	namer    device.Namer
	ranks    *Ranks        // nil where there is one
	micro    *micro        // nil where a batch is computed at once
	memory   loss.Memory   // of the loss; nil without
	batch    loss.Batch    // of the last step that was started
	started  []startedStep // and not finished, at most Depth
	slot     int           // of the next step that is started
	makes    func()        // calls, of the last program

	// factorFrom is the size from which the gradient of a weight stays a product (see backward).
	factorFrom int
}

type startedStep struct {
	p    *program
	lr   float64
	slot int
}

// NewStep prepares training of a model: gradients and optimiser state are allocated.
func NewStep(m *models.Model, l loss.Options, o OptimOptions) (*Step, error) {
	ranks, err := newRanks(m)
	if err != nil {
		return nil, err
	}
	opt, err := newOptimiser(m.Instance.Dev, m.Instance.Params, o)
	if err != nil {
		return nil, err
	}
	s := &Step{model: m, loss: l, opt: opt, ranks: ranks, programs: map[shape]*program{}, factorFrom: 1 << 20}
	s.runner, s.recorder = newRunner(m.Instance.Dev)
	s.namer, _ = device.As[device.Namer](m.Instance.Dev)
	s.makes = s.calls
	if ranks != nil {
		ranks.shard, opt.ranks = opt.shard, ranks
		if opt.average != nil {
			ranks.average = opt.average.values
		}
	}
	s.memory = l.Memory()
	s.ReadFrom(nil)
	return s, nil
}

// Depth is how many steps may be started and not finished. A loss with a memory needs one step for the next.
func (s *Step) Depth() int {
	if s.memory != nil {
		return 1
	}
	return s.runner.depth()
}

// Start begins a step on a batch, which may be released when the step is finished. At most Depth steps may be started
// and not finished.
func (s *Step) Start(b *data.Batch, lr float64, sum bool) error {
	if len(s.started) == s.Depth() {
		return fmt.Errorf("training step: %d steps are not finished", len(s.started))
	}
	s.at("the inputs of a training step")
	defer s.at("")
	pairs, err := s.ranks.part(b)
	if err != nil {
		return fmt.Errorf("training step: %w", err)
	}
	sh, err := s.shapeOf(&pairs, b.SemanticDim, sum)
	if err != nil {
		return err
	}
	p, err := s.program(sh)
	if err != nil {
		return err
	}
	if err := s.feed(b, &pairs, sh); err != nil {
		return err
	}
	s.captions = append(s.captions[:0], b.Numbers...)
	s.batch.Captions = s.captions
	key := callKey{shape: sh}
	key.words, key.all, key.regions = s.feeder.Bounds(&pairs)
	return s.begin(p, key, lr)
}

// begin starts a step on the inputs that were fed.
func (s *Step) begin(p *program, key callKey, lr float64) error {
	s.opt.count(p.updates, p.hypers, lr) // with the inputs, before kernels follow them
	if s.ranks != nil {
		s.ranks.tell()
	}
	if err := p.prepare(); err != nil {
		s.opt.steps--
		return fmt.Errorf("training step: %w", err)
	}
	s.at(p.name)
	s.last = p
	if p.micro == nil {
		s.runner.run(key, s.model.Instance.Generation(), s.makes)
	} else if err := p.compute(s.opt.shard); err == nil { // feeds inputs meanwhile, which cannot be recorded
		s.calls()
	} else {
		s.opt.steps--
		return fmt.Errorf("training step: %w", err)
	}
	s.runner.fetch(s.slot, p.reports(s.opt.norm))
	s.opt.apart = s.ranks != nil
	s.started = append(s.started, startedStep{p, lr, s.slot})
	s.slot = (s.slot + 1) % s.runner.depth()
	return nil
}

// calls makes the kernel calls of a step with the last program; of micro-batches those behind the gradients.
func (s *Step) calls() {
	p := s.last
	if p.micro == nil {
		p.compute(s.opt.shard) // has no error
	}
	if s.ranks != nil {
		if p.captioning != nil {
			device.Do(s.ranks.dev, device.Copy{Dst: s.ranks.spare(spareCaptioning), Src: p.captioned()})
		}
		if p.micro != nil { // the program of a whole batch does it as it runs
			for i := range s.ranks.shard.parts {
				s.ranks.scatter(&s.ranks.shard.parts[i])
			}
		}
		device.Do(s.ranks.dev, device.Join{})
	}
	s.at("the norm of the gradients, the clip or the update")
	s.opt.norms(p.updates)
	losses := p.losses
	if s.ranks != nil { // the last tells whether a rank wants to stop
		losses = losses[:len(losses)-1]
	}
	if s.runner.guard(s.opt.coef, s.opt.norm, losses) {
		s.opt.apply(p.updates, p.hypers)
	}
}

// Flops is the work of the matrix products of the step that was started last, in floating-point operations: those of
// the network, forward and back, and of gradients that are made as the parameters are updated.
func (s *Step) Flops() float64 {
	if m := s.last.micro; m != nil {
		return m.flops
	}
	n := s.last.vm.Flops()
	for _, u := range s.last.updates {
		if f := u.factor; f != nil {
			n += device.Flops(&device.AdamFactored{Factored: *f})
		}
	}
	return n
}

// ReadFrom sets what of the training split stays on the device; nil, as at first, is nothing.
func (s *Step) ReadFrom(r *models.Resident) {
	s.feeder = models.NewFeeder(s.model, r, s.recorder != nil)
	if s.micro != nil {
		s.micro.readFrom(r)
	}
}

// feed sets the inputs of a program: of pairs of a batch.
func (s *Step) feed(b *data.Batch, pairs *batch.Pairs, sh shape) (err error) {
	in, feeder := s.model.Instance, s.feeder
	if s.micro != nil {
		in, feeder = s.micro.loss, s.micro.losses
		err = s.micro.take(pairs)
	} else if err = feeder.Pairs(pairs, sh.Shape); err == nil {
		err = s.labels.feed(s.model, &pairs.Captions, sh.Bucket)
	}
	if err != nil {
		return err
	}
	s.counter = [2]int32{int32(s.opt.steps), int32(s.opt.steps >> 32)}
	if err := s.model.Instance.FeedInts(graph.InputStep, s.counter[:]); err != nil {
		return err
	}
	if sh.semantic > 0 {
		if err := feeder.Semantics(inputSemantics, b.Semantics, b.Numbers, sh.All, sh.semantic); err != nil {
			return err
		}
	}
	if s.loss.NeedsImages() {
		if err := in.FeedInts(inputImages, b.ImageIDs); err != nil {
			return err
		}
	}
	if s.memory == nil {
		return nil
	}
	s.batch = loss.Batch{N: sh.All, Full: b.Full, Captions: b.Numbers, Seed: s.Seed, Step: s.opt.steps,
		Epoch: b.Epoch, Iter: b.Iter, WarmUp: sh.sum}
	return s.memory.Feed(in, &s.batch)
}

// at names what the calls that follow belong to, on a device.Namer.
func (s *Step) at(what string) {
	if s.namer != nil {
		s.namer.At(what)
	}
}
