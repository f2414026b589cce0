package cpu

import "vsetrain/internal/par"

// body is one parallel loop.
type body = par.Body

// blockSize is the number of elements of one piece of a loop over contiguous memory: large enough that handing it out
// costs nothing, small enough to balance, and a multiple of a cache line.
const blockSize = 1 << 15

// block returns the range of piece i of n elements.
func block(n, i int) (lo, hi int) { return i * blockSize, min(n, (i+1)*blockSize) }

// blocks runs a loop over the pieces of n elements.
func (d *dev[T]) blocks(n int, b body) { d.pool.For((n+blockSize-1)/blockSize, b) }

// group is how many rows of the given width one piece of a loop over rows takes.
func group(width int) int { return max(1, blockSize/4/max(1, width)) }

// pieces returns the number of pieces of at most size items in n.
func pieces(n, size int) int { return (n + size - 1) / size }
