package cuda

import (
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda/driver"
)

func (d *dev) PoolWeights(a device.PoolWeights) {
	lengths, starts := d.starts(a.Lengths)
	d.rows("pool_weights", len(a.Lengths.Host), a.L).of(a.Weights, a.Scores).ptr(lengths, starts).int(a.L).
		float(1 / a.Temperature)
}

func (d *dev) PoolWeightsGrad(a device.PoolWeights) {
	lengths, starts := d.starts(a.Lengths)
	d.rows("pool_weights_grad", len(a.Lengths.Host), a.L).of(a.DScores, a.Weights, a.DWeights).ptr(lengths, starts).
		int(a.L).float(1 / a.Temperature)
	d.clearTail(d.pointer(a.DScores), a.Lengths, lengths, 1)
}

// sortViews are the views that both passes of the sorted pooling share.
type sortViews struct {
	items                        int
	x, w, ranks, lengths, starts driver.Ptr
}

func (d *dev) sortViews(a device.SortPool) (v sortViews) {
	v.items = len(a.Lengths.Host)
	v.x, v.w = d.pointer(a.X), d.pointer(a.Weights)
	v.ranks = d.pointer(a.Ranks)
	if a.Packed {
		v.lengths, v.starts = d.starts(a.Lengths)
	} else {
		c := d.captions(a.Lengths)
		v.lengths, v.starts = c.lengths, c.starts
	}
	return v
}

func (d *dev) SortPool(a device.SortPool) {
	v := d.sortViews(a)
	y := d.pointer(a.Y)
	if v.items > 0 {
		d.start("sort_pool", threads, (a.D+31)/32, v.items, 1).ptr(y, v.ranks, v.x, v.w, v.lengths,
			v.starts).flag(a.Packed).int(a.D, a.K)
	}
}

// sortPieces is the largest number of parts into which SortPoolGrad divides the channels of an item.
const sortPieces = 16

func (d *dev) SortPoolGrad(a device.SortPool) {
	v := d.sortViews(a)
	dy := d.pointer(a.DY)
	dx, table := d.pointer(a.DX), d.pointer(a.DWeights)
	pieces, part := max(1, min((a.D+31)/32, sortPieces)), driver.Ptr(0)
	if table != 0 {
		part = d.need(scratchSums, 8*max(1, v.items*pieces*a.K))
	}
	if v.items > 0 && (dx != 0 || table != 0) {
		d.start("sort_pool_grad", 32, pieces, v.items, 1).ptr(dx, part, dy, v.x, v.ranks, v.w, v.lengths,
			v.starts).flag(a.Packed).int(a.D, a.K)
		d.clearTail(dx, a.Lengths, v.lengths, a.D)
	}
	if table != 0 {
		d.start("sort_pool_table", 128, a.K, a.K, 1).ptr(table, part, v.lengths).int(v.items, pieces, a.K)
	}
}
