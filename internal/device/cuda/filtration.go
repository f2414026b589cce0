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

// filterViews are the views of both directions of the filtration; rows and pairs count nodes and captions of all
// images.
type filterViews struct {
	pairLayout
	rows, pairs                                            int
	x, gamma, beta, out, logits, weights, mean, inv, norms driver.Ptr
}

func (d *dev) filterViews(a device.FilterArgs) (v filterViews) {
	v.pairLayout = d.layout(a.Lengths)
	v.rows, v.pairs = a.B*v.nodes, a.B*v.captions
	v.x, v.out = d.pointer(a.X), d.pointer(a.Out)
	v.gamma, v.beta = d.pointer(a.Gamma), d.pointer(a.Beta)
	v.logits, v.weights = d.pointer(a.Logits), d.pointer(a.Weights)
	v.mean, v.inv = d.pointer(a.Mean), d.pointer(a.InvStd)
	v.norms = d.pointer(a.Norms)
	return v
}

// Filtrate implements device.Pairs.
func (d *dev) Filtrate(a device.FilterArgs) {
	a.Views(d.check("Filtrate"))
	v := d.filterViews(a)
	mean, variance := d.pointer(a.RunningMean), d.pointer(a.RunningVar)
	if v.captions == 0 {
		return
	}
	each := d.need(scratchSums, 8*v.captions) // variance of each caption
	d.start(kernelFilterStatistics, threads, v.captions, 1, 1).ptr(v.mean, v.inv, each, mean, variance, v.logits,
		v.first).int(a.B, v.nodes).flag(a.Train).float(a.Eps)
	if a.Train {
		d.start(kernelFilterRunning, 32, 1, 1, 1).ptr(mean, variance, v.mean, each, v.first).int(v.captions,
			a.B).float(a.Momentum)
	}
	d.warps(kernelFilterWeights, v.pairs).ptr(v.weights, v.logits, v.mean, v.inv, v.gamma, v.beta,
		v.first).int(v.captions, v.nodes).long(v.pairs)
	d.warps(kernelFilterSums, v.pairs).ptr(v.out, v.norms, v.weights, v.x, v.first).int(v.captions, v.nodes,
		a.S).long(v.pairs)
}

// FiltrateGrad implements device.Pairs.
func (d *dev) FiltrateGrad(a device.FilterArgs) {
	a.Views(d.check("FiltrateGrad"))
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
	d.warps(kernelFilterSumsGrad, v.pairs).ptr(dr, dz, v.x, v.logits, v.weights, v.mean, v.inv, v.gamma, v.beta, v.out,
		dOut, v.norms, v.first).
		int(v.captions, v.nodes, a.S).long(v.pairs)
	d.start(kernelFilterStatisticsGrad, threads, v.captions, 1, 1).ptr(dz, sums, v.logits, v.mean, v.inv, v.gamma,
		v.first).int(v.captions, a.B, v.nodes).flag(a.Train)
	d.start(kernelFilterFinish, threads, 1, 1, 1).ptr(dBias, dGamma, dBeta, sums).int(v.captions)
}
