package cpu

import (
	"math"

	"vsetrain/internal/compute/gemm"
	"vsetrain/internal/compute/vec"
)

// What the kernels of device/pairs.go share.
//
// The images of a batch are cut into lanes, and a lane is worked through by one thread, block by block of the rows of
// its images: the values of a block, large for all pairs together, stay in the cache of a core. What is summed over
// images is summed by each lane for itself, and the lanes are added in order, so results do not depend on the number of
// threads.
//
// With the hardest negatives alone in the loss, at most three scores of an image and a caption of the batch have a
// gradient: the positive, its hardest caption, its hardest image. The others are pairs without gradient: every element
// of it is exactly 0, NaN being something else. A gradient takes no part in sums that is 0, so the kernels pass over
// such pairs: what they get back is 0 again, and the blocks are filled with the pairs that do have a gradient.

const (
	pairLanes  = 16
	pairBlock  = 128 // rows of a block
	gradBlock  = 64  // rows of a block in the gradient of similarities,
	gradImages = 8   // which takes the rows of this many images together for the weights
	// values between the rows of a block: at a distance that is a power of two they would share lines of the cache
	pairPad   = 16
	pairEps   = 1e-8
	pairSlope = 0.1 // of LeakyReLU
)

// together is the number of rows that become part of an operand at once.
const together = gemm.RowsTogether

// laneCount is the number of lanes for a number of images, lane the images of one.
func laneCount(images int) int { return min(pairLanes, images) }

func largestLane(images int) int { return pieces(images, laneCount(images)) }

func lane(images, i int) (lo, hi int) {
	n := laneCount(images)
	return i * images / n, (i + 1) * images / n
}

// pairLayout is where the words and nodes of captions lie.
type pairLayout struct {
	lengths  []int32
	first    []int // first word of each caption, and the total T
	node     []int // node of each word
	captions []int // node of each caption as a whole
	of       []int // caption of each node
	longest  int
}

func (l *pairLayout) set(lengths []int32) {
	l.lengths = lengths
	l.first = starts(l.first, lengths, same)
	l.node, l.captions, l.of, l.longest = l.node[:0], l.captions[:0], l.of[:0], 0
	for c, n := range lengths {
		at := l.first[c]
		l.captions = append(l.captions, at+c)
		l.of = append(l.of, c)
		for j := range int(n) {
			l.node = append(l.node, at+c+1+j)
			l.of = append(l.of, c)
		}
		l.longest = max(l.longest, int(n))
	}
}

func (l *pairLayout) words() int { return l.first[len(l.lengths)] }

// nodes returns P, the nodes of all captions.
func (l *pairLayout) nodes() int { return l.words() + len(l.lengths) }

// span returns the nodes of caption c.
func (l *pairLayout) span(c int) (at, n int) { return l.captions[c], int(l.lengths[c]) + 1 }

// pair returns the nodes of pair i·C + c among the nodes of all images.
func (l *pairLayout) pair(p int) (at, n int) {
	image, c := p/len(l.lengths), p%len(l.lengths)
	at, n = l.span(c)
	return image*l.nodes() + at, n
}

// workspace is the private memory of one worker.
type workspace[T vec.Float] struct {
	p       product[T]
	a, b, c []T
	s, t, u []T
	x, dX   []T
	pairs   []int // of a block
	pieces  []similarityRows
	firsts  [2][]T
	images  []packed[T]
	back    []packed[T]
	rows    [2]packedRows[T]
	columns [2]packed[T]
}

func (d *dev[T]) workspaces() []workspace[T] {
	for len(d.spaces) < d.pool.Threads() {
		d.spaces = append(d.spaces, workspace[T]{})
	}
	return d.spaces
}

// packs makes room for n packed operands [k, cols].
func packs[T vec.Float](one single[T], s *[]packed[T], n, k, cols int) {
	for len(*s) < n {
		*s = append(*s, packed[T]{})
	}
	for i := range n {
		one.reserve(&(*s)[i], k, cols)
	}
}

// packW packs an operand that all lanes read.
func (d *dev[T]) packW(to *packed[T], transB bool, k, n int, b []T, ldb int) {
	d.singles()[0].pack(to, transB, k, n, b, ldb)
}

// addRows adds the rows of x [rows, len(dst)] to dst.
func addRows[T vec.Float](ops *vec.Ops[T], dst, x []T, rows int) {
	n := len(dst)
	for r := range rows {
		ops.Add(dst, dst, x[r*n:(r+1)*n])
	}
}

// unit returns the factors u, v of the gradient dx = u·dy + v·y of y = x/(‖x‖ + ε), from ‖x‖ and y·dy.
func unit(norm, dot float64) (u, v float64) {
	u = 1 / (norm + pairEps)
	if norm > 0 {
		v = -dot / norm
	}
	return u, v
}

func sqrt(x float64) float64 { return math.Sqrt(x) }
func exp(x float64) float64  { return math.Exp(x) }
