package cpu

import "vsetrain/internal/compute/par"

// blockSize returns the number of elements of one piece of a loop over n contiguous elements: large enough to stream
// well and to be handed out at no cost, small enough to balance. It depends on n alone and is a multiple of a cache
// line.
func blockSize(n int) int {
	const smallest, largest, shares = 1 << 13, 1 << 18, 32
	return min(largest, max(smallest, (n/shares+1023)&^1023))
}

// block returns the range of piece i of n elements.
func block(n, i int) (lo, hi int) {
	size := blockSize(n)
	return i * size, min(n, (i+1)*size)
}

// blocks runs a loop over the pieces of n elements.
func (d *dev[T]) blocks(n int, b par.Body) { d.pool.For(pieces(n, blockSize(n)), b) }

// group is how many rows of the given width one piece of a loop over rows takes.
func group(width int) int { return max(1, 8192/max(1, width)) }

// pieces returns the number of pieces of at most size items in n.
func pieces(n, size int) int { return (n + size - 1) / size }

// starts returns the place of the first of the size(n) values of each item of n rows, and the end of the last, in the
// memory of at.
func starts(at []int, rows []int32, size func(n int) int) []int {
	at = append(at[:0], 0)
	for i, n := range rows {
		at = append(at, at[i]+size(int(n)))
	}
	return at
}

// same is the size of items with one value a row.
func same(n int) int { return n }

// reserve returns n elements of *s, growing it where it is too small. The contents are arbitrary.
func reserve[E any](s *[]E, n int) []E {
	if cap(*s) < n {
		*s = make([]E, n)
	}
	return (*s)[:n]
}
