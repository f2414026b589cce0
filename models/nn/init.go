package nn

import (
	"fmt"
	"math"

	"vsetrain/internal/compute/par"
	"vsetrain/internal/compute/philox"
)

// Init draws the initial values of a parameter.
type Init struct {
	// 'u' uniform in shift ± scale, 'n' normal with deviation scale, 'c' the constant scale, 'r' the norms of rows of
	// of
	kind         byte
	scale, shift float64
	of           *Param
}

// Uniform draws uniformly from ±bound.
func Uniform(bound float64) Init { return Init{kind: 'u', scale: bound} }

// Normal draws from a normal distribution with mean 0.
func Normal(std float64) Init { return Init{kind: 'n', scale: std} }

// UniformRange draws uniformly from lo to hi.
func UniformRange(lo, hi float64) Init {
	return Init{kind: 'u', scale: (hi - lo) / 2, shift: (hi-lo)/2 + lo}
}

// rowNorms computes the norms of the rows of another parameter, which is cut into rows of equal size. It must not be
// larger than FillPiece.
func rowNorms(of *Param) Init { return Init{kind: 'r', of: of} }

// Constant sets every value to v.
func Constant(v float64) Init { return Init{kind: 'c', scale: v} }

// fanIn is PyTorch's default for linear layers: uniform in ±1/√in.
func fanIn(in int) Init { return Uniform(1 / math.Sqrt(float64(in))) }

// Xavier is the uniform initialisation of the references' image layers: ±√6/√(in+out).
func Xavier(in, out int) Init { return Uniform(math.Sqrt(6) / math.Sqrt(float64(in+out))) }

// XavierNormal is the normal form of Xavier: deviation √2/√(in+out).
func XavierNormal(in, out int) Init { return Normal(math.Sqrt(2) / math.Sqrt(float64(in+out))) }

// fillChunk is the number of values drawn from one step of the generator. Another number changes all drawn values.
const fillChunk = 1 << 14

// FillPiece is a number of values. A parameter can be drawn in pieces that begin at its multiples.
const FillPiece = 64 * fillChunk

// Fill draws the initial values of a parameter from index lo on, which is a multiple of FillPiece, with the threads of
// pool; nil is the calling goroutine. A value depends only on the seed, the parameter's name and the index.
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

// uniform turns each word into a value of 24 bits: the centre of one of 2²⁴ equal parts of shift ± scale.
func (f *filler) uniform(dst []float32, step uint64) {
	piece, shift := float32(f.init.scale*0x1p-23), float32(f.init.shift)
	for i := 0; i < len(dst); i += 4 {
		for j, w := range f.key.Block(step, uint64(i/4)) {
			if i+j < len(dst) {
				dst[i+j] = float32((float32(int32(w)>>8)+0.5)*piece) + shift // rounded twice: never fused
			}
		}
	}
}
