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
//	forward   embeds each micro-batch and keeps only the embeddings
//	loss      of the whole batch, with its gradient with respect to the embeddings
//	backward  embeds each micro-batch again, with the same dropout, and computes gradients from there
//
// A batch norm, like the loss, needs the values of the whole batch. Networks are therefore divided into stages, which
// end at batch norms (graph.Cut) and, the last one, at the embeddings. The inputs, outputs and gradients of batch norms
// are kept for the whole batch. The forward pass of a stage runs on all micro-batches before the next stage, and its
// backward pass after the next stage's.
type micro struct {
	model      *models.Model
	size       int // largest number of pairs in a micro-batch
	seed       *uint64
	read       func(dst []float32, row int) error // reads features; nil reads them from batches
	norms      *graph.Instance                    // of the batch norms
	loss       *graph.Instance                    // of the loss, whose results are read at the end of the step
	feeder     *models.Feeder                     // of the network
	losses     *models.Feeder                     // of the loss
	labels     labels
	captioning *graph.Node // nil without a captioning branch
	updates    []update    // of all parameters
	images     kept
	captions   kept
	cuts       []kept
	room       int // pairs that there is memory for

	captioned device.View // the loss of a captioning branch on all micro-batches; absent without one
	programs  map[models.Shape][]stage
	whole     map[int][]wholeNorm // by the number of pairs
	flops     float64             // of the step

	pairs batch.Pairs // of the step
}

// kept are values of all pairs of a batch: embeddings, or values at a cut.
type kept struct {
	rows, width int         // of a pair; if counted, rows is the largest number
	cut         bool        // the values are the inputs of a batch norm
	counted     bool        // a pair has a row for each of its regions
	value       device.View // results of micro-batches
	made        device.View // of a cut: the output of the batch norm; in the backward pass the gradient of value
	gradient    device.View // of an embedding, or of made
}

func (k *kept) size(pairs int) int { return pairs * k.rows * k.width }

// stage holds the graphs of a stage on a micro-batch.
type stage struct {
	forward, backward *graph.Program
	out               []*graph.Node       // of forward: the inputs of the cut, or the embeddings
	before            map[int]*graph.Node // of backward: the gradients of the outputs of earlier cuts
	captioning        *graph.Node         // of backward
}

// wholeNorm holds the graphs of a batch norm on a batch.
type wholeNorm struct{ forward, backward *graph.Program }

func newMicro(model *models.Model, size int, seed *uint64, scale func(group string) float64,
	read func(dst []float32, row int) error) (*micro, error) {
	in := model.Instance
	m := &micro{model: model, size: size, seed: seed, read: read, norms: in.WithSameParams(), loss: in.WithSameParams()}
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
		var stored spans
		for _, spec := range in.Params.Specs {
			if !spec.State && (g.Lookup(spec.Name) != nil || spec.Within != nil) {
				stored.add(&spec, spanOf(in.Params, &spec, scale))
			}
		}
		m.updates = stored.updates()
		return nil
	})
	if err != nil {
		return nil, err
	}
	if m.captioning != nil {
		if err := device.AllocViews(in.Dev, device.Float, 1, &m.captioned); err != nil {
			return nil, err
		}
	}
	m.readFrom(nil)
	return m, nil
}

// onePair is the shape of the smallest graph, which tells the sizes of values.
var onePair = models.Shape{N: 1, Bucket: models.Bucket(1), All: 1}

// readFrom sets the part of the training split that stays on the device. Like keep, reserve and bytes it does nothing
// if m is nil, because batches are not divided.
func (m *micro) readFrom(r *models.Resident) {
	if m == nil {
		return
	}
	beside := *m.model
	beside.Instance = m.loss
	m.feeder, m.losses = models.NewFeeder(m.model, r, false), models.NewFeeder(&beside, r, false)
	if m.read != nil && !r.HasFeatures() {
		m.feeder.ReadFeatures(m.read)
	}
}

// graph returns the graph of a micro-batch.
func (m *micro) graph(sh models.Shape) (*graph.Graph, embedded) {
	g := m.model.Instance.Graph()
	g.Training, g.Seed, g.Shard = true, *m.seed, graph.Shard{Items: sh.All}
	g.Micro = &graph.MicroBatch{Items: sh.N}
	return g, embed(g, m.model, sh)
}

// out returns the results of a stage, and inputs for their gradients.
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
			if st.forward, err = graph.Compile(m.model.Instance, g, st.out, nil); err != nil {
				return err
			}
			g, e = m.graph(sh)
			out, given := m.out(g, e, at)
			cost := graph.SurrogateLoss(g, out[0], given[0])
			for i := 1; i < len(out); i++ {
				cost = g.Add(cost, graph.SurrogateLoss(g, out[i], given[i]))
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
			if st.backward, err = graph.Compile(m.model.Instance, g, retain, targets); err != nil {
				return err
			}
			all = append(all, st)
		}
		return nil
	})
	m.programs[sh] = all
	return all, err
}

// gradients adds the gradients of a cost to a graph: of the inputs that it depends on, and of parameters, with the
// targets to which they are added.
func (m *micro) gradients(g *graph.Graph, cost *graph.Node, inputs ...*graph.Node) (of map[*graph.Node]*graph.Node,
	targets []graph.Target, err error) {
	p, needs := m.model.Instance.Params, graph.Ancestors(g, cost)
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

// inputs returns the embeddings of n pairs in the graph of the loss.
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

// wholeNorms returns the compiled batch norms of n pairs.
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
			if w.forward, err = graph.Compile(m.norms, g, nil, []graph.Target{{Node: y, Into: made}}); err != nil {
				return err
			}
			g, x, y := build(true)
			of, targets, err := m.gradients(g,
				graph.SurrogateLoss(g, y, g.Input(gradientOf(at, 0), y.Shape().Clone()...)), x)
			if err != nil {
				return err
			}
			targets = append(targets, graph.Target{Node: of[x], Into: made})
			if w.backward, err = graph.Compile(m.norms, g, nil, targets); err != nil {
				return err
			}
			all = append(all, w)
		}
		return nil
	})
	m.whole[n] = all
	return all, err
}

// keep allocates memory for the values of n pairs, and reports whether the values have moved and graphs must be
// compiled again.
func (m *micro) keep(n int) (moved bool, err error) {
	if m == nil || n <= m.room {
		return false, nil
	}
	dev := m.model.Instance.Dev
	alloc := func(v *device.View, size int) error {
		if v.Present() {
			dev.Free(v.Buf)
			*v = device.View{}
		}
		if err := device.AllocViews(dev, device.Float, size, v); err != nil {
			return fmt.Errorf("allocate the values of %d pairs (train.micro_batch): %w", n, err)
		}
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

// reserve compiles the graphs of steps on pairs with captions in a bucket, except for the loss.
func (m *micro) reserve(sh models.Shape) error {
	if m == nil {
		return nil
	}
	if _, err := m.wholeNorms(sh.N); err != nil {
		return err
	}
	_, err := m.stages(models.Shape{N: min(m.size, sh.N), Bucket: sh.Bucket, All: sh.All})
	return err
}

// bytes returns the memory in use.
func (m *micro) bytes() (n int64) {
	if m == nil {
		return 0
	}
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

// views returns the buffers.
func (k *kept) views() []*device.View {
	all := []*device.View{&k.value, &k.gradient}
	if k.cut {
		all = append(all, &k.made)
	}
	return all
}
