package cuda

import (
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda/driver"
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

func (d *dev) polar(a device.PolarWeights) (p polar) {
	p.pairs = a.B * a.R * a.R
	p.weights = p.pairs * a.K
	if a.Sum {
		p.weights = a.B * a.R * a.K
	}
	p.boxes = d.pointer(a.Boxes)
	p.rho, p.theta = d.pointer(a.MeanRho), d.pointer(a.MeanTheta)
	p.rhoWidth, p.thetaWidth = d.pointer(a.PrecisionRho), d.pointer(a.PrecisionTheta)
	return p
}

// PolarWeights computes that kernel.
func (d *dev) PolarWeights(a device.PolarWeights) {
	p := d.polar(a)
	out := d.pointer(a.Weights)
	to := out
	if a.Sum {
		to = d.need(scratchHidden, 4*p.pairs*a.K)
	}
	d.each(kernelPolarWeights, p.pairs).ptr(to, p.boxes, p.rho, p.theta, p.rhoWidth, p.thetaWidth).int(a.R,
		a.K).long(p.pairs)
	if a.Sum {
		d.sumSlices(out, to, a.K, a.R, p.weights, false)
	}
}

// sumSlices sets dst [outer, inner], of count values, to the sum over the slices of x [outer, slices, inner], or adds
// it.
func (d *dev) sumSlices(dst, x driver.Ptr, inner, slices, count int, add bool) {
	d.each(kernelSumSlices, count).ptr(dst, x).long(inner).int(slices).long(count).flag(add)
}

// PolarWeightsGrad computes that kernel.
func (d *dev) PolarWeightsGrad(a device.PolarWeights) {
	p := d.polar(a)
	dw := d.pointer(a.DWeights)
	p.dRho, p.dTheta = d.pointer(a.DMeanRho), d.pointer(a.DMeanTheta)
	p.dRhoWidth, p.dThetaWid = d.pointer(a.DPrecisionRho), d.pointer(a.DPrecisionTheta)
	blocks := (p.pairs + threads - 1) / threads
	part := d.need(scratchSums, 8*blocks*4*a.K)
	d.start(kernelPolarGrad, threads, blocks, 1, 1).ptr(part, dw, p.boxes, p.rho, p.theta, p.rhoWidth,
		p.thetaWidth).int(a.R, a.K).flag(a.Sum).long(p.pairs)
	d.rows(kernelPolarSums, 4*a.K, blocks).ptr(p.dRho, p.dTheta, p.dRhoWidth, p.dThetaWid, part).int(blocks, a.K)
}

// ScaleBlocks computes that kernel.
func (d *dev) ScaleBlocks(a device.ScaleBlocks) {
	d.scaleBlocks(a, d.pointer(a.Y), d.pointer(a.X))
}

func (d *dev) scaleBlocks(a device.ScaleBlocks, y, x driver.Ptr) {
	count, factors := a.X.N, d.pointer(a.Factors)
	d.each(kernelScaleBlocks, count).ptr(y, x, factors).long(a.B*a.N*a.H, a.N*a.H).int(a.H).long(count)
}

// ScaleBlocksGrad computes that kernel.
func (d *dev) ScaleBlocksGrad(a device.ScaleBlocks) {
	dy := d.pointer(a.DY)
	if dx := d.pointer(a.DX); dx != 0 {
		d.scaleBlocks(a, dx, dy)
	}
	if df := d.pointer(a.DFactors); df != 0 {
		d.each(kernelScaleFactors, a.A*a.N).ptr(df, d.pointer(a.X), dy).int(a.B, a.N, a.H).long(a.A * a.N)
	}
}
