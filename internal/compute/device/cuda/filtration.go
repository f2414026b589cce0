package cuda

import (
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda/driver"
)

// filterViews are the views of both passes of the filtration; rows and pairs count nodes and captions of all images.
type filterViews struct {
	pairLayout
	rows, pairs                                            int
	x, gamma, beta, out, logits, weights, mean, inv, norms driver.Ptr
}

func (d *dev) filterViews(a device.Filtrate) (v filterViews) {
	v.pairLayout = d.layout(a.Lengths)
	v.rows, v.pairs = a.B*v.nodes, a.B*v.captions
	v.x, v.out = d.pointer(a.X), d.pointer(a.Out)
	v.gamma, v.beta = d.pointer(a.Gamma), d.pointer(a.Beta)
	v.logits, v.weights = d.pointer(a.Logits), d.pointer(a.Weights)
	v.mean, v.inv = d.pointer(a.Mean), d.pointer(a.InvStd)
	v.norms = d.pointer(a.Norms)
	return v
}

// filterTold is the number of four-byte values of a filtration that a rank tells the others.
func filterTold(captions int) int { return 2 * (1 + 2*captions) }

// Filtrate computes the statistics of a caption over the images of all ranks.
func (d *dev) Filtrate(a device.Filtrate) {
	v := d.filterViews(a)
	mean, variance := d.pointer(a.RunningMean), d.pointer(a.RunningVar)
	if v.captions == 0 {
		return
	}
	each := d.need(scratchSums, 8*v.captions) // variance of each caption
	var whole, own driver.Ptr
	if a.Train && d.job.divided() {
		whole, own = d.told(filterTold(v.captions))
	}
	d.start("filter_statistics", threads, v.captions, 1, 1).ptr(v.mean, v.inv, each, own, mean, variance, v.logits,
		v.first).int(a.B, v.nodes).flag(a.Train).float(a.Eps)
	if whole != 0 {
		d.tell(whole, own, filterTold(v.captions))
		d.each("filter_whole", v.captions).ptr(v.mean, v.inv, each, whole, v.first).int(v.captions,
			d.job.ranks).float(a.Eps)
	}
	if a.Train {
		d.start("filter_running", 32, 1, 1, 1).ptr(mean, variance, v.mean, each, whole, v.first).int(v.captions,
			a.B, d.job.ranks).float(a.Momentum)
	}
	d.warps("filter_weights", v.pairs).ptr(v.weights, v.logits, v.mean, v.inv, v.gamma, v.beta,
		v.first).int(v.captions, v.nodes).long(v.pairs)
	d.warps("filter_sums", v.pairs).ptr(v.out, v.norms, v.weights, v.x, v.first).int(v.captions, v.nodes,
		a.S).long(v.pairs)
}

func (d *dev) FiltrateGrad(a device.Filtrate) {
	v := d.filterViews(a)
	dOut, dr, dz := d.pointer(a.DOut), d.pointer(a.DSums), d.pointer(a.DLogits)
	dBias, dGamma, dBeta := d.pointer(a.DBias), d.pointer(a.DGamma), d.pointer(a.DBeta)
	if v.captions == 0 {
		for _, p := range [3]driver.Ptr{dBias, dGamma, dBeta} {
			d.fill(p, 4, 0)
		}
		return
	}
	sums := d.need(scratchSums, 8*3*v.captions)
	d.warps("filter_sums_grad", v.pairs).ptr(dr, dz, v.x, v.logits, v.weights, v.mean, v.inv, v.gamma, v.beta, v.out,
		dOut, v.norms, v.first).
		int(v.captions, v.nodes, a.S).long(v.pairs)
	var whole driver.Ptr
	statistics := func(own, whole driver.Ptr) {
		d.start("filter_statistics_grad", threads, v.captions, 1, 1).ptr(dz, sums, own, whole, v.logits, v.mean,
			v.inv, v.gamma, v.first).int(v.captions, a.B, v.nodes).flag(a.Train).int(d.job.ranks)
	}
	if a.Train && d.job.divided() {
		var own driver.Ptr
		whole, own = d.told(filterTold(v.captions))
		statistics(own, 0)
		d.tell(whole, own, filterTold(v.captions))
	}
	statistics(0, whole)
	d.start("filter_finish", threads, 1, 1, 1).ptr(dBias, dGamma, dBeta, sums).int(v.captions)
}

// filterColumns is the largest vector of filter_pairs.
const filterColumns = 256

// FiltrateSimilarities writes W z of all captions where their nodes would be, and W z of the words of a tile of images
// to scratch memory.
func (d *dev) FiltrateSimilarities(of device.FiltrateSimilarities) bool {
	a, w, c := of.Filtrate, d.similarities(of.Words), d.similarities(of.Captions)
	if a.Train || a.S > filterColumns || w.rows == 0 {
		return false
	}
	out, filter := d.pointer(a.Out), &w.filter
	wordBias, captionBias := d.pointer(of.Words.Bias), d.pointer(of.Captions.Bias)
	gamma, beta := d.pointer(a.Gamma), d.pointer(a.Beta)
	mean, variance := d.pointer(a.RunningMean), d.pointer(a.RunningVar)
	floats := func(s *similarities, inner int) int { // of an image
		single, half := s.squareFloats()
		s.tileI, s.tileR = d.tileOf(a.B, 4*s.rows*(single+half+inner), s.rows), s.rows
		return s.rows * (single + half + inner)
	}
	sizeW, sizeC := floats(&w, a.S), floats(&c, 0)
	base := d.workspace(max(w.packedFloats()+w.tileI*sizeW, c.tileI*sizeC))
	space := base
	c.cutSquares(&space, c.tileI*c.rows)
	for t := (similarityTile{}); c.next(&t); {
		c.inner = at(c.out, t.i0*c.rows*a.S)
		c.transform(d, &t)
	}
	space = base
	w.cutPacked(&space)
	w.cutSquares(&space, w.tileI*w.rows)
	w.inner = space.cut(w.tileI * w.rows * a.S)
	for t := (similarityTile{}); w.next(&t); {
		w.transform(d, &t)
		first, pairs := t.i0*c.rows*a.S, t.images*c.rows
		d.warps("filter_pairs", pairs).ptr(at(out, first), w.inner, at(c.out, first), wordBias, captionBias,
			filter.w, filter.bias, gamma, beta, mean, variance).float(a.Eps).ptr(w.first).int(c.rows, w.rows,
			a.S).long(pairs)
	}
	return true
}
