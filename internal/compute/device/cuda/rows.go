package cuda

import (
	"fmt"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda/driver"
)

func (d *dev) L2Norm(a device.L2Norm) {
	count := a.Outer * a.Inner
	if a.Inner == 1 {
		d.rows("norm_rows", a.Outer, a.N).of(a.Y, a.Norm, a.X).int(a.N).float(a.Eps)
		return
	}
	d.each("norm_columns", count).of(a.Y, a.Norm, a.X).int(a.N, a.Inner).float(a.Eps).long(count)
}

func (d *dev) L2NormGrad(a device.L2Norm) {
	count := a.Outer * a.Inner
	if a.Inner == 1 {
		d.rows("norm_rows_grad", a.Outer, a.N).of(a.DX, a.X, a.Norm, a.DY).int(a.N).float(a.Eps)
		return
	}
	d.each("norm_columns_grad", count).of(a.DX, a.X, a.Norm, a.DY).int(a.N, a.Inner).float(a.Eps).long(count)
}

func (d *dev) OrderScores(a device.OrderScores) {
	c := d.rows("order_scores", a.C, a.D).of(a.Scores, a.Images, a.Captions).int(a.C, a.D)
	c.launch.Grid[1] = uint32(a.B)
}

func (d *dev) OrderScoresGrad(a device.OrderScores) {
	for side, to := range []device.View{a.DImages, a.DCaptions} {
		if to.Present() {
			d.each("order_grad", to.N).of(to, a.Images, a.Captions, a.Scores, a.DScores).int(a.B, a.C, a.D, side)
		}
	}
}

// starts makes the packing of lengths, on the host and as a table on the device, and returns lengths and table.
func (d *dev) starts(lengths device.Ints) (on, table driver.Ptr) {
	d.pack = lengths.Packing()
	on = d.pointer(lengths.View)
	if d.pack.Steps() == 0 {
		return on, 0
	}
	b, n := len(lengths.Host), d.pack.Steps()+1
	table, holds := d.lengthTable(packedStarts, lengths.View, device.View{}, [4]int{b, n}, 4*n)
	if !holds {
		d.rows("pack_starts", n, b).ptr(table, on).int(b)
	}
	return on, table
}

// clearTail zeroes the rows of packed or concatenated values [Σ Host, width] after the last one, if lengths are
// Bounded; on is the address of the lengths.
func (d *dev) clearTail(x driver.Ptr, lengths device.Ints, on driver.Ptr, width int) {
	d.clearColumns(x, lengths, on, width, width)
}

// clearColumns is clearTail of rows with a stride of ld values.
func (d *dev) clearColumns(x driver.Ptr, lengths device.Ints, on driver.Ptr, width, ld int) {
	rows := device.Total(lengths.Host)
	if lengths.Bounded && rows > 0 && x != 0 {
		copy := d.currentCopy(x, last(rows, width, ld))
		c := d.start("clear_tail", threads, min(64, blocksFor(rows*width)), 1, 1)
		if copy != 0 {
			c.noted()
		}
		c.ptr(x, copy, on).int(len(lengths.Host), rows).long(width, ld)
	}
}

// checkIDs panics if a word that the host knows is not an id below the given number.
func checkIDs(what string, words, lengths device.Ints, columns, below, shift int) {
	if len(words.Host) < len(lengths.Host)*columns {
		return
	}
	for i, n := range lengths.Host {
		for t, w := range words.Host[i*columns+shift:][:n] {
			if w < 0 || int(w) >= below {
				panic(fmt.Sprintf("cuda: %s: id %d of sequence %d at %d, expected 0 to %d", what, w, i, t+shift,
					below-1))
			}
		}
	}
}

// words returns a table of the word of every packed row. It checks ids on the host if below is not 0.
func (d *dev) words(what string, words, lengths device.Ints, columns, below, shift int) driver.Ptr {
	b := len(lengths.Host)
	from := d.pointer(words.View)
	on, table := d.starts(lengths)
	steps := d.pack.Steps()
	if below > 0 {
		checkIDs(what, words, lengths, columns, below, shift)
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
	d.each("pack_words", b*steps).ptr(rows, from, on, table).int(b, columns, steps, shift)
	return rows
}

func (d *dev) GatherWords(a device.GatherWords) {
	rows := d.words("GatherWords", a.Words, a.Lengths, a.L, a.V, 0)
	d.rows("gather_words", d.pack.Rows(), a.D).of(a.Out, a.Table).ptr(rows).int(a.D)
}

func (d *dev) GatherWordsGrad(a device.GatherWords) {
	rows := d.words("GatherWordsGrad", a.Words, a.Lengths, a.L, a.V, 0)
	d.sumWords(d.pointer(a.Table), d.pointer(a.Out), rows, d.pack.Rows(), a.V, a.D)
}
