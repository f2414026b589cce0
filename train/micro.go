package train

import (
	"fmt"
	"slices"

	"vsetrain/batch"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/graph"
	"vsetrain/models"
)

// micro computes the embeddings of a batch and the gradients of the parameters a micro-batch at a time (gradient
// caching: L. Gao, Y. Zhang, J. Han, J. Callan, "Scaling Deep Contrastive Learning Batch Size under Memory Limited
// Setup", RepL4NLP 2021):
//
//	forth  each micro-batch is embedded, and nothing but its embeddings is kept
//	loss   of the whole batch, and its gradient with respect to the embeddings
//	back   each micro-batch is embedded again, with the same dropout, and differentiated from there
//
// A batch norm needs the values of the whole batch, as the loss does. So networks are divided into stages, which end at
// batch norms (graph.Cut) and, the last one, at the embeddings. What enters a batch norm, what leaves it and the
// gradient are kept for the whole batch; each stage goes forth on all micro-batches before the next, and back after it.
type micro struct {
	model      *models.Model
	size       int // pairs of a micro-batch, at most
	seed       *uint64
	read       func(dst []float32, row int) error // of features; nil takes those of batches
	norms      *graph.Instance                    // of the batch norms
	loss       *graph.Instance                    // of the graph of the loss, whose results are read when all is done
	feeder     *models.Feeder                     // of the network
	losses     *models.Feeder                     // of loss
	labels     labels
	captioning *graph.Node // not nil with a captioning branch
	updates    []update    // of all parameters
	images     kept
	captions   kept
	cuts       []kept
	room       int // pairs that what is kept has memory for

	captioned device.View // the loss of a captioning branch on all micro-batches, absent without one
	programs  map[models.Shape][]stage
	whole     map[int][]wholeNorm // of so many pairs
	flops     float64             // of the step

	pairs batch.Pairs // of the step
}

// kept are values of all pairs of a batch: embeddings, or those at a cut.
type kept struct {
	rows, width int         // of a pair; at most so many rows where counted
	cut         bool        // of what enters a batch norm
	counted     bool        // the rows of a pair are as many as its regions
	value       device.View // what micro-batches compute
	made        device.View // of a cut: what the batch norm makes of it; on the way back the gradient of value
	gradient    device.View // of an embedding, or of made
}

func (k *kept) size(pairs int) int { return pairs * k.rows * k.width }

// stage is the graphs of a stage on a micro-batch.
type stage struct {
	forth, back *graph.Program
	out         []*graph.Node       // of forth: what goes into the cut, or the embeddings
	before      map[int]*graph.Node // of back: the gradient of what earlier cuts made
	captioning  *graph.Node         // of back
}

// wholeNorm is the graphs of a batch norm on a batch.
type wholeNorm struct{ forth, back *graph.Program }

func newMicro(model *models.Model, size int, seed *uint64, scale func(group string) float64,
	read func(dst []float32, row int) error) (*micro, error) {
	in := model.Instance
	m := &micro{model: model, size: size, seed: seed, read: read, norms: in.Beside(), loss: in.Beside()}
	err := graph.Build(func() error {
		g, e := m.graph(onePair)
		m.captioning = e.captioning
		m.images = kept{rows: 1, width: graph.Dim(e.images, 1)}
		m.captions = kept{rows: 1, width: graph.Dim(e.captions, 1)}
		for _, c := range g.Micro.Cuts {
			rows := graph.Dim(c.X, 0)
			m.cuts = append(m.cuts, kept{cut: true, counted: c.Counts != nil, rows: rows,
				width: c.X.Shape().TotalSize() / rows})
		}
		var once, twice []span
		for _, spec := range in.Params.Specs {
			if spec.State || g.Lookup(spec.Name) == nil && spec.Within == nil {
				continue
			}
			if at := spanOf(in.Params, &spec, scale); spec.Twice {
				twice = append(twice, at)
			} else {
				once = append(once, at)
			}
		}
		m.updates = append(updatesOf(1, join(once)...), updatesOf(2, join(twice)...)...)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if m.captioning != nil {
		b, err := in.Dev.Alloc(device.Float, 1)
		if err != nil {
			return nil, err
		}
		m.captioned = device.Of(b)
	}
	m.readFrom(nil)
	return m, nil
}

// onePair is the smallest graph, from which the sizes of values are read.
var onePair = models.Shape{N: 1, Bucket: models.Bucket(1), All: 1}

// readFrom sets what of the training split stays on the device.
func (m *micro) readFrom(r *models.Resident) {
	beside := *m.model
	beside.Instance = m.loss
	m.feeder, m.losses = models.NewFeeder(m.model, r, false), models.NewFeeder(&beside, r, false)
	if m.read != nil && !r.HasFeatures() {
		m.feeder.ReadFeatures(m.read)
	}
}

// graph is the graph of a micro-batch.
func (m *micro) graph(sh models.Shape) (*graph.Graph, embedded) {
	g := m.model.Instance.Graph()
	g.Training, g.Seed, g.Share = true, *m.seed, graph.Share{Items: sh.All}
	g.Micro = &graph.MicroBatch{Items: sh.N}
	return g, embed(g, m.model, sh)
}

// out is what a stage computes, and the inputs for its gradient.
func (m *micro) out(g *graph.Graph, e embedded, at int) (out, gradients []*graph.Node) {
	if out = []*graph.Node{e.images, e.captions}; at < len(m.cuts) {
		out = []*graph.Node{g.Micro.Cuts[at].X}
	}
	for i, x := range out {
		gradients = append(gradients, g.Input(gradientOf(at, i), x.Shape().Clone()...))
	}
	return out, gradients
}

func gradientOf(stage, i int) string { return fmt.Sprintf("in.stage%d.gradient%d", stage, i) }

// stages compiles the graphs of a micro-batch.
func (m *micro) stages(sh models.Shape) ([]stage, error) {
	if all := m.programs[sh]; all != nil {
		return all, nil
	}
	var all []stage
	err := graph.Build(func() error {
		for at := range len(m.cuts) + 1 {
			var st stage
			var err error
			g, e := m.graph(sh)
			st.out, _ = m.out(g, e, at)
			if st.forth, err = graph.Compile(m.model.Instance, g, st.out, nil); err != nil {
				return err
			}
			g, e = m.graph(sh)
			out, given := m.out(g, e, at)
			cost := graph.Against(g, out[0], given[0])
			for i := 1; i < len(out); i++ {
				cost = g.Add(cost, graph.Against(g, out[i], given[i]))
			}
			var retain []*graph.Node
			if st.captioning = e.captioning; st.captioning != nil && at == len(m.cuts) {
				cost, retain = g.Add(cost, st.captioning), append(retain, st.captioning)
			}
			var inputs []*graph.Node
			for i := range at {
				inputs = append(inputs, g.Micro.Cuts[i].Y)
			}
			var grads map[*graph.Node]*graph.Node
			var targets []graph.Target
			if grads, targets, err = m.gradients(g, cost, inputs...); err != nil {
				return err
			}
			st.before = map[int]*graph.Node{}
			for i, y := range inputs {
				if grads[y] != nil {
					st.before[i], retain = grads[y], append(retain, grads[y])
				}
			}
			if st.back, err = graph.Compile(m.model.Instance, g, retain, targets); err != nil {
				return err
			}
			all = append(all, st)
		}
		return nil
	})
	m.programs[sh] = all
	return all, err
}

// gradients adds the gradients of a cost to a graph: of the inputs, where it depends on them, and of parameters, with
// the target to which each is added.
func (m *micro) gradients(g *graph.Graph, cost *graph.Node, inputs ...*graph.Node) (of map[*graph.Node]*graph.Node,
	targets []graph.Target, err error) {
	p, needs := m.model.Instance.Params, graph.Needs(g, cost)
	wrt := slices.DeleteFunc(slices.Clone(inputs), func(n *graph.Node) bool { return !needs[n] })
	of = map[*graph.Node]*graph.Node{}
	for _, spec := range p.Specs {
		if n := g.Lookup(spec.Name); n != nil && !spec.State && needs[n] {
			wrt, targets = append(wrt, n), append(targets, graph.Target{Into: p.Grad(spec.Name), Add: true})
		}
	}
	grads, err := g.Gradients(cost, wrt...)
	if err != nil {
		return nil, nil, err
	}
	for i, n := range wrt {
		of[n] = grads[i]
	}
	for i := range targets {
		targets[i].Node = grads[len(grads)-len(targets)+i]
	}
	return of, targets, nil
}

// Names of the inputs of the graph of the loss.
const (
	inputImageEmbeddings   = "in.image_embeddings"
	inputCaptionEmbeddings = "in.caption_embeddings"
)

// inputs are the embeddings of n pairs in the graph of the loss.
func (m *micro) inputs(g *graph.Graph, n int) embedded {
	return embedded{g.Input(inputImageEmbeddings, n, m.images.width), g.Input(inputCaptionEmbeddings, n,
		m.captions.width), m.captioning}
}

// wholeLoss compiles the graph of the loss of a batch, with its gradients.
func (m *micro) wholeLoss(g *graph.Graph, cost *graph.Node, retain ...*graph.Node) (*backward, error) {
	images, captions := g.Lookup(inputImageEmbeddings), g.Lookup(inputCaptionEmbeddings)
	of, targets, err := m.gradients(g, cost, images, captions)
	if err != nil {
		return nil, err
	}
	n := graph.Dim(images, 0)
	targets = append(targets, graph.Target{Node: of[images], Into: m.images.gradient.Slice(0, m.images.size(n))},
		graph.Target{Node: of[captions], Into: m.captions.gradient.Slice(0, m.captions.size(n))})
	vm, err := graph.Compile(m.loss, g, retain, targets)
	return &backward{vm: vm, updates: m.updates}, err
}

// wholeNorms compiles the batch norms of n pairs.
func (m *micro) wholeNorms(n int) ([]wholeNorm, error) {
	if all, ok := m.whole[n]; ok {
		return all, nil
	}
	var all []wholeNorm
	err := graph.Build(func() error {
		for at := range m.cuts {
			k, w := &m.cuts[at], wholeNorm{}
			made := k.made.Slice(0, k.size(n))
			build := func(again bool) (g *graph.Graph, x, y *graph.Node) {
				layout, _ := m.graph(onePair)
				g = m.norms.Graph()
				g.Training, g.Again = true, again
				x, y = layout.Micro.Cuts[at].Whole(g, n)
				return g, x, y
			}
			g, _, y := build(false)
			var err error
			if w.forth, err = graph.Compile(m.norms, g, nil, []graph.Target{{Node: y, Into: made}}); err != nil {
				return err
			}
			g, x, y := build(true)
			of, targets, err := m.gradients(g, graph.Against(g, y, g.Input(gradientOf(at, 0), y.Shape().Clone()...)), x)
			if err != nil {
				return err
			}
			targets = append(targets, graph.Target{Node: of[x], Into: made})
			if w.back, err = graph.Compile(m.norms, g, nil, targets); err != nil {
				return err
			}
			all = append(all, w)
		}
		return nil
	})
	m.whole[n] = all
	return all, err
}

// keep makes room for the values of n pairs, and reports whether they have moved: graphs compiled before have other
// addresses.
func (m *micro) keep(n int) (moved bool, err error) {
	if n <= m.room {
		return false, nil
	}
	dev := m.model.Instance.Dev
	alloc := func(v *device.View, size int) error {
		if v.Present() {
			dev.Free(v.Buf)
			*v = device.View{}
		}
		b, err := dev.Alloc(device.Float, size)
		if err != nil {
			return fmt.Errorf("allocate what is kept of %d pairs (train.micro_batch): %w", n, err)
		}
		*v = device.Of(b)
		return nil
	}
	for _, k := range m.all() {
		for _, v := range k.views() {
			if err := alloc(v, k.size(n)); err != nil {
				return true, err
			}
		}
	}
	m.room, m.whole, m.programs = n, map[int][]wholeNorm{}, map[models.Shape][]stage{}
	return true, nil
}

// reserve compiles the graphs of steps on pairs of which some captions fall into a bucket, but for that of the loss.
func (m *micro) reserve(sh models.Shape) error {
	if _, err := m.wholeNorms(sh.N); err != nil {
		return err
	}
	_, err := m.stages(models.Shape{N: min(m.size, sh.N), Bucket: sh.Bucket, All: sh.All})
	return err
}

// bytes is the memory that has been taken.
func (m *micro) bytes() (n int64) {
	for _, k := range m.all() {
		for _, v := range k.views() {
			n += 4 * int64(v.N)
		}
	}
	return n + m.model.Instance.SlabBytes() + m.norms.SlabBytes() + m.loss.SlabBytes()
}

func (m *micro) all() []*kept {
	all := []*kept{&m.images, &m.captions}
	for i := range m.cuts {
		all = append(all, &m.cuts[i])
	}
	return all
}

// views are the parts of what is kept: what enters a batch norm and leaves it is that of a cut alone.
func (k *kept) views() []*device.View {
	all := []*device.View{&k.value, &k.gradient}
	if k.cut {
		all = append(all, &k.made)
	}
	return all
}

// microBatch is a part of a batch.
type microBatch struct {
	lo, hi  int // pairs of this rank
	regions int // rows before it of a value with a row for each region that is there
	rows    int // of its own
}

// parts divide the pairs of this rank into micro-batches of nearly the same size. Captions are sorted by length, and so
// are those of micro-batches.
func (m *micro) parts() (all []microBatch) {
	n, regions := m.pairs.N, 0
	count := (n + m.size - 1) / m.size
	for i := range count {
		p := microBatch{lo: n * i / count, hi: n * (i + 1) / count, regions: regions}
		if m.pairs.Counts != nil {
			for _, c := range m.pairs.Counts[p.lo:p.hi] {
				p.rows += int(c)
			}
		} else {
			p.rows = (p.hi - p.lo) * m.model.Dims.Regions
		}
		regions += p.rows
		all = append(all, p)
	}
	return all
}

// of is the part of a value of the whole batch that is there of a micro-batch, and with capacity the memory that a
// graph takes for it.
func (p *microBatch) of(k *kept, v device.View, capacity bool) device.View {
	first, rows := p.lo*k.rows, (p.hi-p.lo)*k.rows
	if k.counted {
		if first = p.regions; !capacity {
			rows = p.rows
		}
	}
	return v.Slice(first*k.width, (first+rows)*k.width)
}

// feed sets the inputs of a stage.
func (m *micro) feed(p *microBatch, at int) error {
	b, in, dim := &m.pairs, m.model.Instance, m.model.Dims.Feature
	images := batch.Images{N: p.hi - p.lo, MostRegions: b.MostRegions}
	if len(b.Rows) > 0 {
		images.Rows = b.Rows[p.lo:p.hi]
	}
	if b.Counts != nil {
		images.Counts, images.MostRegions = b.Counts[p.lo:p.hi], max(b.MostRegions, slices.Max(b.Counts))
	}
	if len(b.RegionRows) > 0 {
		images.RegionRows = b.RegionRows[p.regions : p.regions+p.rows]
	}
	if len(b.Features) > 0 {
		images.Features = b.Features[p.regions*dim : (p.regions+p.rows)*dim]
	}
	if err := m.feeder.Images(images); err != nil {
		return err
	}
	in.Items(b.Items[p.lo:p.hi])
	for i := range at {
		in.Bind(graph.CutY(i), p.of(&m.cuts[i], m.cuts[i].made, true))
	}
	if at < len(m.cuts) {
		in.Bind(gradientOf(at, 0), p.of(&m.cuts[at], m.cuts[at].made, true))
		return nil
	}
	in.Bind(gradientOf(at, 0), p.of(&m.images, m.images.gradient, true))
	in.Bind(gradientOf(at, 1), p.of(&m.captions, m.captions.gradient, true))
	own := m.captionsOf(p)
	if err := m.feeder.Captions(own); err != nil {
		return err
	}
	return m.labels.feed(m.model, &own, models.Bucket(own.Longest()))
}

// captionsOf are the captions of a micro-batch.
func (m *micro) captionsOf(p *microBatch) batch.Captions {
	c, first := batch.Captions{Lengths: m.pairs.Lengths[p.lo:p.hi]}, 0
	for _, n := range m.pairs.Lengths[:p.lo] {
		first += int(n)
	}
	last := first
	for _, n := range c.Lengths {
		last += int(n)
	}
	c.Words = m.pairs.Words[first:last]
	if len(m.pairs.Numbers) > 0 {
		c.Numbers = m.pairs.Numbers[p.lo:p.hi]
	}
	return c
}

// shape is that of the graphs of a micro-batch.
func (m *micro) shape(p *microBatch) models.Shape {
	return models.Shape{N: p.hi - p.lo, Bucket: models.Bucket(int(m.pairs.Lengths[p.lo])),
		All: len(m.pairs.Whole().Lengths)}
}

// take sets the pairs of the step.
func (m *micro) take(b *batch.Pairs) error {
	items := m.pairs.Items
	if m.pairs = *b; b.Items == nil { // all, one after the other
		for len(items) < b.N {
			items = append(items, int32(len(items)))
		}
		m.pairs.Items = items
	}
	for at := range m.cuts {
		k := &m.cuts[at]
		m.norms.Bind(graph.CutX(at), k.value.Slice(0, k.size(b.N)))
		m.norms.Bind(gradientOf(at, 0), k.gradient.Slice(0, k.size(b.N)))
		if k.counted {
			counts := b.Counts
			if counts == nil {
				counts = slices.Repeat([]int32{int32(m.model.Dims.Regions)}, b.N)
			}
			if err := m.norms.FeedInts(graph.CutCounts(at), counts); err != nil {
				return err
			}
		}
	}
	m.loss.Bind(inputImageEmbeddings, m.images.value.Slice(0, m.images.size(b.N)))
	m.loss.Bind(inputCaptionEmbeddings, m.captions.value.Slice(0, m.captions.size(b.N)))
	return nil
}

// run computes the gradients of a batch, of whose loss vm is the graph.
func (m *micro) run(vm *graph.Program) error {
	dev := m.model.Instance.Dev
	zero := []device.View{m.model.Instance.Params.Grads()}
	for i := range m.cuts {
		zero = append(zero, m.cuts[i].gradient)
	}
	if m.captioned.Present() {
		zero = append(zero, m.captioned)
	}
	for _, v := range zero {
		device.Do(dev, device.Fill{Dst: v})
	}
	m.flops = 0
	norms, err := m.wholeNorms(m.pairs.N)
	if err != nil {
		return err
	}
	last := len(m.cuts)
	for at := range last {
		if err := m.forth(at); err != nil {
			return err
		}
		if err := m.do(norms[at].forth); err != nil {
			return err
		}
	}
	if err := m.forth(last); err != nil {
		return err
	}
	if err := m.do(vm); err != nil {
		return err
	}
	if err := m.back(last); err != nil {
		return err
	}
	for at := last - 1; at >= 0; at-- {
		if err := m.do(norms[at].back); err != nil {
			return err
		}
		if err := m.back(at); err != nil {
			return err
		}
	}
	return nil
}

// do runs a program.
func (m *micro) do(vm *graph.Program) error {
	if err := vm.RunAll(); err != nil {
		return err
	}
	m.flops += vm.Flops()
	return nil
}

// each calls do with the graphs of a stage on every micro-batch, whose inputs are set.
func (m *micro) each(at int, do func(*microBatch, *stage) error) error {
	for _, p := range m.parts() {
		all, err := m.stages(m.shape(&p))
		if err != nil {
			return err
		}
		if err := m.feed(&p, at); err != nil {
			return err
		}
		if err := do(&p, &all[at]); err != nil {
			return err
		}
	}
	return nil
}

// forth computes a stage.
func (m *micro) forth(at int) error {
	dev := m.model.Instance.Dev
	return m.each(at, func(p *microBatch, st *stage) error {
		if err := m.do(st.forth); err != nil {
			return err
		}
		to := []*kept{&m.images, &m.captions}
		if at < len(m.cuts) {
			to = []*kept{&m.cuts[at]}
		}
		for i, n := range st.out {
			v := p.of(to[i], to[i].value, false)
			device.Do(dev, device.Copy{Dst: v, Src: st.forth.View(n).Slice(0, v.N)})
		}
		return nil
	})
}

// back adds the gradients of a stage.
func (m *micro) back(at int) error {
	dev := m.model.Instance.Dev
	return m.each(at, func(p *microBatch, st *stage) error {
		if err := m.do(st.back); err != nil {
			return err
		}
		for i, n := range st.before {
			v := p.of(&m.cuts[i], m.cuts[i].gradient, false)
			device.Do(dev, device.Add{Dst: v, A: v, B: st.back.View(n).Slice(0, v.N)})
		}
		if st.captioning != nil && at == len(m.cuts) {
			device.Do(dev, device.Add{Dst: m.captioned, A: m.captioned, B: st.back.View(st.captioning)})
		}
		return nil
	})
}
