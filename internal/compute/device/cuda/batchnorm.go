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

// channelBlocks is how many blocks batch normalisation is divided into, at least, and channelPieces how many of them
// work on the same channels, at most. They are the same on every GPU, and so are the sums.
const channelBlocks, channelPieces = 1056, 32

// pieces divides the positions of every channel into pieces of per.
func pieces(a device.BatchNorm) (n, per int) {
	groups, count := a.C, a.Outer*a.Inner
	if a.Inner == 1 {
		groups = (a.C + 31) / 32
	}
	n = max(1, min((channelBlocks+groups-1)/groups, channelPieces, count/64))
	per = max(1, (count+n-1)/n)
	return max(1, (count+per-1)/per), per
}

// channels begins a kernel over n pieces of all channels: 32 channels to a block where rows are dense, one otherwise.
func (d *dev) channels(k string, a device.BatchNorm, n int) *command {
	if a.Inner == 1 {
		return d.start(k, threads, (a.C+31)/32, n, 1)
	}
	c := d.rows(k, a.C, a.Outer*a.Inner)
	c.launch.Grid[1] = uint32(n)
	return c
}

// normTold is how many values of 4 bytes a rank tells the others of a batch normalisation (batch_norm_whole).
func normTold(channels int) int { return 2 * (3 + 2*channels) }

// wholeNorm is what all ranks tell of a batch normalisation, this one from part, the sums of its pieces.
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

// BatchNorm computes that kernel. Of several ranks the statistics are computed over the batches of all.
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
	if plus != 0 { // layers follow a residual connection
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
