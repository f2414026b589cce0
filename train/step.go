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

// Step runs training steps: forward, loss, backward, clip, update. One compiled graph serves all batches of one
// shape; steps of a known shape allocate nothing.
type Step struct {
	// Seed is that of the run, from which dropout draws; it is set before the first step.
	Seed uint64

	inputs
	queue
	model    *models.Model
	loss     loss.Options
	memory   memory // of the loss
	opt      *optimiser
	ranks    *Ranks // nil where there is one
	micro    *micro // nil where a batch is embedded at once
	block    int    // captions that a PairScorer scores at once, 0 for all
	programs map[shape]*program
	last     *program  // of the last step
	hardest  []float32 // scratch memory of gap

	// factorFrom is the size from which the gradient of a weight stays a product (see backward).
	factorFrom int
}

// inputs are what the host sets of a step that is started.
type inputs struct {
	feeder   *models.Feeder
	labels   labels   // staging of the labels of a captioning branch
	counter  [2]int32 // the number of steps done, for dropout
	captions []int32  // the numbers of all
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
	s := &Step{model: m, loss: l, memory: memory{Memory: l.Memory()}, opt: opt, ranks: ranks,
		programs: map[shape]*program{}, factorFrom: 1 << 20}
	s.queue = newQueue(m.Instance.Dev, s.calls)
	opt.join(ranks)
	s.ReadFrom(nil)
	return s, nil
}

// Depth is how many steps may be started and not finished. A loss with a memory needs one step for the next.
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

// ready returns the program of a batch, whose inputs are set, and what its calls depend on.
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

// begin starts a step on the inputs that were fed.
func (s *Step) begin(p *program, key callKey, lr float64) error {
	s.opt.count(p.updates, p.hypers, lr) // with the inputs, before kernels follow them
	s.ranks.tell()
	err := p.prepare()
	s.at(p.name)
	if err == nil && p.micro != nil { // which feeds inputs meanwhile, and cannot be recorded
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

// calls makes the kernel calls of a step with the last program; of micro-batches those after the gradients.
func (s *Step) calls() {
	p := s.last
	if p.micro == nil {
		p.compute(s.opt.shard) // has no error
	}
	s.ranks.collect(p.captioned(), p.micro != nil)
	s.at("the norm of the gradients, the clip or the update")
	s.opt.norms(p.updates)
	if s.runner.guard(s.opt.coef, s.opt.norm, p.losses) {
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
	s.feeder = models.NewFeeder(s.model, r, s.recorder != nil && !s.recorder.divided)
	s.micro.readFrom(r)
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

// queue is the steps that were started and are not finished, and what makes their calls.
type queue struct {
	runner   runner
	recorder *recorder // the runner, where the device records; nil on others
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

// at names what the calls that follow belong to, on a device.Namer.
func (q *queue) at(what string) {
	if q.namer != nil {
		q.namer.At(what)
	}
}

// push adds a step whose calls were made, and begins to copy what it reports to the host.
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

// memory is what the loss remembers from step to step, nothing without a loss.Memory.
type memory struct {
	loss.Memory
	batch loss.Batch // of the last step that was started
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
