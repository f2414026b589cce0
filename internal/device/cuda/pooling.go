package cuda

import (
	"fmt"

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

func (d *dev) poolStarts(what string, a device.PoolWeightsArgs) (lengths, starts driver.Ptr) {
	positive(what, a.L)
	lengths, starts = d.starts(what, a.Lengths)
	if d.pack.Steps() > a.L || !(a.Temperature > 0) {
		panic(fmt.Sprintf("cuda: %s: a sequence of %d with room for L = %d, temperature %v", what, d.pack.Steps(), a.L, a.Temperature))
	}
	return lengths, starts
}

// PoolWeights implements device.Pooling.
func (d *dev) PoolWeights(a device.PoolWeightsArgs) {
	lengths, starts := d.poolStarts("PoolWeights", a)
	b := len(a.Lengths.Host)
	w, s := d.floats("PoolWeights Weights", a.Weights, b*a.L), d.floats("PoolWeights Scores", a.Scores, d.pack.Rows())
	if b > 0 {
		d.rows(kernelPoolWeights, b, a.L).ptr(w, s, lengths, starts).int(a.L).float(1 / a.Temperature)
	}
}

// PoolWeightsGrad implements device.Pooling.
func (d *dev) PoolWeightsGrad(a device.PoolWeightsArgs) {
	lengths, starts := d.poolStarts("PoolWeightsGrad", a)
	b := len(a.Lengths.Host)
	w, dw := d.floats("PoolWeightsGrad Weights", a.Weights, b*a.L), d.floats("PoolWeightsGrad DWeights", a.DWeights, b*a.L)
	ds := d.floats("PoolWeightsGrad DScores", a.DScores, d.pack.Rows())
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

func (d *dev) sortViews(what string, a device.SortPoolArgs) (v sortViews) {
	positive(what, a.D, a.K)
	v.items = len(a.Lengths.Host)
	for b, n := range a.Lengths.Host {
		if n < 1 || int(n) > a.K {
			panic(fmt.Sprintf("cuda: %s: item %d has %d rows, expected 1 to K = %d", what, b, n, a.K))
		}
		v.rows += int(n)
	}
	v.x, v.w = d.floats(what, a.X, v.rows*a.D), d.floats(what, a.Weights, a.K*a.K)
	v.ranks = d.ints(what, a.Ranks, v.rows*a.D)
	if a.Packed {
		v.lengths, v.starts = d.starts(what, a.Lengths)
	} else if v.lengths = d.ints(what, a.Lengths.View, v.items); v.items > 0 {
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
	v := d.sortViews("SortPool", a)
	y := d.floats("SortPool Y", a.Y, v.items*a.D)
	if v.items > 0 {
		d.perItem(kernelSortPool, v.items, a.D).ptr(y, v.ranks, v.x, v.w, v.lengths, v.starts).flag(a.Packed).int(a.D, a.K)
	}
}

// SortPoolGrad implements device.Pooling.
func (d *dev) SortPoolGrad(a device.SortPoolArgs) {
	v := d.sortViews("SortPoolGrad", a)
	dy := d.floats("SortPoolGrad DY", a.DY, v.items*a.D)
	dx, table := d.optional("SortPoolGrad DX", a.DX, v.rows*a.D), d.optional("SortPoolGrad DWeights", a.DWeights, a.K*a.K)
	if dx != 0 && v.items > 0 {
		d.perItem(kernelSortPoolDX, v.items, a.D).ptr(dx, dy, v.ranks, v.w, v.lengths, v.starts).flag(a.Packed).int(a.D, a.K)
		d.clearTail(dx, a.Lengths, v.lengths, a.D)
	}
	if table == 0 {
		return
	}
	part := d.need(scratchSums, 8*max(1, v.items*a.K))
	if v.items > 0 {
		c := d.rows(kernelSortPoolPart, a.K, a.D).ptr(part, dy, v.x, v.ranks, v.lengths, v.starts).flag(a.Packed).int(a.D, a.K)
		c.launch.Grid[1] = uint32(v.items)
	}
	d.each(kernelSortPoolTable, a.K*a.K).ptr(table, part, v.lengths).int(v.items, a.K)
}
