package cuda

import (
	"fmt"

	"vsetrain/internal/device"
	"vsetrain/internal/device/cuda/driver"
)

var (
	kernelNormRows        = entryOf("norm_rows")
	kernelNormRowsGrad    = entryOf("norm_rows_grad")
	kernelNormColumns     = entryOf("norm_columns")
	kernelNormColumnsGrad = entryOf("norm_columns_grad")
	kernelOrderScores     = entryOf("order_scores")
	kernelOrderGrad       = entryOf("order_grad")
	kernelPackStarts      = entryOf("pack_starts")
	kernelPackWords       = entryOf("pack_words")
	kernelGatherWords     = entryOf("gather_words")
	kernelClearTail       = entryOf("clear_tail")
)

// L2Norm implements device.Rows.
func (d *dev) L2Norm(a device.L2NormArgs) {
	positive("L2Norm", a.Outer, a.N, a.Inner)
	size, count := a.Outer*a.N*a.Inner, a.Outer*a.Inner
	x, y, norm := d.floats("L2Norm X", a.X, size), d.floats("L2Norm Y", a.Y, size), d.floats("L2Norm Norm", a.Norm, count)
	if a.Inner == 1 {
		d.rows(kernelNormRows, a.Outer, a.N).ptr(y, norm, x).int(a.N).float(a.Eps)
		return
	}
	d.each(kernelNormColumns, count).ptr(y, norm, x).int(a.N, a.Inner).float(a.Eps).long(count)
}

// L2NormGrad implements device.Rows.
func (d *dev) L2NormGrad(a device.L2NormArgs) {
	positive("L2NormGrad", a.Outer, a.N, a.Inner)
	size, count := a.Outer*a.N*a.Inner, a.Outer*a.Inner
	x, norm := d.floats("L2NormGrad X", a.X, size), d.floats("L2NormGrad Norm", a.Norm, count)
	dy, dx := d.floats("L2NormGrad DY", a.DY, size), d.floats("L2NormGrad DX", a.DX, size)
	if a.Inner == 1 {
		d.rows(kernelNormRowsGrad, a.Outer, a.N).ptr(dx, x, norm, dy).int(a.N).float(a.Eps)
		return
	}
	d.each(kernelNormColumnsGrad, count).ptr(dx, x, norm, dy).int(a.N, a.Inner).float(a.Eps).long(count)
}

// OrderScores implements device.Rows.
func (d *dev) OrderScores(a device.OrderArgs) {
	positive("OrderScores", a.B, a.C, a.D)
	s, im, cap := d.floats("OrderScores Scores", a.Scores, a.B*a.C), d.floats("OrderScores Images", a.Images, a.B*a.D), d.floats("OrderScores Captions", a.Captions, a.C*a.D)
	c := d.rows(kernelOrderScores, a.C, a.D).ptr(s, im, cap).int(a.C, a.D)
	c.launch.Grid[1] = uint32(a.B)
}

// OrderScoresGrad implements device.Rows.
func (d *dev) OrderScoresGrad(a device.OrderArgs) {
	positive("OrderScoresGrad", a.B, a.C, a.D)
	im, cap := d.floats("OrderScoresGrad Images", a.Images, a.B*a.D), d.floats("OrderScoresGrad Captions", a.Captions, a.C*a.D)
	s, ds := d.floats("OrderScoresGrad Scores", a.Scores, a.B*a.C), d.floats("OrderScoresGrad DScores", a.DScores, a.B*a.C)
	if di := d.optional("OrderScoresGrad DImages", a.DImages, a.B*a.D); di != 0 {
		d.each(kernelOrderGrad, a.B*a.D).ptr(di, im, cap, s, ds).int(a.B, a.C, a.D, 0)
	}
	if dc := d.optional("OrderScoresGrad DCaptions", a.DCaptions, a.C*a.D); dc != 0 {
		d.each(kernelOrderGrad, a.C*a.D).ptr(dc, im, cap, s, ds).int(a.B, a.C, a.D, 1)
	}
}

// starts fills the packing of lengths, on the host and as a table in scratch memory, and returns lengths and table.
func (d *dev) starts(what string, lengths device.Ints) (on, table driver.Ptr) {
	d.pack = lengths.Packing()
	on = d.ints(what, lengths.View, len(lengths.Host))
	if d.pack.Steps() == 0 {
		return on, 0
	}
	n := d.pack.Steps() + 1
	table = d.need(scratchStarts, 4*n)
	d.each(kernelPackStarts, n).ptr(table, on).int(len(lengths.Host), d.pack.Steps())
	return on, table
}

// clearTail zeroes the rows of packed or concatenated values [Σ Host, width] behind those that there are, where lengths are Loose; on is their address.
func (d *dev) clearTail(x driver.Ptr, lengths device.Ints, on driver.Ptr, width int) {
	d.clearColumns(x, lengths, on, width, width)
}

// clearColumns is clearTail of rows that lie ld values apart.
func (d *dev) clearColumns(x driver.Ptr, lengths device.Ints, on driver.Ptr, width, ld int) {
	rows := 0
	for _, n := range lengths.Host {
		rows += int(n)
	}
	if lengths.Loose && rows > 0 && x != 0 {
		copy := d.keptCopy(x, last(rows, width, ld, 1, 0))
		c := d.start(kernelClearTail, threads, min(64, blocksFor(rows*width)), 1, 1)
		if copy != 0 {
			c.written = 0
		}
		c.ptr(x, copy, on).int(len(lengths.Host), rows).long(width, ld)
	}
}

// words lists the word of every packed row in scratch memory. Ids are checked on the host.
func (d *dev) words(what string, slot scratchSlot, words, lengths device.Ints, columns, below, shift int) driver.Ptr {
	b := len(lengths.Host)
	from := d.ints(what, words.View, b*columns)
	on, table := d.starts(what, lengths)
	steps := d.pack.Steps()
	if steps+shift > columns {
		panic(fmt.Sprintf("cuda: %s: %d words of a sequence in %d columns", what, steps+shift, columns))
	}
	if below > 0 && len(words.Host) >= b*columns {
		for i, n := range lengths.Host {
			for t, w := range words.Host[i*columns+shift:][:n] {
				if w < 0 || int(w) >= below {
					panic(fmt.Sprintf("cuda: %s: id %d of sequence %d at %d, expected less than %d", what, w, i, t+shift, below))
				}
			}
		}
	}
	if b == 0 {
		return 0
	}
	rows := d.need(slot, 4*d.pack.Rows())
	if lengths.Loose {
		d.fill(rows, 4*d.pack.Rows(), ^uint32(0)) // rows without a word are -1
	}
	d.each(kernelPackWords, b*steps).ptr(rows, from, on, table).int(b, columns, steps, shift)
	return rows
}

// GatherWords implements device.Rows.
func (d *dev) GatherWords(a device.GatherArgs) {
	positive("GatherWords", a.L, a.V, a.D)
	rows := d.words("GatherWords Words", scratchRows, a.Words, a.Lengths, a.L, a.V, 0)
	n := d.pack.Rows()
	table, out := d.floats("GatherWords Table", a.Table, a.V*a.D), d.floats("GatherWords Out", a.Out, n*a.D)
	if n > 0 {
		d.rows(kernelGatherWords, n, a.D).ptr(out, table, rows).int(a.D)
	}
}

// ScatterWords implements device.Rows.
func (d *dev) ScatterWords(a device.GatherArgs) {
	positive("ScatterWords", a.L, a.V, a.D)
	rows := d.words("ScatterWords Words", scratchRows, a.Words, a.Lengths, a.L, a.V, 0)
	n := d.pack.Rows()
	table, out := d.floats("ScatterWords Table", a.Table, a.V*a.D), d.floats("ScatterWords Out", a.Out, n*a.D)
	d.sumWords(table, out, rows, n, a.V, a.D)
}
