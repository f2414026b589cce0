package cuda

import (
	"slices"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda/driver"
)

// normViews are what both kernels of batch normalisation read.
func (d *dev) normViews(a device.BatchNorm) (x, w, mean, inv, pad, counts driver.Ptr) {
	if a.Counts.Bounded {
		counts = d.pointer(a.Counts.View)
	}
	x, w = d.pointer(a.X), d.pointer(a.Weight)
	mean, inv = d.pointer(a.Mean), d.pointer(a.InvStd)
	if a.Pads > 0 || a.Pad.Present() && (a.Counts.Bounded || d.job.divided()) {
		pad = d.pointer(a.Pad)
	}
	return x, w, mean, inv, pad, counts
}

// channelBlocks is the least number of blocks of batch normalisation, and channelPieces the largest number of blocks
// for the same channels. They are the same on every GPU, and so are the sums.
const channelBlocks, channelPieces = 1056, 32

// pieces divides the positions of a channel into n pieces of per positions.
func pieces(a device.BatchNorm) (n, per int) {
	groups, count := a.C, a.Outer*a.Inner
	if a.Inner == 1 {
		groups = (a.C + 31) / 32
	}
	n = max(1, min((channelBlocks+groups-1)/groups, channelPieces, count/64))
	per = max(1, (count+n-1)/n)
	return max(1, (count+per-1)/per), per
}

// channels begins the call of a kernel over n pieces of all channels, with 32 channels in a block if rows are dense,
// else one.
func (d *dev) channels(k string, a device.BatchNorm, n int) *command {
	if a.Inner == 1 {
		return d.start(k, threads, (a.C+31)/32, n, 1)
	}
	c := d.rows(k, a.C, a.Outer*a.Inner)
	c.launch.Grid[1] = uint32(n)
	return c
}

// normTold is the number of four-byte values of a batch normalisation that a rank tells the others (batch_norm_whole).
func normTold(channels int) int { return 2 * (3 + 2*channels) }

// wholeNorm returns what all ranks tell each other; this rank's values follow from part, the sums of its pieces.
func (j *job) wholeNorm(a device.BatchNorm, part, counts driver.Ptr, n, per int, sums bool) driver.Ptr {
	items, most := 0, int32(0)
	if a.Pad.Present() && len(a.Counts.Host) > 0 {
		items, most = len(a.Counts.Host), slices.Max(a.Counts.Host)
	}
	whole, own := j.told(normTold(a.C))
	j.on.each("batch_norm_whole", a.C).ptr(own, part, counts).
		int(items, int(most), a.Outer*a.Inner, a.C, n, per).flag(sums)
	j.tell(whole, own, normTold(a.C))
	return whole
}

// BatchNorm computes the statistics over the batches of all ranks.
func (d *dev) BatchNorm(a device.BatchNorm) {
	x, w, mean, inv, pad, counts := d.normViews(a)
	y, b, plus := d.pointer(a.Y), d.pointer(a.Bias), d.pointer(a.Plus)
	rm, rv := d.pointer(a.RunningMean), d.pointer(a.RunningVar)
	n, per := pieces(a)
	items, count := len(a.Counts.Host), a.Outer*a.Inner
	var part driver.Ptr
	if a.Train {
		part = d.need(scratchSums, 8*2*n*a.C)
		d.channels("batch_norm_parts", a, n).ptr(part, x, counts).int(items, count, a.C, a.Inner, per)
		if d.job.divided() {
			part = d.wholeNorm(a, part, counts, n, per, false)
		}
	}
	var copy driver.Ptr
	if plus != 0 { // layers follow residual connections
		copy = d.operandCopy(y, count*a.C)
	}
	d.channels("batch_norm", a, n).ptr(y, copy, mean, inv, rm, rv, part, x, plus, w, b, pad, counts).
		int(items, count, a.C, a.Inner, a.Pads).flag(a.Train).int(per, d.job.ranks).float(a.Eps, a.Momentum)
	d.fresh(copy, y, count*a.C)
}

func (d *dev) BatchNormGrad(a device.BatchNorm) {
	x, w, mean, inv, pad, counts := d.normViews(a)
	dy, dx := d.pointer(a.DY), d.pointer(a.DX)
	dw, db, dpad := d.pointer(a.DWeight), d.pointer(a.DBias), d.pointer(a.DPad)
	n, per := pieces(a)
	items, count := len(a.Counts.Host), a.Outer*a.Inner
	part := d.need(scratchSums, 8*2*n*a.C)
	d.channels("batch_norm_grad_parts", a, n).ptr(part, x, mean, dy, counts).int(items, count, a.C, a.Inner, per)
	if a.Train && d.job.divided() {
		part = d.wholeNorm(a, part, counts, n, per, true)
	}
	grid, ranks := n, 1
	if a.Train {
		ranks = d.job.ranks
	}
	if dx == 0 {
		grid = 1
	}
	d.channels("batch_norm_grad", a, grid).ptr(dx, dw, db, dpad, part, x, w, mean, inv, dy, pad, counts).
		int(items, count, a.C, a.Inner, a.Pads).flag(a.Train).int(per, n, ranks, d.job.rank)
}
