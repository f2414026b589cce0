package train

import (
	"fmt"
	"math"

	"vsetrain/data"
	"vsetrain/internal/device"
	"vsetrain/internal/graph"
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
	loss     loss.Options
	opt      *optimiser
	programs map[shape]*program
	last     *program   // of the last step
	parts    [3]float64 // staging of the loss
	extra    [1]float64 // staging of the loss of a captioning branch
	scored   []float32  // staging of the scores, and of a row
	counter  [2]int32   // the number of steps done, for dropout
	labels   labels     // staging of the labels of a captioning branch

	late *late // steps on a device.Recorder, nil on others

	// factorFrom is the size from which the gradient of a weight is kept as a product (see backward).
	factorFrom int
}

// shape is what a training graph depends on.
type shape struct {
	n, bucket, semantic int
	room                int  // words that a graph of a PairScorer has room for, 0 for other networks
	sum                 bool // sum over all violations instead of the hardest (warm-up)
}

type program struct {
	*backward
	loss       *graph.Node
	margins    *graph.Node // of the negatives, nil where the margin is constant
	captioning *graph.Node // loss of the captioning branch, nil without one
	scores     *graph.Node
	name       string      // of the step, for errors of a device
	hypers     device.View // of updates on a device.Recorder, see optimiser.hypers
}

// StepResult is what a step reports.
type StepResult struct {
	Loss                   float64 // the whole loss
	LossCaption, LossImage float64 // its caption-retrieval and image-retrieval parts
	LossCaptioning         float64 // what a captioning branch adds to them, 0 without one
	GradNorm               float64 // before clipping
	Gap                    float64 // by how much the hardest negatives score above the matches, summed; see gap
	LearningRate           float64
}

// NewStep prepares training of a model: gradients and optimiser state are allocated.
func NewStep(m *models.Model, l loss.Options, o OptimOptions) (*Step, error) {
	opt, err := newOptimiser(m.Session.Dev, m.Session.Params, o)
	if err != nil {
		return nil, err
	}
	s := &Step{model: m, loss: l, opt: opt, programs: map[shape]*program{}, factorFrom: 1 << 20}
	if r, ok := m.Session.Dev.(device.Recorder); ok {
		s.late = newLate(r)
	}
	return s, nil
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
	if s.late != nil {
		if err := s.Start(b, lr, sum); err != nil {
			return StepResult{}, err
		}
		return s.Finish()
	}
	p, _, err := s.prepare(b, sum)
	if err != nil {
		return StepResult{}, err
	}
	return s.execute(p, lr)
}

// prepare finds or compiles the program of a batch and feeds the batch.
func (s *Step) prepare(b *data.Batch, sum bool) (*program, shape, error) {
	sh := shape{n: b.N, bucket: models.Bucket(b.L), sum: sum}
	if _, ok := s.model.PairScorer(); ok {
		sh.room = s.model.PairRoom(b.Lengths, b.L)
	}
	if s.loss.NeedsSemantics() {
		if b.SemanticDim == 0 {
			return nil, sh, fmt.Errorf("loss %s needs semantic vectors; the batch has none", s.loss.Name)
		}
		sh.semantic = b.SemanticDim
	}
	p, err := s.program(sh)
	if err != nil {
		return nil, sh, err
	}
	return p, sh, s.feed(b, sh)
}

// execute runs forward, loss and backward on the inputs fed before, then clips and updates.
func (s *Step) execute(p *program, lr float64) (StepResult, error) {
	if err := p.vm.RunAll(); err != nil {
		return StepResult{}, fmt.Errorf("training step: %w", err)
	}
	s.model.Session.Dev.DownloadDoubles(s.parts[:], p.vm.View(p.loss).Slice(0, 3))
	s.last = p
	g := p.gradients()
	captioning := 0.0
	if p.captioning != nil {
		s.model.Session.Dev.DownloadDoubles(s.extra[:], p.vm.View(p.captioning))
		captioning = s.extra[0]
	}
	r := StepResult{Loss: s.parts[0] + captioning, LossCaption: s.parts[1], LossImage: s.parts[2], LossCaptioning: captioning,
		GradNorm: s.opt.gradNorm(g), LearningRate: lr}
	if !finite(r.Loss) {
		return r, &NotFinite{"the loss", r.Loss}
	}
	if !finite(r.GradNorm) {
		return r, &NotFinite{"the gradient norm", r.GradNorm}
	}
	s.opt.update(g, lr)
	r.Gap = s.gap(p.vm.View(p.scores))
	return r, s.model.Session.Dev.Sync()
}

// gap reads the scores [B, B] of the last run.
func (s *Step) gap(scores device.View) float64 {
	n := int(math.Sqrt(float64(scores.N)))
	if cap(s.scored) < scores.N+n {
		s.scored = make([]float32, scores.N+n)
	}
	buf := s.scored[:scores.N+n]
	s.model.Session.Dev.DownloadFloats(buf[:scores.N], scores)
	return gap(buf[:scores.N], buf[scores.N:], n)
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// program returns the compiled graph of a shape.
func (s *Step) program(sh shape) (*program, error) {
	if p := s.programs[sh]; p != nil {
		return p, nil
	}
	p, err := s.compile(sh)
	if err == nil {
		s.programs[sh] = p
	}
	return p, err
}

func (s *Step) feed(b *data.Batch, sh shape) error {
	ses := s.model.Session
	if s.late != nil {
		s.model.Loosely = true
		defer func() { s.model.Loosely = false }()
	}
	if s.model.Resident() {
		if err := s.model.FeedFeatures(b.ImageRows, b.RegionRows, b.RegionCounts, b.N); err != nil {
			return err
		}
	} else if err := s.model.FeedRegions(b.Images, b.RegionCounts, b.N); err != nil {
		return err
	}
	if err := s.model.FeedWords(b.Words, b.Lengths, b.N, b.L); err != nil {
		return err
	}
	if err := s.model.FeedBoxes(b.Boxes, b.N); err != nil {
		return err
	}
	if err := s.model.FeedEdges(b.Edges, b.EdgeStart, b.N, sh.room); err != nil {
		return err
	}
	s.counter = [2]int32{int32(s.opt.steps), int32(s.opt.steps >> 32)}
	if err := ses.FeedInts(graph.InputStep, s.counter[:]); err != nil {
		return err
	}
	if c, ok := s.model.Network.(models.Captioner); ok {
		if err := s.labels.feed(ses, b, sh, c.MaxLength(), s.model.PadsLabels()); err != nil {
			return err
		}
	}
	if sh.semantic == 0 {
		return nil
	}
	if err := ses.Feed(inputSemantics, b.Semantics); err != nil {
		return err
	}
	return ses.FeedInts(inputImages, b.ImageIDs)
}

// buildScores adds the network to a graph: the scores of a batch, and the loss of a captioning branch where there is one.
func (s *Step) buildScores(g *graph.Graph, p *program, sh shape) {
	m := s.model
	captions := m.CaptionNodes(g, sh.n, sh.bucket)
	if net, ok := m.PairScorer(); ok {
		captions.Room = sh.room
		captions.Edges, captions.EdgeStart = m.EdgeNodes(g, sh.n, sh.room)
		p.scores = net.Pairs(g, net.Images(g, m.ImageInputs(g, sh.n)), net.Words(g, captions))
		return
	}
	net := m.Embedder()
	var images *graph.Node
	if c, ok := net.(models.Captioner); ok {
		images, p.captioning = c.ImagesAndLoss(g, m.RegionsNode(g, sh.n), m.LabelNodes(g, sh.n, labelSteps(sh, c.MaxLength())))
	} else {
		images = net.Images(g, m.RegionsNode(g, sh.n))
	}
	p.scores = net.Scores(g, images, net.Captions(g, captions))
}

func (s *Step) compile(sh shape) (*program, error) {
	p := &program{name: fmt.Sprintf("training step of %s with loss %s, %d pairs with captions of up to %d words", s.model.Options.Network, s.loss.Name, sh.n, sh.bucket)}
	g := s.model.Session.Graph()
	g.Training, g.Seed = true, s.Seed
	err := graph.Build(func() error {
		s.buildScores(g, p, sh)
		var c loss.Context
		if sh.semantic > 0 {
			c.Semantics = g.Input(inputSemantics, sh.n, sh.semantic)
			c.Images = g.InputInts(inputImages, sh.n)
			c.Captions = c.Images
		}
		p.margins = s.loss.Margins(g, c, sh.n)
		c.Margins = p.margins
		p.loss = s.loss.Build(g, p.scores, c, sh.sum)
		cost, keep := p.loss, []*graph.Node{p.loss, p.scores}
		if p.margins != nil {
			keep = append(keep, p.margins)
		}
		if p.captioning != nil {
			cost, keep = g.Add(p.loss, p.captioning), append(keep, p.captioning)
		}
		var err error
		p.backward, err = compileBackward(s.model.Session, g, cost, s.opt.opt.scale, s.factorFrom, keep...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("network %s with loss %s: %w", s.model.Options.Network, s.loss.Name, err)
	}
	return p, nil
}
