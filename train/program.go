package train

import (
	"fmt"

	"vsetrain/batch"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/graph"
	"vsetrain/loss"
	"vsetrain/models"
)

// program is the compiled graph of a shape, with loss, gradients and the updates of the parameters.
type program struct {
	*backward
	micro      *micro // computes the embeddings; nil if the graph does
	loss       *graph.Node
	margins    *graph.Node   // of the negatives, nil if the margin is constant
	remember   []*graph.Node // values for the memory of the loss
	captioning *graph.Node   // loss of the captioning branch, nil without one
	scores     *graph.Node
	name       string        // of the step, for errors of a device
	hypers     device.View   // scalars of the updates, see optimiser.count
	summed     device.View   // scalars that ranks sum with the gradients (Ranks); absent with one rank
	losses     []device.View // that must be finite
	reads      []device.View // that a step reports
}

// prepare finds the addresses of values after the inputs were fed.
func (p *program) prepare() error {
	if err := p.vm.Prepare(); err != nil {
		return err
	}
	p.factors()
	p.losses = append(p.losses[:0], p.vm.View(p.loss).Slice(0, 1))
	if p.captioning != nil && p.summed.Present() {
		p.losses = append(p.losses, p.summed.Slice(spareCaptioning, spareCaptioning+1))
	} else if p.captioning != nil {
		p.losses = append(p.losses, p.captioned())
	}
	return nil
}

// compute runs the program on its inputs, which computes the gradients of the pairs of this rank. For a whole batch it
// always makes the same calls and cannot fail. Micro-batches are fed one after the other, which may fail.
func (p *program) compute(s *shard) error {
	if p.micro == nil {
		p.gather(s)
		p.vm.Run()
		return nil
	}
	s.complete(device.View{})
	return p.micro.run(p.vm)
}

// captioned returns the loss of the captioning branch on the pairs of this rank; absent without one.
func (p *program) captioned() device.View {
	switch {
	case p.captioning == nil:
		return device.View{}
	case p.micro != nil:
		return p.micro.captioned
	}
	return p.vm.View(p.captioning)
}

// reports returns the values that a step reports: the loss and its two parts, the norm, the loss of a captioning
// branch, with several ranks whether one wants to stop, the values for the memory of the loss, and the scores.
func (p *program) reports(norm device.View) []device.View {
	p.reads = append(p.reads[:0], p.vm.View(p.loss).Slice(0, 3), norm)
	p.reads = append(p.reads, p.losses[1:]...)
	if p.summed.Present() {
		p.reads = append(p.reads, p.summed.Slice(spareStop, spareStop+1))
	}
	for _, n := range p.remember {
		p.reads = append(p.reads, p.vm.View(n))
	}
	p.reads = append(p.reads, p.vm.View(p.scores))
	return p.reads
}

// shapeOf returns the shape of pairs. semantic is the length of the semantic vectors.
func (s *Step) shapeOf(p *batch.Pairs, semantic int, sum bool) (shape, error) {
	sh := shape{Shape: s.feeder.ShapeOf(p), sum: sum}
	if s.micro != nil {
		sh.Bucket = 0 // embeddings do not depend on it
	}
	if s.loss.NeedsSemantics() {
		if semantic == 0 {
			return sh, fmt.Errorf("loss %s needs semantic vectors; the batch has none", s.loss.Name)
		}
		sh.semantic = semantic
	}
	return sh, nil
}

// Reserve compiles the graph of a batch with captions of these lengths, which allocates the memory of a step's values.
// semantic is the length of the semantic vectors if the loss needs them.
func (s *Step) Reserve(lengths []int32, semantic int) error {
	all := &batch.Captions{Lengths: lengths}
	pairs := s.ranks.deal(all)
	sh, err := s.shapeOf(&pairs, semantic, false)
	if err == nil {
		_, err = s.program(sh)
	}
	if err != nil {
		return err
	}
	return s.micro.reserve(s.feeder.ShapeOf(&pairs))
}

// program returns the compiled graph of a shape.
func (s *Step) program(sh shape) (*program, error) {
	if moved, err := s.micro.keep(sh.N); err != nil {
		return nil, err
	} else if moved {
		s.programs = map[shape]*program{}
	}
	if p := s.programs[sh]; p != nil {
		return p, nil
	}
	p, err := s.compile(sh)
	if err == nil {
		s.programs[sh] = p
	}
	return p, err
}

// buildScores adds the network to a graph: the scores of a batch, and the loss of a captioning branch if there is one.
// With several ranks, each encodes its own pairs. Embeddings are gathered. A PairScorer scores its own images with the
// captions of all ranks, and the scores are gathered.
func (s *Step) buildScores(g *graph.Graph, p *program, sh shape) {
	m := s.model
	if net, ok := m.PairScorer(); ok {
		captions := m.CaptionInputs(g, sh.N, sh.Bucket, sh.Capacity)
		images := net.Images(g, m.ImageInputs(g, sh.N))
		words := m.SharedCaptions(g, net.Words(g, captions), sh.AllCapacity)
		p.scores = graph.AllGatherRows(g, scorePairs(g, net, s.block, images, words))
		return
	}
	var e embedded
	if p.micro = s.micro; p.micro != nil {
		e = p.micro.inputs(g, sh.N)
	} else {
		e = embed(g, m, sh.Shape)
	}
	p.captioning = e.captioning
	p.scores = m.Embedder().Scores(g, graph.AllGatherRows(g, e.images), graph.AllGatherRows(g, e.captions))
}

// scorePairs scores all pairs, block captions at a time; 0 scores all captions at once.
func scorePairs(g *graph.Graph, net models.PairScorer, block int, images models.EncodedImages,
	captions models.EncodedCaptions) *graph.Node {
	if block == 0 {
		return net.Pairs(g, images, captions)
	}
	return g.CaptionBlocks(block, images.Values, graph.Captions(captions),
		func(g *graph.Graph, images []*graph.Node, c graph.Captions) *graph.Node {
			return net.Pairs(g, models.EncodedImages{Values: images}, models.EncodedCaptions(c))
		})
}

// contextOf returns the context of a loss for a batch of n pairs.
func contextOf(l *loss.Options, g *graph.Graph, n, semantic int) (c loss.Context) {
	if semantic > 0 {
		c.Semantics = g.Input(inputSemantics, n, semantic)
	}
	if l.NeedsImages() {
		c.Images = g.InputInts(inputImages, n)
		c.Captions = c.Images
	}
	return c
}

func (s *Step) compile(sh shape) (*program, error) {
	p := &program{name: fmt.Sprintf("training step of %s with loss %s, %d pairs with captions of up to %d words",
		s.model.Options.Network, s.loss.Name, sh.All, sh.Bucket)}
	g := s.model.Instance.Graph()
	g.Training, g.Seed, g.Shard = true, s.Seed, s.ranks.share(sh.All)
	if s.ranks != nil {
		p.summed = s.model.Instance.Params.Spare()
	}
	err := graph.Build(func() error {
		s.buildScores(g, p, sh)
		c := contextOf(&s.loss, g, sh.All, sh.semantic)
		p.margins = s.loss.Margins(g, c, sh.All)
		c.Margins = p.margins
		c.Remember = func(values ...*graph.Node) { p.remember = append(p.remember, values...) }
		p.loss = s.loss.Build(g, p.scores, c, sh.sum)
		cost, retain := p.loss, append([]*graph.Node{p.loss, p.scores}, p.remember...)
		if p.margins != nil {
			retain = append(retain, p.margins)
		}
		var err error
		if p.micro != nil {
			p.backward, err = p.micro.wholeLoss(g, cost, retain...)
			return err
		}
		if p.captioning != nil {
			cost, retain = g.Add(p.loss, p.captioning), append(retain, p.captioning)
		}
		p.backward, err = compileBackward(s.model.Instance, g, cost, s.opt.opt.scale, s.factorFrom, s.opt.shard,
			retain...)
		return err
	})
	if err == nil && s.ranks != nil && p.micro == nil {
		p.await(s.opt.shard)
		p.scatter(s.ranks)
	}
	if err == nil {
		p.updates = s.opt.cut(p.updates)
		p.hypers, err = s.opt.hypersOf(p.updates)
	}
	if err != nil {
		return nil, fmt.Errorf("network %s with loss %s: %w", s.model.Options.Network, s.loss.Name, err)
	}
	return p, nil
}
