package cpu

import (
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/vec"
)

// Attention between words and regions (device.PairAttention): x = leaky(a), y = x/(‖x‖ + ε), α = softmax(λ y). |λ
// y| ≤ λ, so the exponentials need no shift. Back:
//
//	dy = λ α (dα - Σ α dα)    dx = dy/(‖x‖ + ε) - x (x·dy)/(‖x‖ (‖x‖ + ε)²)    da = dx·leaky'(a)
//
// A piece is one caption with a few images: rows of words, columns of regions.
type pairAttention[T vec.Float] struct {
	ops      *vec.Ops[T]
	a        device.PairAttention
	layout   pairLayout
	images   int // of a piece
	across   int // pieces over the images
	scores   []T
	weights  []T
	dWeights []T
	dScores  []T
	scratch  []T // [workers, 4, columns]
}

func (d *dev[T]) PairAttentionGrad(a device.PairAttention) { d.PairAttention(a) }

func (d *dev[T]) PairAttention(a device.PairAttention) {
	l := &d.pairAttention
	l.ops, l.a = d.ops, a
	l.layout.set(a.Lengths.Host)
	l.scores, l.weights = d.values(a.Scores), d.values(a.Weights)
	l.dWeights, l.dScores = d.values(a.DWeights), d.values(a.DScores)
	l.images = max(1, 1024/a.R)
	l.across = pieces(a.B, l.images)
	scratch(&l.scratch, d.pool.Threads()*4*l.images*a.R)
	d.pool.For(len(l.layout.lengths)*l.across, l)
}

func (l *pairAttention[T]) Do(worker, piece int) {
	c, b := piece/l.across, piece%l.across*l.images
	p := attentionPiece[T]{l: l, w0: l.layout.first[c], w1: l.layout.first[c+1], col: b * l.a.R,
		cols: (min(l.a.B, b+l.images) - b) * l.a.R, r: l.a.R, ld: l.a.B * l.a.R}
	size := l.images * l.a.R
	s := l.scratch[worker*4*size:]
	p.x, p.y, p.norm, p.dot = s[:p.cols], s[size:size+p.cols], s[2*size:2*size+p.cols], s[3*size:3*size+p.cols]
	switch {
	case l.a.Grad:
		p.grad()
	case l.a.OverWords:
		p.words()
	default:
		p.regions()
	}
}

// attentionPiece is one caption, words [w0, w1), with the regions of columns [col, col+cols).
type attentionPiece[T vec.Float] struct {
	l                 *pairAttention[T]
	w0, w1, col, cols int
	r, ld             int
	x, y, norm, dot   []T
}

// grad goes back through the runs of images that have a gradient with the caption; the other images get 0.
func (p *attentionPiece[T]) grad() {
	end := p.col + p.cols
	for at := p.col; at < end; {
		to, some := at, p.some(at)
		for to < end && p.some(to) == some {
			to += p.r
		}
		p.col, p.cols = at, to-at
		p.x, p.y, p.norm, p.dot = p.x[:p.cols], p.y[:p.cols], p.norm[:p.cols], p.dot[:p.cols]
		switch {
		case !some:
			for w := p.w0; w < p.w1; w++ {
				p.l.ops.Fill(p.row(p.l.dScores, w), 0)
			}
		case p.l.a.OverWords:
			p.wordsGrad()
		default:
			p.regionsGrad()
		}
		at = to
	}
}

// some reports whether the image whose regions begin at col has a gradient with the caption.
func (p *attentionPiece[T]) some(col int) bool {
	for w := p.w0; w < p.w1; w++ {
		if !p.l.ops.Zero(p.l.dWeights[w*p.ld+col:][:p.r]) {
			return true
		}
	}
	return false
}

func (p *attentionPiece[T]) row(v []T, w int) []T { return v[w*p.ld+p.col:][:p.cols] }

// leaky computes x = leaky(a), with y as scratch memory.
func (p *attentionPiece[T]) leaky(w int) {
	a := p.row(p.l.scores, w)
	p.l.ops.Map[vec.ReLU](p.y, a)
	p.l.ops.Sum2(p.x, a, p.y, pairSlope, 1-pairSlope)
}

// slope multiplies dx by leaky'(a) into da; dx is scratch memory of the piece.
func (p *attentionPiece[T]) slope(w int, dx, tmp []T) {
	p.l.ops.Slope[vec.ReLU](tmp, p.row(p.l.scores, w), dx)
	p.l.ops.Sum2(p.row(p.l.dScores, w), dx, tmp, pairSlope, 1-pairSlope)
}

// columnNorms sets norm to the norms of the columns of x.
func (p *attentionPiece[T]) columnNorms() {
	p.l.ops.Fill(p.norm, 0)
	for w := p.w0; w < p.w1; w++ {
		p.leaky(w)
		p.l.ops.MAdd(p.norm, p.x, p.x)
	}
	for i, v := range p.norm {
		p.norm[i] = T(sqrt(float64(v)))
	}
}

func (p *attentionPiece[T]) regions() {
	ops, r, lambda := p.l.ops, p.r, p.l.a.Lambda
	p.columnNorms()
	for i, v := range p.norm {
		p.norm[i] = T(lambda / (float64(v) + pairEps))
	}
	for w := p.w0; w < p.w1; w++ {
		p.leaky(w)
		out := p.row(p.l.weights, w)
		ops.Mul(out, p.x, p.norm)
		ops.Exp(out, out)
		for at := 0; at < p.cols; at += r {
			one := out[at : at+r]
			ops.Scale(one, one, 1/total(one))
		}
	}
}

func (p *attentionPiece[T]) regionsGrad() {
	ops, r, lambda := p.l.ops, p.r, p.l.a.Lambda
	p.columnNorms()
	ops.Fill(p.dot, 0)
	for w := p.w0; w < p.w1; w++ { // dy/λ, and its product with x for every column
		alpha, d, dy := p.row(p.l.weights, w), p.row(p.l.dWeights, w), p.row(p.l.dScores, w)
		p.leaky(w)
		mean := p.y
		for at := 0; at < p.cols; at += r {
			ops.Fill(mean[at:at+r], T(ops.Dot(alpha[at:at+r], d[at:at+r])))
		}
		ops.Sum2(dy, d, mean, 1, -1)
		ops.Mul(dy, dy, alpha)
		ops.MAdd(p.dot, p.x, dy)
	}
	p.factors(p.norm, p.dot, lambda)
	for w := p.w0; w < p.w1; w++ {
		p.leaky(w)
		dx := p.y
		ops.Mul(dx, p.row(p.l.dScores, w), p.norm)
		ops.MAdd(dx, p.x, p.dot)
		p.slope(w, dx, p.x)
	}
}

// factors replaces ‖x‖ and x·dy by the factors of dx = f·dy + g·x, times lambda.
func (p *attentionPiece[T]) factors(norm, dot []T, lambda float64) {
	for i, v := range norm {
		f, g := normFactors(float64(v), float64(dot[i]), pairEps)
		norm[i], dot[i] = T(lambda*f), T(lambda*g)
	}
}

// inverses sets the first elements of norm to the norm of the regions of every image.
func (p *attentionPiece[T]) rowNorms() {
	for i := 0; i*p.r < p.cols; i++ {
		p.norm[i] = T(sqrt(p.l.ops.Sumsq(p.x[i*p.r : (i+1)*p.r])))
	}
}

func (p *attentionPiece[T]) words() {
	ops, r, lambda := p.l.ops, p.r, p.l.a.Lambda
	sum := p.dot
	ops.Fill(sum, 0)
	for w := p.w0; w < p.w1; w++ {
		p.leaky(w)
		p.rowNorms()
		out := p.row(p.l.weights, w)
		for i := 0; i*r < p.cols; i++ {
			ops.Scale(out[i*r:(i+1)*r], p.x[i*r:(i+1)*r], T(lambda/(float64(p.norm[i])+pairEps)))
		}
		ops.Exp(out, out)
		ops.Add(sum, sum, out)
	}
	for i, v := range sum {
		sum[i] = 1 / v
	}
	for w := p.w0; w < p.w1; w++ {
		out := p.row(p.l.weights, w)
		ops.Mul(out, out, sum)
	}
}

func (p *attentionPiece[T]) wordsGrad() {
	ops, r, lambda := p.l.ops, p.r, p.l.a.Lambda
	mean := p.dot
	ops.Fill(mean, 0)
	for w := p.w0; w < p.w1; w++ {
		ops.MAdd(mean, p.row(p.l.weights, w), p.row(p.l.dWeights, w))
	}
	for w := p.w0; w < p.w1; w++ {
		alpha, d, dy := p.row(p.l.weights, w), p.row(p.l.dWeights, w), p.row(p.l.dScores, w)
		for i, v := range alpha {
			dy[i] = T(lambda) * v * (d[i] - mean[i])
		}
		p.leaky(w)
		p.rowNorms()
		dx := p.y
		for i := 0; i*r < p.cols; i++ {
			x, g := p.x[i*r:(i+1)*r], dy[i*r:(i+1)*r]
			f, h := normFactors(float64(p.norm[i]), ops.Dot(x, g), pairEps)
			ops.Sum2(dx[i*r:(i+1)*r], g, x, T(f), T(h))
		}
		p.slope(w, dx, p.x)
	}
}

// total adds numbers in four sums, which need not wait for each other.
func total[T vec.Float](x []T) T {
	var s0, s1, s2, s3 T
	for ; len(x) >= 4; x = x[4:] {
		s0, s1, s2, s3 = s0+x[0], s1+x[1], s2+x[2], s3+x[3]
	}
	for _, v := range x {
		s0 += v
	}
	return (s0 + s1) + (s2 + s3)
}
