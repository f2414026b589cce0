package cuda

import (
	"vsetrain/internal/device"
	"vsetrain/internal/device/cuda/driver"
)

var (
	kernelPolarWeights = entryOf("polar_weights")
	kernelPolarGrad    = entryOf("polar_grad")
	kernelPolarSums    = entryOf("polar_sums")
	kernelSumSlices    = entryOf("sum_slices")
	kernelScaleBlocks  = entryOf("scale_blocks")
	kernelScaleFactors = entryOf("scale_blocks_factors")
)

// polar are the sizes and the addresses of polar kernels.
type polar struct {
	pairs, weights                     int
	boxes                              driver.Ptr
	rho, theta, rhoWidth, thetaWidth   driver.Ptr
	dRho, dTheta, dRhoWidth, dThetaWid driver.Ptr
}

func (d *dev) polar(what string, a device.PolarArgs) (p polar) {
	positive(what, a.B, a.R, a.K)
	p.pairs = a.B * a.R * a.R
	p.weights = p.pairs * a.K
	if a.Sum {
		p.weights = a.B * a.R * a.K
	}
	p.boxes = d.floats("PolarWeights Boxes", a.Boxes, a.B*a.R*4)
	p.rho, p.theta = d.floats("PolarWeights MeanRho", a.MeanRho, a.K), d.floats("PolarWeights MeanTheta", a.MeanTheta, a.K)
	p.rhoWidth, p.thetaWidth = d.floats("PolarWeights PrecisionRho", a.PrecisionRho, a.K), d.floats("PolarWeights PrecisionTheta", a.PrecisionTheta, a.K)
	return p
}

// PolarWeights implements device.Matching.
func (d *dev) PolarWeights(a device.PolarArgs) {
	p := d.polar("PolarWeights", a)
	out := d.floats("PolarWeights Weights", a.Weights, p.weights)
	to := out
	if a.Sum {
		to = d.need(scratchHidden, 4*p.pairs*a.K)
	}
	d.each(kernelPolarWeights, p.pairs).ptr(to, p.boxes, p.rho, p.theta, p.rhoWidth, p.thetaWidth).int(a.R, a.K).long(p.pairs)
	if a.Sum {
		d.sumSlices(out, to, a.K, a.R, p.weights, false)
	}
}

// sumSlices sets dst [outer, inner], of count values, to the sum over the slices of x [outer, slices, inner], or adds it.
func (d *dev) sumSlices(dst, x driver.Ptr, inner, slices, count int, add bool) {
	d.each(kernelSumSlices, count).ptr(dst, x).long(inner).int(slices).long(count).flag(add)
}

// PolarWeightsGrad implements device.Matching.
func (d *dev) PolarWeightsGrad(a device.PolarArgs) {
	p := d.polar("PolarWeightsGrad", a)
	dw := d.floats("PolarWeightsGrad DWeights", a.DWeights, p.weights)
	p.dRho, p.dTheta = d.floats("PolarWeightsGrad DMeanRho", a.DMeanRho, a.K), d.floats("PolarWeightsGrad DMeanTheta", a.DMeanTheta, a.K)
	p.dRhoWidth, p.dThetaWid = d.floats("PolarWeightsGrad DPrecisionRho", a.DPrecisionRho, a.K), d.floats("PolarWeightsGrad DPrecisionTheta", a.DPrecisionTheta, a.K)
	blocks := (p.pairs + threads - 1) / threads
	part := d.need(scratchSums, 8*blocks*4*a.K)
	d.start(kernelPolarGrad, threads, blocks, 1, 1).ptr(part, dw, p.boxes, p.rho, p.theta, p.rhoWidth, p.thetaWidth).int(a.R, a.K).flag(a.Sum).long(p.pairs)
	d.rows(kernelPolarSums, 4*a.K, blocks).ptr(p.dRho, p.dTheta, p.dRhoWidth, p.dThetaWid, part).int(blocks, a.K)
}

// ScaleBlocks implements device.Matching.
func (d *dev) ScaleBlocks(a device.ScaleArgs) {
	d.scaleBlocks("ScaleBlocks", a, d.floats("ScaleBlocks Y", a.Y, a.A*a.B*a.N*a.H), d.floats("ScaleBlocks X", a.X, a.A*a.B*a.N*a.H))
}

func (d *dev) scaleBlocks(what string, a device.ScaleArgs, y, x driver.Ptr) {
	positive(what, a.A, a.B, a.N, a.H)
	count, factors := a.A*a.B*a.N*a.H, d.floats("ScaleBlocks Factors", a.Factors, a.A*a.N)
	d.each(kernelScaleBlocks, count).ptr(y, x, factors).long(a.B*a.N*a.H, a.N*a.H).int(a.H).long(count)
}

// ScaleBlocksGrad implements device.Matching.
func (d *dev) ScaleBlocksGrad(a device.ScaleArgs) {
	positive("ScaleBlocksGrad", a.A, a.B, a.N, a.H)
	count := a.A * a.B * a.N * a.H
	dy := d.floats("ScaleBlocksGrad DY", a.DY, count)
	if dx := d.optional("ScaleBlocksGrad DX", a.DX, count); dx != 0 {
		d.scaleBlocks("ScaleBlocksGrad", a, dx, dy)
	}
	if df := d.optional("ScaleBlocksGrad DFactors", a.DFactors, a.A*a.N); df != 0 {
		d.each(kernelScaleFactors, a.A*a.N).ptr(df, d.floats("ScaleBlocksGrad X", a.X, count), dy).int(a.B, a.N, a.H).long(a.A * a.N)
	}
}
