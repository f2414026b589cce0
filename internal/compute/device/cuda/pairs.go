package cuda

import (
	"slices"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda/driver"
)

// What the kernels of device/pairs.go share. One call of a kernel works on all images of a batch, or on as many as fit
// into a tile. Values that would be large for all pairs (contexts of words, products of graph reasoning) exist for one
// tile at a time, and gradients recompute them. Tiles depend only on sizes, and sums add tiles in their order.

const (
	tileRows  = 1 << 20 // of a product, at most
	chunkRows = 512     // of a chunk of a tallSum
)

// tileOf returns how many of n units of work fit into a tile, at least one; all tiles have about the same size.
func (d *dev) tileOf(n, bytes, rows int) int {
	most := max(1, min(d.limits.TileBytes/max(1, bytes), tileRows/max(1, rows)))
	count := (n + most - 1) / most
	return (n + count - 1) / count
}

// TileValues implements device.Tiler: a tile of the graph holds at most about eight values of this size.
func (d *dev) TileValues() int { return max(1, d.limits.TileBytes/(8*4)) }

// pairLayout says where the words and nodes of captions are, on the device and on the host. If lengths are bounds,
// words and nodes count the capacity: words after the last have caption -1, and each has a node after the last of an
// image.
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

// clear zeroes the rows of x [words, width] after the last word.
func (l *pairLayout) clear(d *dev, x driver.Ptr, width int) { d.clearTail(x, l.from, l.lengths, width) }

// layout returns the tables of lengths, and makes them if they are missing.
func (d *dev) layout(lengths device.Ints) (l pairLayout) {
	l.captions, l.words, l.from = len(lengths.Host), device.Total(lengths.Host), lengths
	l.nodes, l.lengths = l.words+l.captions, d.pointer(lengths.View)
	if l.captions == 0 {
		return l
	}
	l.longest = int(slices.Max(lengths.Host))
	tables, holds := d.lengthTable(pairTables, lengths.View, device.View{}, [4]int{l.captions, l.words},
		4*(l.captions+1+2*l.words+l.nodes+l.captions))
	w := workspace{tables}
	l.first, l.wordCaption, l.wordNode = w.cut(l.captions+1), w.cut(l.words), w.cut(l.words)
	l.nodeCaption, l.captionNode = w.cut(l.nodes), w.cut(l.captions)
	if !holds {
		d.warps("pair_layout", l.captions).ptr(l.first, l.wordCaption, l.wordNode, l.nodeCaption, l.captionNode,
			l.lengths).int(l.captions, l.words)
	}
	return l
}

// workspace hands out consecutive parts of memory of four-byte values.
type workspace struct{ next driver.Ptr }

func (d *dev) workspace(floats int) workspace {
	return workspace{d.need(scratchPanel, 4*max(1, floats))}
}

func (w *workspace) cut(floats int) (p driver.Ptr) {
	p = w.next
	w.next = at(w.next, floats)
	return p
}

// warps begins the call of a kernel in which each warp does one of n > 0 units of work, in several rounds if needed.
func (d *dev) warps(k string, n int) *command {
	const perBlock = threads / 32
	return d.start(k, threads, min((n+perBlock-1)/perBlock, 1<<20), 1, 1)
}

// tallSum sums the columns of very many rows, which come in several parts: first chunks of rows, then the chunks.
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
	if rows > 0 {
		d.columnPieces(at(t.part, t.chunks*t.cols), 0, x, rows, t.cols, chunkRows)
	}
	t.chunks += (rows + chunkRows - 1) / chunkRows
}

// finish writes the sums.
func (t *tallSum) finish(d *dev, dst driver.Ptr) {
	d.columnTotal(dst, 0, t.part, t.chunks, t.cols, t.cols, t.cols)
}
