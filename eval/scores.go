package eval

import (
	"fmt"
	"math"

	"vsetrain/data"
)

// Scores is a score matrix S [images, captions] that need not be in memory.
type Scores interface {
	// Dims returns the number of images N and of captions M.
	Dims() (images, captions int)
	// At returns S[i, c].
	At(i, c int) float64
	// Tile writes S[i0:i1, c0:c1] row-major to dst, every element equal to At bit for bit. It may be
	// called by several goroutines at once.
	Tile(dst []float64, i0, i1, c0, c1 int)
}

// Dense is a score matrix in memory, row-major [Images, Captions]: scores of a network that looks at every
// pair (SGRAF, GSMN), or a matrix read from a file.
type Dense[T float32 | float64] struct {
	Images, Captions int
	Data             []T
}

// newDense allocates a matrix of zeros, to be filled with Put.
func newDense[T float32 | float64](images, captions int) (*Dense[T], error) {
	if images <= 0 || captions <= 0 || captions > math.MaxInt/8/images {
		return nil, fmt.Errorf("score matrix of %d images x %d captions: both must be positive and fit in memory",
			images, captions)
	}
	return &Dense[T]{images, captions, make([]T, images*captions)}, nil
}

// Put copies a row-major tile to S[i0:i1, c0:c1].
func (d *Dense[T]) Put(tile []T, i0, i1, c0, c1 int) error {
	w := c1 - c0
	if i0 < 0 || i1 > d.Images || i0 > i1 || c0 < 0 || c1 > d.Captions || c0 > c1 || len(tile) != (i1-i0)*w {
		return fmt.Errorf("tile of %d scores for images [%d,%d) and captions [%d,%d) of a %d x %d matrix",
			len(tile), i0, i1, c0, c1, d.Images, d.Captions)
	}
	for i := i0; i < i1; i++ {
		copy(d.Data[i*d.Captions+c0:], tile[(i-i0)*w:(i-i0+1)*w])
	}
	return nil
}

// Dims implements Scores.
func (d *Dense[T]) Dims() (images, captions int) { return d.Images, d.Captions }

// At implements Scores.
func (d *Dense[T]) At(i, c int) float64 { return float64(d.Data[i*d.Captions+c]) }

// Tile implements Scores.
func (d *Dense[T]) Tile(dst []float64, i0, i1, c0, c1 int) {
	w := c1 - c0
	for i := i0; i < i1; i++ {
		out := dst[(i-i0)*w : (i-i0+1)*w]
		for j, v := range d.Data[i*d.Captions+c0 : i*d.Captions+c1] {
			out[j] = float64(v)
		}
	}
}

// block is the part S[i0:i0+images, c0:c0+captions] of another matrix.
type block struct {
	Scores
	i0, c0, images, captions int
}

// foldOf is the part of that many images from one on, and of their captions.
func foldOf(s Scores, own data.Groups, image, images int) block {
	first := own.First(image)
	return block{s, image, first, images, own.First(image+images) - first}
}

func (b block) Dims() (images, captions int) { return b.images, b.captions }
func (b block) At(i, c int) float64          { return b.Scores.At(b.i0+i, b.c0+c) }
func (b block) Tile(dst []float64, i0, i1, c0, c1 int) {
	b.Scores.Tile(dst, b.i0+i0, b.i0+i1, b.c0+c0, b.c0+c1)
}
