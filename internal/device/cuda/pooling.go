package cuda

import (
	"vsetrain/internal/device"
	"vsetrain/internal/device/cuda/driver"
)

var (
	kernelPoolWeights     = entryOf("pool_weights")
	kernelPoolWeightsGrad = entryOf("pool_weights_grad")
	kernelItemStarts      = entryOf("item_starts")
	kernelSortPool        = entryOf("sort_pool")
	kernelSortPoolDX      = entryOf("sort_pool_dx")
	kernelSortPoolPart    = entryOf("sort_pool_part")
	kernelSortPoolTable   = entryOf("sort_pool_table")
)

// PoolWeights implements device.Pooling.
func (d *dev) PoolWeights(a device.PoolWeightsArgs) {
	a.Views(d.check("PoolWeights"))
	lengths, starts := d.starts(a.Lengths)
	b := len(a.Lengths.Host)
	w, s := d.pointer(a.Weights), d.pointer(a.Scores)
	if b > 0 {
		d.rows(kernelPoolWeights, b, a.L).ptr(w, s, lengths, starts).int(a.L).float(1 / a.Temperature)
	}
}

// PoolWeightsGrad implements device.Pooling.
func (d *dev) PoolWeightsGrad(a device.PoolWeightsArgs) {
	a.Views(d.check("PoolWeightsGrad"))
	lengths, starts := d.starts(a.Lengths)
	b := len(a.Lengths.Host)
	w, dw := d.pointer(a.Weights), d.pointer(a.DWeights)
	ds := d.pointer(a.DScores)
	if b > 0 {
		d.rows(kernelPoolWeightsGrad, b, a.L).ptr(ds, w, dw, lengths, starts).int(a.L).float(1 / a.Temperature)
		d.clearTail(ds, a.Lengths, lengths, 1)
	}
}

// sortViews are the views that both directions of the sorted pooling share.
type sortViews struct {
	items, rows                  int
	x, w, ranks, lengths, starts driver.Ptr
}

func (d *dev) sortViews(a device.SortPoolArgs) (v sortViews) {
	v.items = len(a.Lengths.Host)
	for _, n := range a.Lengths.Host {
		v.rows += int(n)
	}
	v.x, v.w = d.pointer(a.X), d.pointer(a.Weights)
	v.ranks = d.pointer(a.Ranks)
	if a.Packed {
		v.lengths, v.starts = d.starts(a.Lengths)
	} else if v.lengths = d.pointer(a.Lengths.View); v.items > 0 {
		v.starts = d.need(scratchStarts, 4*v.items)
		d.each(kernelItemStarts, v.items).ptr(v.starts, v.lengths).int(v.items)
	}
	return v
}

// perItem begins a kernel over the channels of every item.
func (d *dev) perItem(k kernel, items, channels int) *command {
	return d.start(k, threads, blocksFor(channels), items, 1)
}

// SortPool implements device.Pooling.
func (d *dev) SortPool(a device.SortPoolArgs) {
	a.Views(d.check("SortPool"))
	v := d.sortViews(a)
	y := d.pointer(a.Y)
	if v.items > 0 {
		d.perItem(kernelSortPool, v.items, a.D).ptr(y, v.ranks, v.x, v.w, v.lengths, v.starts).flag(a.Packed).int(a.D,
			a.K)
	}
}

// SortPoolGrad implements device.Pooling.
func (d *dev) SortPoolGrad(a device.SortPoolArgs) {
	a.Views(d.check("SortPoolGrad"))
	v := d.sortViews(a)
	dy := d.pointer(a.DY)
	dx, table := d.pointer(a.DX), d.pointer(a.DWeights)
	if dx != 0 && v.items > 0 {
		d.perItem(kernelSortPoolDX, v.items, a.D).ptr(dx, dy, v.ranks, v.w, v.lengths, v.starts).flag(a.Packed).int(a.D,
			a.K)
		d.clearTail(dx, a.Lengths, v.lengths, a.D)
	}
	if table == 0 {
		return
	}
	part := d.need(scratchSums, 8*max(1, v.items*a.K))
	if v.items > 0 {
		c := d.rows(kernelSortPoolPart, a.K, a.D).ptr(part, dy, v.x, v.ranks, v.lengths,
			v.starts).flag(a.Packed).int(a.D, a.K)
		c.launch.Grid[1] = uint32(v.items)
	}
	d.each(kernelSortPoolTable, a.K*a.K).ptr(table, part, v.lengths).int(v.items, a.K)
}
