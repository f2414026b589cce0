package graph

import (
	"fmt"

	"gorgonia.org/tensor"
)

// The numbers of rows that dropout draws by. The row of position t of item i is number i·positions + t, wherever a
// layout puts it, so that any division of a batch draws the same masks.

// Layout is where the rows of the positions of a batch's items lie.
type Layout string

// The layouts.
const (
	Packed       Layout = "packed"       // position by position (device.Packing)
	Concatenated Layout = "concatenated" // item by item
)

// positions is the most positions of an item, and mostItems the most items of a batch: numbers are int32.
const (
	positions = 1 << 14
	mostItems = 1 << 17
)

// numbering is how a program makes an input of numbers of rows, before every run.
type numbering struct {
	of, there string // inputs: lengths of the items, and how many of their rows hold something
	layout    Layout
	host      []int32 // the numbers
}

// RowNumbers returns the numbers int32 [n] of the rows of a value with room for n rows, in which items of some lengths
// [B] lie. Rows that belong to no item, and with there [B] not nil those from position there of an item on, have the
// number -1. Programs make them of the lengths and of Instance.Items.
func (g *Graph) RowNumbers(n int, layout Layout, lengths, there *Node) *Node {
	if there == nil {
		there = lengths
	}
	name := fmt.Sprintf("%d rows %s by %s, of which %s are there", n, layout, lengths.Name(), there.Name())
	node := g.leaf(name, false, tensor.Int32, []int{n})
	g.leaves[name].rows = &numbering{of: lengths.Name(), there: there.Name(), layout: layout, host: make([]int32, n)}
	return node
}

// ItemNumbers returns the numbers of the rows of a value with one row for each of n items.
func (g *Graph) ItemNumbers(n int) *Node {
	ones := make([]int32, n)
	for i := range ones {
		ones[i] = 1
	}
	return g.RowNumbers(n, Concatenated, g.ConstInts(fmt.Sprintf("%d ones", n), ones), nil)
}

// Items sets the positions of the items of the batches that are fed in the global batches that they are parts of; nil,
// as at first, is 0, 1, 2, …. The slice is read when programs are prepared.
func (s *Instance) Items(positions []int32) { s.items = positions }

// number feeds the numbers of rows that a program reads.
func (p *Program) number() error {
	for _, l := range p.rows {
		r := l.rows
		if err := r.make(p.s.lengths(p.leaves[r.of]), p.s.lengths(p.leaves[r.there]), p.s.items); err != nil {
			return fmt.Errorf("number the rows of dropout: %w", err)
		}
		if err := p.s.FeedInts(l.node.Name(), r.host); err != nil {
			return err
		}
	}
	return nil
}

// lengths are the values of an input or of a constant.
func (s *Instance) lengths(l *leaf) []int32 {
	if l.ints != nil {
		return l.ints
	}
	if in := s.feed[l.node.Name()]; in != nil {
		return in.values
	}
	return nil
}

// make numbers the rows of items with these lengths, of which there rows hold something.
func (r *numbering) make(lengths, there, items []int32) error {
	if len(there) != len(lengths) || items != nil && len(items) != len(lengths) {
		return fmt.Errorf("%d and %d lengths for %d items", len(lengths), len(there), len(items))
	}
	rows, longest := 0, 0
	for b, n := range lengths {
		rows, longest = rows+int(n), max(longest, int(n))
		if item := itemOf(items, b); item < 0 || item >= mostItems {
			return fmt.Errorf("a batch has item %d, expected fewer than %d items", item, mostItems)
		}
	}
	if rows > len(r.host) || longest > positions {
		return fmt.Errorf("%d rows, the longest item has %d: expected at most %d and %d", rows, longest, len(r.host),
			positions)
	}
	at := 0
	put := func(b, t int) {
		if r.host[at] = -1; t < int(there[b]) {
			r.host[at] = itemOf(items, b)*positions + int32(t)
		}
		at++
	}
	if r.layout == Packed {
		for t := range longest {
			for b := 0; b < len(lengths) && t < int(lengths[b]); b++ {
				put(b, t)
			}
		}
	} else {
		for b, n := range lengths {
			for t := range int(n) {
				put(b, t)
			}
		}
	}
	for ; at < len(r.host); at++ {
		r.host[at] = -1
	}
	return nil
}

func itemOf(items []int32, b int) int32 {
	if items == nil {
		return int32(b)
	}
	return items[b]
}
