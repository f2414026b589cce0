package cuda

import (
	"slices"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda/driver"
)

// captions are concatenated captions, with tables on the device (captions.cu).
type captions struct {
	n, rows, longest int
	squares          int // Σ lengths², or an upper bound if lengths are bounds
	from             device.Ints
	lengths          driver.Ptr
	starts, of       driver.Ptr // int [n+1], [rows]
	order            driver.Ptr // int [n]
	squaresAt        driver.Ptr // long [n+1]
}

// captions returns the tables of lengths.
func (d *dev) captions(lengths device.Ints) (c captions) {
	c.n, c.rows, c.from = len(lengths.Host), device.Total(lengths.Host), lengths
	c.lengths = d.pointer(lengths.View)
	if c.n == 0 {
		return c
	}
	c.longest = int(slices.Max(lengths.Host))
	for _, n := range lengths.Host {
		c.squares += int(n) * int(n)
	}
	if lengths.Bounded {
		c.squares = c.longest * c.rows // for any lengths under the bounds
	}
	var holds bool
	c.squaresAt, holds = d.lengthTable(captionRows, lengths.View, device.View{}, [4]int{c.n, c.rows},
		8*(c.n+1)+4*(c.n+1+c.rows+c.n))
	c.starts = c.squaresAt + driver.Ptr(8*(c.n+1))
	c.of = at(c.starts, c.n+1)
	c.order = at(c.of, c.rows)
	if !holds {
		d.rows("caption_tables", c.n+1, c.n).ptr(c.squaresAt, c.starts, c.of, c.order, c.lengths).int(c.n, c.rows)
	}
	return c
}

// clear zeroes the rows of x [rows, width] that belong to no caption.
func (c *captions) clear(d *dev, x driver.Ptr, width int) { d.clearTail(x, c.from, c.lengths, width) }

// captionWords returns a table of the words of all rows. It checks ids on the host.
func (d *dev) captionWords(what string, c *captions, words, lengths device.Ints, columns, below int) driver.Ptr {
	from := d.pointer(words.View)
	checkIDs(what, words, lengths, columns, below, 0)
	if c.rows == 0 {
		return 0
	}
	rows, holds := d.lengthTable(captionWords, lengths.View, words.View, [4]int{c.n, c.rows, columns}, 4*c.rows)
	if !holds {
		d.each("caption_words", c.rows).ptr(rows, from, c.of, c.starts).int(c.rows, columns)
	}
	return rows
}

// sumWords writes the gradient [v, width] of a table of vectors from the rows that were read. It sorts rows by word, so
// one block owns a word and adds its rows in their order.
func (d *dev) sumWords(table, dout, rows driver.Ptr, count, v, width int) {
	d.fill(table, 4*v*width, 0)
	if count == 0 {
		return
	}
	order := d.need(scratchOrder, 4*count)
	d.start("row_order", threads, count, 1, 1).ptr(order, rows).int(count)
	d.wide("sum_words", count, width).ptr(table, dout, rows, order).int(count, width)
}

// wide begins the call of a kernel with blocks for n rows and pieces of their columns.
func (d *dev) wide(k string, n, columns int) *command {
	c := d.rows(k, n, columns)
	c.launch.Grid[1] = uint32((columns + int(c.launch.Threads) - 1) / int(c.launch.Threads))
	return c
}
