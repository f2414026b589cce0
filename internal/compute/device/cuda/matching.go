package cuda

import (
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda/driver"
)

func (d *dev) PolarWeights(a device.PolarWeights) {
	pairs := a.B * a.R * a.R
	out := d.pointer(a.Weights)
	to := out
	if a.Sum {
		to = d.need(scratchHidden, 4*pairs*a.K)
	}
	d.each("polar_weights", pairs).ptr(to).of(a.Boxes, a.MeanRho, a.MeanTheta, a.PrecisionRho, a.PrecisionTheta).
		int(a.R, a.K).long(pairs)
	if a.Sum {
		d.sumSlices(out, to, a.K, a.R, a.B*a.R*a.K, false)
	}
}

// sumSlices sets dst [outer, inner], of count values, to the sum over the slices of x [outer, slices, inner], or with
// add adds the sum.
func (d *dev) sumSlices(dst, x driver.Ptr, inner, slices, count int, add bool) {
	d.each("sum_slices", count).ptr(dst, x).long(inner).int(slices).long(count).flag(add)
}

func (d *dev) PolarWeightsGrad(a device.PolarWeights) {
	pairs := a.B * a.R * a.R
	blocks := (pairs + threads - 1) / threads
	part := d.need(scratchSums, 8*blocks*4*a.K)
	d.start("polar_grad", threads, blocks, 1, 1).ptr(part).
		of(a.DWeights, a.Boxes, a.MeanRho, a.MeanTheta, a.PrecisionRho, a.PrecisionTheta).int(a.R, a.K).flag(a.Sum).
		long(pairs)
	d.rows("polar_sums", 4*a.K, blocks).of(a.DMeanRho, a.DMeanTheta, a.DPrecisionRho, a.DPrecisionTheta).ptr(part).
		int(blocks, a.K)
}

func (d *dev) ScaleBlocks(a device.ScaleBlocks) { d.scaleBlocks(a, a.Y, a.X) }

func (d *dev) scaleBlocks(a device.ScaleBlocks, y, x device.View) {
	n, fours := a.X.N, countsFours(d, a.H, y, x)
	d.each("scale_blocks", countOf(n, fours)).of(y, x, a.Factors).long(a.B*a.N*a.H, a.N*a.H).int(a.H).long(n).
		flag(fours)
}

// countsFours reports whether kernels read vectors of the same length, in rows of the given width, four values at a
// time, with 32-bit indices.
func countsFours(d *dev, width int, of ...device.View) bool {
	aligned := of[0].N < 1<<31
	for _, v := range of {
		aligned = aligned && inFours(width, d.pointer(v))
	}
	return aligned
}

// countOf is the number of units of a kernel over n values, which reads four at a time or one.
func countOf(n int, fours bool) int {
	if fours {
		return n / 4
	}
	return n
}

func (d *dev) ScaleBlocksGrad(a device.ScaleBlocks) {
	if a.DX.Present() {
		d.scaleBlocks(a, a.DX, a.DY)
	}
	if a.DFactors.Present() {
		n := a.A * a.N
		d.start("scale_blocks_factors", threads, min((n+31)/32, 2048), 1, 1).of(a.DFactors, a.X, a.DY).
			int(a.B, a.N, a.H).long(n).flag(countsFours(d, a.H, a.X, a.DY))
	}
}
