package graph

import "fmt"

// Dropout draws by the numbers of rows. The row of position t of item i has the number i·positions + t in any layout,
// so that any division of a batch draws the same masks.

// Layout is the order of the rows of a batch.
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
	fed, next []int32 // the numbers fed last, and the numbers of the next run
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
	if rows > len(r.next) || longest > positions {
		return fmt.Errorf("%d rows, the longest item has %d: expected at most %d and %d", rows, longest, len(r.next),
			positions)
	}
	at := 0
	put := func(b, t int) {
		if r.next[at] = -1; t < int(there[b]) {
			r.next[at] = itemOf(items, b)*positions + int32(t)
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
	for ; at < len(r.next); at++ {
		r.next[at] = -1
	}
	return nil
}

func itemOf(items []int32, b int) int32 {
	if items == nil {
		return int32(b)
	}
	return items[b]
}
