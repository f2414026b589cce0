package train

import (
	"slices"

	"vsetrain/batch"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/graph"
	"vsetrain/models"
)

// microBatch is a part of a batch.
type microBatch struct {
	lo, hi  int // pairs of this rank
	regions int // regions before it
	rows    int // its regions
}

// parts divides the pairs of this rank into micro-batches of nearly the same size. Captions stay sorted by length.
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

// of returns the part of a value of the whole batch that belongs to a micro-batch, with capacity including the unused
// rows that a graph has for it.
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
	if len(b.FeatureRows) > 0 {
		images.FeatureRows = b.FeatureRows[p.lo:p.hi]
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
	in.SetPositions(b.Positions[p.lo:p.hi])
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

// captionsOf returns the captions of a micro-batch.
func (m *micro) captionsOf(p *microBatch) batch.Captions {
	c := batch.Captions{Words: m.pairs.Words[p.lo:p.hi], Lengths: m.pairs.Lengths[p.lo:p.hi]}
	if len(m.pairs.Indices) > 0 {
		c.Indices = m.pairs.Indices[p.lo:p.hi]
	}
	return c
}

// shape returns the shape of a micro-batch.
func (m *micro) shape(p *microBatch) models.Shape {
	return models.Shape{N: p.hi - p.lo, Bucket: models.Bucket(int(m.pairs.Lengths[p.lo])),
		All: len(m.pairs.Whole().Lengths)}
}

// take sets the pairs of the step.
func (m *micro) take(b *batch.Pairs) error {
	items := m.pairs.Positions
	if m.pairs = *b; b.Positions == nil { // all pairs in order
		for len(items) < b.N {
			items = append(items, int32(len(items)))
		}
		m.pairs.Positions = items
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

// run computes the gradients of a batch. vm computes its loss.
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
	for at := range len(m.cuts) + 1 {
		if err := m.forward(at); err != nil {
			return err
		}
		whole := vm
		if at < len(m.cuts) {
			whole = norms[at].forward
		}
		if err := m.do(whole); err != nil {
			return err
		}
	}
	for at := len(m.cuts); at >= 0; at-- {
		if at < len(m.cuts) {
			if err := m.do(norms[at].backward); err != nil {
				return err
			}
		}
		if err := m.backward(at); err != nil {
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

// each calls do with the graphs of a stage for every micro-batch, after it has set their inputs.
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

// forward computes the forward pass of a stage.
func (m *micro) forward(at int) error {
	dev := m.model.Instance.Dev
	return m.each(at, func(p *microBatch, st *stage) error {
		if err := m.do(st.forward); err != nil {
			return err
		}
		to := []*kept{&m.images, &m.captions}
		if at < len(m.cuts) {
			to = []*kept{&m.cuts[at]}
		}
		for i, n := range st.out {
			v := p.of(to[i], to[i].value, false)
			device.Do(dev, device.Copy{Dst: v, Src: st.forward.View(n).Slice(0, v.N)})
		}
		return nil
	})
}

// backward adds the gradients of a stage.
func (m *micro) backward(at int) error {
	dev := m.model.Instance.Dev
	return m.each(at, func(p *microBatch, st *stage) error {
		if err := m.do(st.backward); err != nil {
			return err
		}
		for i, n := range st.before {
			v := p.of(&m.cuts[i], m.cuts[i].gradient, false)
			device.Do(dev, device.Add{Dst: v, A: v, B: st.backward.View(n).Slice(0, v.N)})
		}
		if st.captioning != nil && at == len(m.cuts) {
			device.Do(dev, device.Add{Dst: m.captioned, A: m.captioned, B: st.backward.View(st.captioning)})
		}
		return nil
	})
}
