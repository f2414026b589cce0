package eval

import (
	"fmt"
	"math"
	"sync/atomic"

	"vsetrain/internal/compute/par"
	"vsetrain/internal/compute/tile64"
)

// A tile of scores: images are packed in panels of panelI, captions in panels of panelC.
const (
	panelI = tile64.Rows
	panelC = tile64.Columns
)

var product = tile64.Best().Single

// Embeddings is the score matrix of a network whose score is a dot product (VSE++, VSRN, VSE-infinity):
//
//	S[i, c] = sum over e = 0 .. E-1 of image[i, e] * caption[c, e]
//
// computed in float64 from float32 embeddings, e in ascending order. The product of two float32 values is exact
// in float64, so fused and separate multiply-add, assembly and Go, and every tile size give the same bits.
//
// It stores the embeddings (images widened to float64), never S: COCO 5K takes 140 MB, not 1 GB.
type Embeddings struct {
	images, captions, dim int
	a                     []float64 // [ceil(N/panelI), E, panelI], zero padded
	b                     []float32 // [ceil(M/panelC), E, panelC], zero padded
}

// newEmbeddings copies image embeddings [N, dim] and caption embeddings [M, dim], both row-major, into panels.
// NaN and infinite components are errors that name the row. pool may be nil.
func newEmbeddings(pool *par.Pool, images, captions []float32, dim int) (*Embeddings, error) {
	n, err := rows("image", images, dim)
	if err != nil {
		return nil, err
	}
	m, err := rows("caption", captions, dim)
	if err != nil {
		return nil, err
	}
	e := &Embeddings{images: n, captions: m, dim: dim}
	e.a = make([]float64, (n+panelI-1)/panelI*panelI*dim)
	e.b = make([]float32, (m+panelC-1)/panelC*panelC*dim)
	badI, ok := pack(pool, e.a, images, dim, panelI)
	if !ok {
		return nil, notFinite("image", images, badI, dim)
	}
	badC, ok := pack(pool, e.b, captions, dim, panelC)
	if !ok {
		return nil, notFinite("caption", captions, badC, dim)
	}
	return e, nil
}

// Dims implements Scores.
func (e *Embeddings) Dims() (images, captions int) { return e.images, e.captions }

// At implements Scores.
func (e *Embeddings) At(i, c int) float64 {
	a := e.a[i/panelI*panelI*e.dim+i%panelI:]
	b := e.b[c/panelC*panelC*e.dim+c%panelC:]
	var s float64
	for x := range e.dim {
		p := a[x*panelI] * float64(b[x*panelC])
		s += p
	}
	return s
}

// Tile implements Scores.
func (e *Embeddings) Tile(dst []float64, i0, i1, c0, c1 int) {
	var out [panelI * panelC]float64
	w := c1 - c0
	for pc := c0 / panelC; pc*panelC < c1; pc++ {
		b := e.b[pc*panelC*e.dim : (pc+1)*panelC*e.dim]
		lo, hi := max(c0, pc*panelC), min(c1, (pc+1)*panelC)
		for pi := i0 / panelI; pi*panelI < i1; pi++ {
			clear(out[:])
			product(e.dim, e.a[pi*panelI*e.dim:(pi+1)*panelI*e.dim], panelI, b, out[:])
			for i := max(i0, pi*panelI); i < min(i1, (pi+1)*panelI); i++ {
				copy(dst[(i-i0)*w+lo-c0:(i-i0)*w+hi-c0], out[(i-pi*panelI)*panelC+lo-pc*panelC:])
			}
		}
	}
}

func rows(what string, x []float32, dim int) (int, error) {
	if dim <= 0 || len(x) == 0 || len(x)%dim != 0 {
		return 0, fmt.Errorf("%s embeddings: %d values are not one or more rows of %d", what, len(x), dim)
	}
	return len(x) / dim, nil
}

// pack writes x [n, dim] as panels [ceil(n/width), dim, width]; ok is false and row names the first panel's row with a
// component that is not finite.
func pack[T float32 | float64](pool *par.Pool, dst []T, x []float32, dim, width int) (row int, ok bool) {
	n := len(x) / dim
	var first atomic.Int64
	first.Store(math.MaxInt64)
	pool.For(len(dst)/(dim*width), par.Func(func(_, p int) {
		out := dst[p*dim*width : (p+1)*dim*width]
		for r := p * width; r < min(n, (p+1)*width); r++ {
			var bad float32 // v-v is 0, or NaN when v is not finite
			for i, v := range x[r*dim : (r+1)*dim] {
				out[i*width+r-p*width] = T(v)
				bad += v - v
			}
			if bad != 0 {
				lower(&first, int64(r))
				return
			}
		}
	}))
	return int(first.Load()), first.Load() == math.MaxInt64
}

func notFinite(what string, x []float32, row, dim int) error {
	for j, v := range x[row*dim : (row+1)*dim] {
		if v-v != 0 {
			return fmt.Errorf("%s embedding %d: component %d is %v: the weights have diverged, or the input of this "+
				"row is all zeros",
				what, row, j, v)
		}
	}
	return nil
}

// lower stores v when it is below the present value.
func lower(at *atomic.Int64, v int64) {
	for {
		old := at.Load()
		if v >= old || at.CompareAndSwap(old, v) {
			return
		}
	}
}
