package cuda

import (
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda/driver"
)

// What the kernels of device/pairs.go share. All images of a batch, or as many as fit into a tile, are worked through
// by one call of a kernel; values that are large for all pairs together (the contexts of words, the products of graph
// reasoning) exist for one tile at a time and the gradients make them again. Tiles depend on sizes alone, and what is
// summed over tiles is summed in their order.

const (
	tileRows  = 1 << 20 // of a product, at most
	chunkRows = 512     // of a chunk of a tallSum
)

// tileOf returns how many of n units of work fit into a tile: at least one, and all in tiles of about one size.
func (d *dev) tileOf(n, bytes, rows int) int {
	most := max(1, min(d.limits.TileBytes/max(1, bytes), tileRows/max(1, rows)))
	count := (n + most - 1) / most
	return (n + count - 1) / count
}

// TileValues implements device.Tiler: a tile of the graph holds at most some eight values of this size.
func (d *dev) TileValues() int { return max(1, d.limits.TileBytes/(8*4)) }

// pairLayout says where the words and nodes of captions lie, on the device and on the host. Where lengths are bounds,
// words and nodes count those that there is room for: the words after the last have no caption, -1, and the nodes of an
// image after the last, one for each of them.
type pairLayout struct {
	captions, words, nodes, longest int

	first       driver.Ptr // [C + 1] first word of each caption
	wordCaption driver.Ptr // [T]
	wordNode    driver.Ptr // [T]
	nodeCaption driver.Ptr // [T + C]
	captionNode driver.Ptr // [C]

	from    device.Ints
	lengths driver.Ptr
}

// clear zeroes the rows of x [words, width] that are no words.
func (l *pairLayout) clear(d *dev, x driver.Ptr, width int) { d.clearTail(x, l.from, l.lengths, width) }

// layout returns the tables of lengths, which it makes where they are not there.
func (d *dev) layout(lengths device.Ints) (l pairLayout) {
	l.captions = len(lengths.Host)
	for _, n := range lengths.Host {
		l.words += int(n)
		l.longest = max(l.longest, int(n))
	}
	l.nodes, l.from = l.words+l.captions, lengths
	on := d.pointer(lengths.View)
	l.lengths = on
	if l.captions == 0 {
		return l
	}
	tables, holds := d.lengthTable(pairTables, lengths.View, device.View{}, [4]int{l.captions, l.words},
		4*(l.captions+1+2*l.words+l.nodes+l.captions))
	cut := func(n int) (p driver.Ptr) {
		p = tables
		tables = at(tables, n)
		return p
	}
	l.first, l.wordCaption, l.wordNode = cut(l.captions+1), cut(l.words), cut(l.words)
	l.nodeCaption, l.captionNode = cut(l.nodes), cut(l.captions)
	if !holds {
		d.warps("pair_layout", l.captions).ptr(l.first, l.wordCaption, l.wordNode, l.nodeCaption, l.captionNode,
			on).int(l.captions, l.words)
	}
	return l
}

// workspace is scratch memory of floats that is cut into parts: first the sizes are added up, then the parts are given
// out.
type workspace struct{ next driver.Ptr }

func (d *dev) workspace(floats int) workspace {
	return workspace{d.need(scratchPanel, 4*max(1, floats))}
}

func (w *workspace) cut(floats int) (p driver.Ptr) {
	p = w.next
	w.next = at(w.next, floats)
	return p
}

// warps begins the call of a kernel in which a warp does one of n > 0 units of work; the loop takes what is left in
// further rounds.
func (d *dev) warps(k string, n int) *command {
	const perBlock = threads / 32
	return d.start(k, threads, min((n+perBlock-1)/perBlock, 1<<20), 1, 1)
}

// tallSum sums columns of very many rows, which come in several parts: by chunks, then the chunks.
type tallSum struct {
	part         driver.Ptr
	cols, chunks int
}

// tallFloats is the workspace of a tallSum over parts of the given number of rows.
func tallFloats(parts, rows, cols int) int {
	return parts * ((rows + chunkRows - 1) / chunkRows) * cols
}

// add sums the next rows of x.
func (t *tallSum) add(d *dev, x driver.Ptr, rows int) {
	n := (rows + chunkRows - 1) / chunkRows
	if n > 0 {
		d.start("column_sum", threads, (t.cols+31)/32, n, 1).ptr(at(t.part, t.chunks*t.cols), 0, 0, x).int(rows,
			t.cols, t.cols).long(t.cols).int(chunkRows)
	}
	t.chunks += n
}

// finish writes the sums.
func (t *tallSum) finish(d *dev, dst driver.Ptr) {
	d.columnTotal(dst, 0, t.part, t.chunks, t.cols, t.cols, t.cols)
}
