package eval

import (
	"fmt"
	"math"

	"vsetrain/data"
	"vsetrain/internal/compute/par"
)

// Scores is a score matrix S [images, captions] that need not be in memory.
type Scores interface {
	// Dims returns the number of images N and of captions M.
	Dims() (images, captions int)
	// At returns S[i, c].
	At(i, c int) float64
	// Tile writes S[i0:i1, c0:c1] row-major to dst, every element equal to At bit for bit. Several goroutines may call
	// it at once.
	Tile(dst []float64, i0, i1, c0, c1 int)
}

// Dense is a score matrix in memory, row-major [Images, Captions]: the scores of a network that scores every pair
// (SGRAF, GSMN), or a matrix read from a file.
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

// foldOf returns the part of S with the given number of images, from image on, and their captions.
func foldOf(s Scores, own data.Groups, image, images int) block {
	first := own.First(image)
	return block{s, image, first, images, own.First(image+images) - first}
}

func (b block) Dims() (images, captions int) { return b.images, b.captions }
func (b block) At(i, c int) float64          { return b.Scores.At(b.i0+i, b.c0+c) }
func (b block) Tile(dst []float64, i0, i1, c0, c1 int) {
	b.Scores.Tile(dst, b.i0+i0, b.i0+i1, b.c0+c0, b.c0+c1)
}

// tileSize is the size of the tiles in which S is read. It does not change results.
type tileSize struct{ images, captions int }

// usualTiles are 256 KB of scores per worker. Both sides are multiples of the panels of Embeddings.
func usualTiles() tileSize { return tileSize{128, 256} }

// tiling cuts a matrix into tiles, numbered row by row.
type tiling struct{ images, captions, tileI, tileC int }

func (t tiling) across() int { return (t.captions + t.tileC - 1) / t.tileC }
func (t tiling) count() int  { return (t.images + t.tileI - 1) / t.tileI * t.across() }

func (t tiling) tile(k int) (i0, i1, c0, c1 int) {
	i0, c0 = k/t.across()*t.tileI, k%t.across()*t.tileC
	return i0, min(t.images, i0+t.tileI), c0, min(t.captions, c0+t.tileC)
}

// eachTile calls do with the scores of every tile of S, on all threads of the pool. do must not keep the scores.
func eachTile(size tileSize, pool *par.Pool, s Scores, do func(i0, i1, c0, c1 int, scores []float64)) {
	n, m := s.Dims()
	t := tiling{n, m, size.images, size.captions}
	scratch := make([][]float64, pool.Threads())
	pool.For(t.count(), par.Func(func(worker, k int) {
		i0, i1, c0, c1 := t.tile(k)
		if scratch[worker] == nil {
			scratch[worker] = make([]float64, min(n, size.images)*min(m, size.captions))
		}
		scores := scratch[worker][:(i1-i0)*(c1-c0)]
		s.Tile(scores, i0, i1, c0, c1)
		do(i0, i1, c0, c1, scores)
	}))
}

// eachRow calls do with the scores of image i and the captions of a tile, from c0 on, on all threads of the pool. A
// caption is passed to one worker at a time, with its images in ascending order.
func eachRow(size tileSize, pool *par.Pool, s Scores, do func(i, c0 int, scores []float64)) {
	n, m := s.Dims()
	for i0 := 0; i0 < n; i0 += size.images {
		part := block{s, i0, 0, min(size.images, n-i0), m}
		eachTile(size, pool, part, func(_, i1, c0, c1 int, scores []float64) {
			for i := range i1 {
				do(i0+i, c0, scores[i*(c1-c0):][:c1-c0])
			}
		})
	}
}
