package train

import (
	"errors"
	"fmt"
	"math"
	"strings"

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
	verifier *verifier     // nil without Verify
	memory   loss.Memory   // of the loss; nil without
	batch    loss.Batch    // of the last step that was started
	started  []startedStep // and not finished, at most Depth
	slot     int           // of the next step that is started
	makes    func()        // calls, of the last program

	// factorFrom is the size from which the gradient of a weight stays a product (see backward).
	factorFrom int
}

type startedStep struct {
	p      *program
	lr     float64
	slot   int
	update int64   // its number, from 1
	first  *report // of the same step, where it is done twice
}

// StepResult is what a step reports.
type StepResult struct {
	Loss                   float64 // the whole loss
	LossCaption, LossImage float64 // its caption-retrieval and image-retrieval parts
	LossCaptioning         float64 // what a captioning branch adds to them, 0 without one
	GradNorm               float64 // before clipping
	Gap                    float64 // by how much the highest-scoring negatives score above the matches, summed; see gap
	LearningRate           float64
	Stop                   bool // a rank wants to stop (Ranks)
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

// NotFinite is the error of a step whose loss or gradient is NaN or infinite. The parameters are as before the step;
// running statistics may have moved.
type NotFinite struct {
	What  string
	Value float64
}

func (e *NotFinite) Error() string { return fmt.Sprintf("%s is %v", e.What, e.Value) }

// Run does one step on a batch at the given learning rate. sum selects the warm-up form of the loss.
func (s *Step) Run(b *data.Batch, lr float64, sum bool) (StepResult, error) {
	if err := s.Start(b, lr, sum); err != nil {
		return StepResult{}, err
	}
	return s.Finish()
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
	once := func() error {
		if p.micro == nil {
			s.runner.run(key, s.model.Instance.Generation(), s.makes)
		} else if err := p.compute(s.opt.shard); err == nil { // feeds inputs meanwhile, which cannot be recorded
			s.calls()
		} else {
			return err
		}
		s.runner.fetch(s.slot, p.reports(s.opt.norm, s.opt.sums))
		return nil
	}
	first, err := s.verifier.begin(p.updates, s.slot, once)
	if err == nil {
		err = once()
	}
	if err != nil {
		s.opt.steps--
		return fmt.Errorf("training step: %w", err)
	}
	s.opt.apart = s.ranks != nil
	s.started = append(s.started, startedStep{p, lr, s.slot, s.opt.steps, first})
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

// Learned are the values of the scalars that the loss of a step learns, by name; nil without.
func Learned(s *Step) map[string]float64 {
	var out map[string]float64
	for _, l := range s.opt.limits {
		if out == nil {
			out = map[string]float64{}
		}
		var x [1]float64
		s.model.Instance.Dev.DownloadDoubles(x[:], l.value)
		out[strings.TrimPrefix(l.name, models.LearnedPart)] = x[0]
	}
	return out
}

// RanksOf are those of the job of a step, nil where there is one.
func RanksOf(s *Step) *Ranks { return s.ranks }

// Averages reports whether a moving average of the weights is kept.
func (s *Step) Averages() bool { return s.opt.average != nil }

// WithAverage calls a function while the network has the averaged weights; no step may run meanwhile.
func (s *Step) WithAverage(do func() error) error {
	if s.ranks != nil {
		s.ranks.complete()
	}
	s.opt.average.exchange()
	defer s.opt.average.exchange()
	return do()
}

// whyNotFinite returns an error where bits that flipped are why a step has no finite result: of what the steps behind
// it read, which may have updated, or of what stands there now.
func whyNotFinite(s *Step) error {
	for s.verifier != nil && len(s.started) > 0 {
		if _, err := s.Finish(); flipped(err) {
			return err
		}
	}
	return s.verifier.unchanged()
}

var errNothingStarted = errors.New("training step: nothing was started")

// Finish waits for the oldest step that was started and returns what it reports.
func (s *Step) Finish() (StepResult, error) {
	if len(s.started) == 0 {
		return StepResult{}, errNothingStarted
	}
	st := s.started[0]
	s.started = append(s.started[:0], s.started[1:]...)
	x, scores, err := s.runner.fetched(st.slot)
	if err != nil {
		return StepResult{}, fmt.Errorf("training step: %w", err)
	}
	all := x
	x = x[:len(x)-s.opt.sums.N]
	r := StepResult{Loss: x[0], LossCaption: x[1], LossImage: x[2], GradNorm: x[3], LearningRate: st.lr}
	if st.p.captioning != nil {
		r.LossCaptioning = x[4]
		r.Loss += r.LossCaptioning
	}
	r.Stop = s.ranks != nil && x[2+len(st.p.losses)] > 0 // the last of the losses
	remembered := x[min(len(x), 3+1+len(st.p.losses)-1):]
	if !finite(r.Loss) || !finite(r.GradNorm) {
		s.opt.steps-- // nothing was updated
		if err := whyNotFinite(s); err != nil {
			return r, err
		}
		if finite(r.Loss) {
			return r, &NotFinite{"the gradient norm", r.GradNorm}
		}
		return r, &NotFinite{"the loss", r.Loss}
	}
	if err := s.verifier.check(st.update, st.first, all, scores); err != nil {
		return r, err
	}
	n := int(math.Sqrt(float64(len(scores))))
	if cap(s.hardest) < n {
		s.hardest = make([]float32, n)
	}
	if s.memory != nil {
		s.memory.Take(&s.batch, remembered)
	}
	r.Gap = gap(scores, s.hardest[:n], n)
	return r, nil
}

// gap returns by how much the highest-scoring negatives score above the matches, summed over rows and columns:
//
//	Σ_i max_{j≠i} S_ij - S_ii + Σ_j max_{i≠j} S_ij - S_jj
//
// The loss of LMH is 2·B·margin + gap while every hinge is active. hardest is scratch memory of n values.
func gap(scores, hardest []float32, n int) float64 {
	lowest := float32(math.Inf(-1))
	for j := range hardest[:n] {
		hardest[j] = lowest
	}
	sum := 0.0
	for i := range n {
		row := scores[i*n : (i+1)*n]
		top := lowest
		for j, s := range row {
			if j != i {
				top, hardest[j] = max(top, s), max(hardest[j], s)
			}
		}
		sum += float64(top) - float64(row[i])
	}
	for j, s := range hardest[:n] {
		sum += float64(s) - float64(scores[j*n+j])
	}
	return sum
}

// Verify makes the steps look for bits that change by themselves: of parameters and moments at each update, of what is
// resident within so many batches, and of what is computed in a step of every, which is done twice; 0 is none. It is
// called before the first step, and before ReadFrom.
func Verify(s *Step, every, batches int) (err error) {
	s.verifier, err = newVerifier(s.opt, s.runner, s.recorder, every, batches)
	return err
}

// Unchanged returns an error where a bit of the parameters or moments has changed since the last update. Steps must be
// finished. Without Verify it does nothing.
func Unchanged(s *Step) error { return s.verifier.unchanged() }

// Divide makes steps compute micro-batches of at most size pairs; 0 is the whole batch at once. It is called before
// the first step, and before ReadFrom. read sets dst to the R·D values of a row of the feature file, for batches that
// do not bring features, and is called by several goroutines; nil is none.
func Divide(s *Step, size int, read func(dst []float32, row int) error) error {
	if size == 0 {
		return nil
	}
	if _, ok := s.model.PairScorer(); ok {
		return fmt.Errorf("train.micro_batch is %d, but network %s scores pairs, so the gradient of an image needs "+
			"all captions of the batch at once; expected 0; processes can divide the batch (train --procs)", size,
			s.model.Options.Network)
	}
	var err error
	s.micro, err = newMicro(s.model, size, &s.Seed, s.opt.opt.scale, read)
	return err
}

// MicroBytes is the memory that steps in micro-batches have taken so far beside parameters, gradients and optimiser: of
// what they keep of a whole batch, and of what they compute. It is 0 where batches are computed at once.
func MicroBytes(s *Step) int64 {
	if s.micro == nil {
		return 0
	}
	return s.micro.bytes()
}

// ReadFrom sets what of the training split stays on the device; nil, as at first, is nothing.
func (s *Step) ReadFrom(r *models.Resident) {
	if s.verifier != nil {
		s.verifier.resident = r
	}
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
	s.batch = loss.Batch{N: sh.All, Captions: b.Numbers, Seed: s.Seed, Step: s.opt.steps, Epoch: b.Epoch,
		WarmUp: sh.sum}
	return s.memory.Feed(in, &s.batch)
}

// at names what the calls that follow belong to, on a device.Namer.
func (s *Step) at(what string) {
	if s.namer != nil {
		s.namer.At(what)
	}
}

// Record sets whether steps are recorded where they can be (the default). The results are the same bits.
func (s *Step) Record(on bool) {
	if s.recorder != nil {
		s.recorder.never = !on
	}
}

// CallByCall returns why steps are not recorded on a device that records, empty if they are or the device does not.
func (s *Step) CallByCall() string {
	if s.recorder == nil {
		return ""
	}
	return s.recorder.why()
}

// Recordings returns how many steps were recorded, and how many ran as the replay of a recording.
func (s *Step) Recordings() (recorded, replayed int) {
	if s.recorder == nil {
		return 0, 0
	}
	return s.recorder.Recorded, s.recorder.Replayed
}
