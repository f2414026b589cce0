package cuda

import (
	"fmt"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda/driver"
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

// L2Norm computes that kernel.
func (d *dev) L2Norm(a device.L2Norm) {
	count := a.Outer * a.Inner
	x, y, norm := d.pointer(a.X), d.pointer(a.Y), d.pointer(a.Norm)
	if a.Inner == 1 {
		d.rows(kernelNormRows, a.Outer, a.N).ptr(y, norm, x).int(a.N).float(a.Eps)
		return
	}
	d.each(kernelNormColumns, count).ptr(y, norm, x).int(a.N, a.Inner).float(a.Eps).long(count)
}

// L2NormGrad computes that kernel.
func (d *dev) L2NormGrad(a device.L2Norm) {
	count := a.Outer * a.Inner
	x, norm := d.pointer(a.X), d.pointer(a.Norm)
	dy, dx := d.pointer(a.DY), d.pointer(a.DX)
	if a.Inner == 1 {
		d.rows(kernelNormRowsGrad, a.Outer, a.N).ptr(dx, x, norm, dy).int(a.N).float(a.Eps)
		return
	}
	d.each(kernelNormColumnsGrad, count).ptr(dx, x, norm, dy).int(a.N, a.Inner).float(a.Eps).long(count)
}

// OrderScores computes that kernel.
func (d *dev) OrderScores(a device.OrderScores) {
	s, im, cap := d.pointer(a.Scores), d.pointer(a.Images), d.pointer(a.Captions)
	c := d.rows(kernelOrderScores, a.C, a.D).ptr(s, im, cap).int(a.C, a.D)
	c.launch.Grid[1] = uint32(a.B)
}

// OrderScoresGrad computes that kernel.
func (d *dev) OrderScoresGrad(a device.OrderScores) {
	im, cap := d.pointer(a.Images), d.pointer(a.Captions)
	s, ds := d.pointer(a.Scores), d.pointer(a.DScores)
	if di := d.pointer(a.DImages); di != 0 {
		d.each(kernelOrderGrad, a.B*a.D).ptr(di, im, cap, s, ds).int(a.B, a.C, a.D, 0)
	}
	if dc := d.pointer(a.DCaptions); dc != 0 {
		d.each(kernelOrderGrad, a.C*a.D).ptr(dc, im, cap, s, ds).int(a.B, a.C, a.D, 1)
	}
}

// starts fills the packing of lengths, on the host and as a table on the device, and returns lengths and table.
func (d *dev) starts(lengths device.Ints) (on, table driver.Ptr) {
	d.pack = lengths.Packing()
	on = d.pointer(lengths.View)
	if d.pack.Steps() == 0 {
		return on, 0
	}
	b, n := len(lengths.Host), d.pack.Steps()+1
	table, holds := d.lengthTable(packedStarts, lengths.View, device.View{}, [4]int{b, n}, 4*n)
	if !holds {
		d.rows(kernelPackStarts, n, b).ptr(table, on).int(b)
	}
	return on, table
}

// clearTail zeroes the rows of packed or concatenated values [Σ Host, width] behind those that there are, where lengths
// are Bounded; on is their address.
func (d *dev) clearTail(x driver.Ptr, lengths device.Ints, on driver.Ptr, width int) {
	d.clearColumns(x, lengths, on, width, width)
}

// clearColumns is clearTail of rows that lie ld values apart.
func (d *dev) clearColumns(x driver.Ptr, lengths device.Ints, on driver.Ptr, width, ld int) {
	rows := 0
	for _, n := range lengths.Host {
		rows += int(n)
	}
	if lengths.Bounded && rows > 0 && x != 0 {
		copy := d.currentCopy(x, last(rows, width, ld))
		c := d.start(kernelClearTail, threads, min(64, blocksFor(rows*width)), 1, 1)
		if copy != 0 {
			c.noted()
		}
		c.ptr(x, copy, on).int(len(lengths.Host), rows).long(width, ld)
	}
}

// words returns a table of the word of every packed row. Ids are checked on the host.
func (d *dev) words(what string, words, lengths device.Ints, columns, below, shift int) driver.Ptr {
	b := len(lengths.Host)
	from := d.pointer(words.View)
	on, table := d.starts(lengths)
	steps := d.pack.Steps()
	if below > 0 && len(words.Host) >= b*columns {
		for i, n := range lengths.Host {
			for t, w := range words.Host[i*columns+shift:][:n] {
				if w < 0 || int(w) >= below {
					panic(fmt.Sprintf("cuda: %s: id %d of sequence %d at %d, expected less than %d", what, w, i,
						t+shift, below))
				}
			}
		}
	}
	if b == 0 {
		return 0
	}
	n := d.pack.Rows()
	rows, holds := d.lengthTable(packedWords, lengths.View, words.View, [4]int{b, n, columns, shift}, 4*n)
	if holds {
		return rows
	}
	if lengths.Bounded {
		d.fill(rows, 4*n, ^uint32(0)) // rows without a word are -1
	}
	d.each(kernelPackWords, b*steps).ptr(rows, from, on, table).int(b, columns, steps, shift)
	return rows
}

// GatherWords computes that kernel.
func (d *dev) GatherWords(a device.GatherWords) {
	rows := d.words("GatherWords", a.Words, a.Lengths, a.L, a.V, 0)
	n := d.pack.Rows()
	table, out := d.pointer(a.Table), d.pointer(a.Out)
	if n > 0 {
		d.rows(kernelGatherWords, n, a.D).ptr(out, table, rows).int(a.D)
	}
}

// ScatterWords computes that kernel.
func (d *dev) ScatterWords(a device.GatherWords) {
	rows := d.words("ScatterWords", a.Words, a.Lengths, a.L, a.V, 0)
	n := d.pack.Rows()
	table, out := d.pointer(a.Table), d.pointer(a.Out)
	d.sumWords(table, out, rows, n, a.V, a.D)
}
