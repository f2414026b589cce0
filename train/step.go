package train

import (
	"errors"
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

// Step runs training steps: forward pass, loss, backward pass, clipping and update. One compiled graph serves all
// batches of a shape. Steps of a known shape allocate nothing.
type Step struct {
	// Seed is the seed of the run, for dropout. It is set before the first step.
	Seed uint64

	inputs
	queue
	model    *models.Model
	loss     loss.Options
	memory   memory // of the loss
	opt      *optimiser
	ranks    *Ranks // nil with one rank
	micro    *micro // nil if batches are embedded at once
	block    int    // captions that a PairScorer scores at once; 0 is all
	programs map[shape]*program
	last     *program  // of the last step
	hardest  []float32 // scratch memory of gap

	// factorFrom is the smallest size of a weight whose gradient may stay a product (see backward).
	factorFrom int
}

// inputs are the inputs of a step that the host sets.
type inputs struct {
	feeder   *models.Feeder
	labels   labels   // staging of the labels of a captioning branch
	counter  [2]int32 // steps done, for dropout
	captions []int32  // indices
}

// NewStep prepares the training of a model. It allocates gradients and optimiser state.
func NewStep(m *models.Model, l loss.Options, o OptimOptions) (*Step, error) {
	ranks, err := newRanks(m)
	if err != nil {
		return nil, err
	}
	opt, err := newOptimiser(m.Instance.Dev, m.Instance.Params, o)
	if err != nil {
		return nil, err
	}
	s := &Step{model: m, loss: l, memory: memory{Memory: l.Memory()}, opt: opt, ranks: ranks,
		programs: map[shape]*program{}, factorFrom: 1 << 20}
	s.queue = newQueue(m.Instance.Dev, s.calls)
	opt.join(ranks)
	s.ReadFrom(nil)
	return s, nil
}

// Depth returns the number of steps that may be started and not finished. A loss with a memory allows one.
func (s *Step) Depth() int {
	if s.memory.Memory != nil {
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
	p, key, err := s.ready(b, sum)
	if err != nil {
		return err
	}
	return s.begin(p, key, lr)
}

// ready returns the program of a batch and the key of its calls, after it has set the inputs.
func (s *Step) ready(b *data.Batch, sum bool) (p *program, key callKey, err error) {
	pairs, err := s.ranks.part(b)
	if err != nil {
		return nil, key, fmt.Errorf("training step: %w", err)
	}
	if key.shape, err = s.shapeOf(&pairs, b.SemanticDim, sum); err != nil {
		return nil, key, err
	}
	if p, err = s.program(key.shape); err != nil {
		return nil, key, err
	}
	key.words, key.all, key.regions = s.feeder.Bounds(&pairs)
	return p, key, s.feed(b, &pairs, key.shape)
}

// begin starts a step on its inputs.
func (s *Step) begin(p *program, key callKey, lr float64) error {
	s.opt.count(p.updates, p.hypers, lr)
	s.ranks.tell()
	err := p.prepare()
	s.at(p.name)
	if err == nil && p.micro != nil { // feeds inputs between kernels and cannot be recorded
		err = p.compute(s.opt.shard)
	}
	if err != nil {
		s.opt.steps--
		return fmt.Errorf("training step: %w", err)
	}
	if s.last = p; p.micro != nil {
		s.calls()
	} else {
		s.runner.run(key, s.model.Instance.Generation(), s.makes)
	}
	s.opt.apart = s.ranks != nil
	s.push(p, lr, p.reports(s.opt.norm))
	return nil
}

// calls makes the kernel calls of a step with the last program; with micro-batches, the calls after the gradients.
func (s *Step) calls() {
	p := s.last
	if p.micro == nil {
		p.compute(s.opt.shard) // cannot fail
	}
	s.ranks.collect(p.captioned(), p.micro != nil)
	s.at("the norm of the gradients, the clip or the update")
	s.opt.norms(p.updates)
	if s.runner.guard(s.opt.coef, s.opt.norm, p.losses) {
		s.opt.apply(p.updates, p.hypers)
	}
}

// Flops returns the floating-point operations of the matrix products of the last started step: of the network's forward
// and backward pass, and of gradients that are computed in the update.
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

// ReadFrom sets the part of the training split that stays on the device; nil, the default, is none.
func (s *Step) ReadFrom(r *models.Resident) {
	s.feeder = models.NewFeeder(s.model, r, s.recorder != nil && !s.recorder.divided)
	s.micro.readFrom(r)
}

// feed sets the inputs of a program for the pairs of a batch.
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
		if err := feeder.Semantics(inputSemantics, b.Semantics, b.Indices, sh.All, sh.semantic); err != nil {
			return err
		}
	}
	if s.loss.NeedsImages() {
		if err := in.FeedInts(inputImages, b.ImageIndices); err != nil {
			return err
		}
	}
	s.captions = append(s.captions[:0], b.Indices...)
	return s.memory.feed(in, loss.Batch{N: sh.All, Full: b.Full, Captions: s.captions, Seed: s.Seed,
		Step: s.opt.steps, Epoch: b.Epoch, Iter: b.Iter, WarmUp: sh.sum})
}

// queue holds the steps that are started and not finished, and the runner of their calls.
type queue struct {
	runner   runner
	recorder *recorder // the runner if the device records, or nil
	namer    device.Namer
	makes    func() // the calls of a step
	started  []startedStep
	slot     int // of the next step that is started
}

type startedStep struct {
	p    *program
	lr   float64
	slot int
}

func newQueue(dev device.Device, calls func()) queue {
	q := queue{makes: calls}
	q.runner, q.recorder = newRunner(dev)
	q.namer, _ = device.As[device.Namer](dev)
	return q
}

// at tells a device.Namer what the following calls compute.
func (q *queue) at(what string) {
	if q.namer != nil {
		q.namer.At(what)
	}
}

// push adds a step whose calls were made, and begins to copy its reports to the host.
func (q *queue) push(p *program, lr float64, reports []device.View) {
	q.runner.fetch(q.slot, reports)
	q.started = append(q.started, startedStep{p, lr, q.slot})
	q.slot = (q.slot + 1) % q.runner.depth()
}

var errNothingStarted = errors.New("training step: nothing was started")

// pop waits for the oldest step.
func (q *queue) pop() (st startedStep, scalars []float64, scores []float32, err error) {
	if len(q.started) == 0 {
		return st, nil, nil, errNothingStarted
	}
	st = q.started[0]
	q.started = append(q.started[:0], q.started[1:]...)
	if scalars, scores, err = q.runner.fetched(st.slot); err != nil {
		err = fmt.Errorf("training step: %w", err)
	}
	return st, scalars, scores, err
}

// memory is the memory of a loss from step to step. A loss without one has a nil loss.Memory.
type memory struct {
	loss.Memory
	batch loss.Batch // of the last started step
}

func (m *memory) feed(in *graph.Instance, b loss.Batch) error {
	if m.batch = b; m.Memory == nil {
		return nil
	}
	return m.Feed(in, &m.batch)
}

func (m *memory) take(values []float64) {
	if m.Memory != nil {
		m.Take(&m.batch, values)
	}
}

func (m *memory) state() map[string]*[]float64 {
	if m.Memory == nil {
		return nil
	}
	return m.State()
}
