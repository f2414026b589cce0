package eval

import (
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"vsetrain/internal/compute/par"
	"vsetrain/internal/compute/tile64"
)

// Images are packed in panels of panelI rows, captions in panels of panelC.
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
// It stores the embeddings (images widened to float64) instead of S: COCO 5K takes 140 MB, not 1 GB.
type Embeddings struct {
	images, captions, dim int
	a                     []float64 // [ceil(N/panelI), E, panelI], zero padded
	b                     []float32 // [ceil(M/panelC), E, panelC], zero padded
}

// newEmbeddings copies image embeddings [N, dim] and caption embeddings [M, dim], both row-major, into panels.
// NaN and infinite components are errors that name the row. pool may be nil.
func newEmbeddings(pool *par.Pool, images, captions []float32, dim int) (*Embeddings, error) {
	e := &Embeddings{dim: dim}
	var err error
	if e.images, e.a, err = pack[float64](pool, "image", images, dim, panelI); err != nil {
		return nil, err
	}
	if e.captions, e.b, err = pack[float32](pool, "caption", captions, dim, panelC); err != nil {
		return nil, err
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

// pack copies rows x [n, dim] into panels [ceil(n/width), dim, width], padded with zeros. A component that is not
// finite is an error that names its row.
func pack[T float32 | float64](pool *par.Pool, what string, x []float32, dim, width int) (n int, panels []T,
	err error) {
	if dim <= 0 || len(x) == 0 || len(x)%dim != 0 {
		return 0, nil, fmt.Errorf("%s embeddings: %d values are not one or more rows of %d", what, len(x), dim)
	}
	n = len(x) / dim
	panels = make([]T, (n+width-1)/width*width*dim)
	var first atomic.Int64
	first.Store(math.MaxInt64)
	pool.For(len(panels)/(dim*width), par.Func(func(_, p int) {
		out := panels[p*dim*width : (p+1)*dim*width]
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
	if row := int(first.Load()); row < n {
		j := slices.IndexFunc(x[row*dim:], func(v float32) bool { return v-v != 0 })
		return 0, nil, fmt.Errorf("%s embedding %d: component %d is %v: the weights have diverged, or the input of "+
			"this row is all zeros", what, row, j, x[row*dim+j])
	}
	return n, panels, nil
}

// lower stores v if it is below the current value.
func lower(at *atomic.Int64, v int64) {
	for {
		old := at.Load()
		if v >= old || at.CompareAndSwap(old, v) {
			return
		}
	}
}
