package cuda

import (
	"vsetrain/internal/device"
	"vsetrain/internal/device/cuda/driver"
)

var (
	kernelFilterStatistics     = entryOf("filter_statistics")
	kernelFilterRunning        = entryOf("filter_running")
	kernelFilterWeights        = entryOf("filter_weights")
	kernelFilterSums           = entryOf("filter_sums")
	kernelFilterSumsGrad       = entryOf("filter_sums_grad")
	kernelFilterStatisticsGrad = entryOf("filter_statistics_grad")
	kernelFilterFinish         = entryOf("filter_finish")
)

// filterViews are the views of both directions of the filtration; rows and pairs count nodes and captions of all images.
type filterViews struct {
	pairLayout
	rows, pairs                                            int
	x, gamma, beta, out, logits, weights, mean, inv, norms driver.Ptr
}

func (d *dev) filterViews(what string, a device.FilterArgs) (v filterViews) {
	positive(what, a.B, a.S)
	v.pairLayout = d.layout(what, a.Lengths, 0)
	v.rows, v.pairs = a.B*v.nodes, a.B*v.captions
	v.x, v.out = d.floats(what, a.X, v.rows*a.S), d.floats(what, a.Out, v.pairs*a.S)
	v.gamma, v.beta = d.floats(what, a.Gamma, 1), d.floats(what, a.Beta, 1)
	v.logits, v.weights = d.floats(what, a.Logits, v.rows), d.floats(what, a.Weights, v.rows)
	v.mean, v.inv = d.floats(what, a.Mean, v.captions), d.floats(what, a.InvStd, v.captions)
	v.norms = d.floats(what, a.Norms, v.pairs)
	return v
}

// Filtrate implements device.Pairs.
func (d *dev) Filtrate(a device.FilterArgs) {
	v := d.filterViews("Filtrate", a)
	mean, variance := d.floats("Filtrate RunningMean", a.RunningMean, 1), d.floats("Filtrate RunningVar", a.RunningVar, 1)
	if v.captions == 0 {
		return
	}
	each := d.need(scratchSums, 8*v.captions) // variance of each caption
	d.start(kernelFilterStatistics, threads, v.captions, 1, 1).ptr(v.mean, v.inv, each, mean, variance, v.logits, v.first).int(a.B, v.nodes).flag(a.Train).float(a.Eps)
	if a.Train {
		d.start(kernelFilterRunning, 32, 1, 1, 1).ptr(mean, variance, v.mean, each, v.first).int(v.captions, a.B).float(a.Momentum)
	}
	d.warps(kernelFilterWeights, v.pairs).ptr(v.weights, v.logits, v.mean, v.inv, v.gamma, v.beta, v.first).int(v.captions, v.nodes).long(v.pairs)
	d.warps(kernelFilterSums, v.pairs).ptr(v.out, v.norms, v.weights, v.x, v.first).int(v.captions, v.nodes, a.S).long(v.pairs)
}

// FiltrateGrad implements device.Pairs.
func (d *dev) FiltrateGrad(a device.FilterArgs) {
	const what = "FiltrateGrad"
	v := d.filterViews(what, a)
	dOut, dr, dz := d.floats(what+" DOut", a.DOut, v.pairs*a.S), d.floats(what+" DSums", a.DSums, v.pairs*a.S), d.floats(what+" DLogits", a.DLogits, v.rows)
	dBias, dGamma, dBeta := d.floats(what+" DBias", a.DBias, 1), d.floats(what+" DGamma", a.DGamma, 1), d.floats(what+" DBeta", a.DBeta, 1)
	if v.captions == 0 {
		for _, p := range [3]driver.Ptr{dBias, dGamma, dBeta} {
			d.fill(p, 4, 0)
		}
		return
	}
	sums := d.need(scratchSums, 8*3*v.captions)
	d.warps(kernelFilterSumsGrad, v.pairs).ptr(dr, dz, v.x, v.logits, v.weights, v.mean, v.inv, v.gamma, v.beta, v.out, dOut, v.norms, v.first).
		int(v.captions, v.nodes, a.S).long(v.pairs)
	d.start(kernelFilterStatisticsGrad, threads, v.captions, 1, 1).ptr(dz, sums, v.logits, v.mean, v.inv, v.gamma, v.first).int(v.captions, a.B, v.nodes).flag(a.Train)
	d.start(kernelFilterFinish, threads, 1, 1, 1).ptr(dBias, dGamma, dBeta, sums).int(v.captions)
}
