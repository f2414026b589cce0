package nn

import (
	"fmt"
	"math"

	"vsetrain/internal/compute/par"
	"vsetrain/internal/compute/philox"
)

// Init draws the initial values of a parameter.
type Init struct {
	// 'u' uniform in ±a, 'b' from b to a+b, 'n' normal of deviation a, 'c' constant a, 'r' norms of the rows of another
	kind  byte
	scale float64
	shift float64
	of    *Param
}

// Uniform draws from ±bound.
func Uniform(bound float64) Init { return Init{kind: 'u', scale: bound} }

// Normal draws from a normal distribution of mean 0.
func Normal(std float64) Init { return Init{kind: 'n', scale: std} }

// UniformRange draws uniformly from lo to hi.
func UniformRange(lo, hi float64) Init { return Init{kind: 'b', scale: hi - lo, shift: lo} }

// rowNorms are the norms of the rows of another parameter, as it is drawn, in as many rows as there are norms; it must
// not be larger than FillPiece.
func rowNorms(of *Param) Init { return Init{kind: 'r', of: of} }

// Constant sets every value.
func Constant(v float64) Init { return Init{kind: 'c', scale: v} }

// fanIn is PyTorch's default of linear layers: uniform in ±1/√in.
func fanIn(in int) Init { return Uniform(1 / math.Sqrt(float64(in))) }

// Xavier is the uniform initialisation of the references' image layers: ±√6/√(in+out).
func Xavier(in, out int) Init { return Uniform(math.Sqrt(6) / math.Sqrt(float64(in+out))) }

// XavierNormal is the normal form: deviation √2/√(in+out).
func XavierNormal(in, out int) Init { return Normal(math.Sqrt(2) / math.Sqrt(float64(in+out))) }

// fillChunk is the number of values drawn from one step of the generator. It is part of what a seed means.
const fillChunk = 1 << 14

// FillPiece is a number of values at which a parameter can be cut to draw it piece by piece.
const FillPiece = 64 * fillChunk

// Fill draws the initial values of a parameter from index lo on, a multiple of FillPiece, on all threads of pool; a nil
// pool is the calling goroutine. A value is a function of the seed, the parameter's name and the index.
func (p *Param) Fill(dst []float32, lo int, seed uint64, pool *par.Pool) {
	if lo%FillPiece != 0 {
		panic(fmt.Sprintf("nn: Fill from %d, want a multiple of %d", lo, FillPiece))
	}
	if p.Init.kind == 'r' {
		p.fillRowNorms(dst, seed)
		return
	}
	f := &filler{init: p.Init, key: philox.NewKey(seed, "init/"+p.Name), dst: dst, first: lo / fillChunk}
	pool.For((len(dst)+fillChunk-1)/fillChunk, f)
}

func (p *Param) fillRowNorms(dst []float32, seed uint64) {
	size := 1
	for _, d := range p.Init.of.Shape {
		size *= d
	}
	n, rows := size/len(dst), make([]float32, size)
	p.Init.of.Fill(rows, 0, seed, nil)
	for i := range dst {
		var s float64
		for _, v := range rows[i*n : (i+1)*n] {
			s += float64(v) * float64(v)
		}
		dst[i] = float32(math.Sqrt(s))
	}
}

// filler draws the values of one parameter, chunk by chunk.
type filler struct {
	init  Init
	key   philox.Key
	dst   []float32
	first int // chunk that dst begins with
}

// Do implements par.Body.
func (f *filler) Do(_, chunk int) {
	dst := f.dst[chunk*fillChunk : min(len(f.dst), (chunk+1)*fillChunk)]
	step := uint64(f.first + chunk)
	switch f.init.kind {
	case 'u':
		f.uniform(dst, step)
	case 'b':
		f.uniform(dst, step)
		for i, v := range dst {
			dst[i] = v/2 + float32(f.init.scale/2+f.init.shift)
		}
	case 'n':
		s := f.key.Stream(step)
		for i := range dst {
			dst[i] = float32(s.Norm() * f.init.scale)
		}
	default:
		for i := range dst {
			dst[i] = float32(f.init.scale)
		}
	}
}

// uniform makes a value of 24 bits out of each word: the middles of 2²⁴ equal pieces of ±scale.
func (f *filler) uniform(dst []float32, step uint64) {
	piece := float32(f.init.scale * 0x1p-23)
	for i := 0; i < len(dst); i += 4 {
		for j, w := range f.key.Block(step, uint64(i/4)) {
			if i+j < len(dst) {
				dst[i+j] = (float32(int32(w)>>8) + 0.5) * piece
			}
		}
	}
}
