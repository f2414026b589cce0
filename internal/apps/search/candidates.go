package search

import (
	"cmp"
	"context"
	"math"
	"slices"

	"vsetrain/internal/compute/gemm"
	"vsetrain/internal/compute/par"
)

// batchImages is how many images are compared with all queries at a time: their scores fit into a processor cache.
const batchImages = 16384

// candidates compares all queries with all images in the fastest products of the processor. For each query it leaves in
// near the images that may be among its best k, by the bound of slack.
func (x *Index) candidates(ctx context.Context, members []*embedder, rows [][]float32, near []*nearest) error {
	b := &x.batching
	b.Lock()
	defer b.Unlock()
	if err := x.packImages(ctx, members); err != nil {
		return err
	}
	queries := make([][]float32, len(members)) // operands [asked, E] of each member
	for at := range members {
		queries[at] = make([]float32, len(rows[at]))
	}
	for j, q := range near {
		scale := math.Inf(1) // of this query, for all members
		for at, m := range members {
			scale = min(scale, scaleOf(rows[at][j*m.dim:(j+1)*m.dim], m.dim, b.precision))
		}
		for at, m := range members {
			lo, hi := j*m.dim, (j+1)*m.dim
			o := operand{precision: b.precision, scale: scale}
			o.add(queries[at][lo:hi], rows[at][lo:hi])
			q.slack += slack(m.dim, b.images[at], o)
		}
	}
	n := x.split.NumImages()
	if need := len(near) * min(n, batchImages); len(b.scores) < need {
		b.scores = make([]float32, need)
	}
	scores := b.scores
	for lo := 0; lo < n; lo += batchImages {
		if err := ctx.Err(); err != nil {
			return err
		}
		width := min(batchImages, n-lo)
		for at, m := range members {
			beta := float32(1)
			if at == 0 {
				beta = 0
			}
			b.engine.GemmPacked(&gemm.Args{M: len(near), N: width, K: m.dim, Alpha: float32(1 / b.images[at].scale),
				A: queries[at], LDA: m.dim, Beta: beta, C: scores, LDC: width, Precision: b.precision},
				&b.packed[at][lo/batchImages])
		}
		x.pool.For(len(near), par.Func(func(_, j int) {
			near[j].see(lo, scores[j*width:(j+1)*width])
		}))
	}
	return nil
}

// packImages brings the image embeddings of each member into the layout of the products, once. The caller holds the
// lock of batching.
func (x *Index) packImages(ctx context.Context, members []*embedder) error {
	b := &x.batching
	if b.engine != nil {
		return nil
	}
	images := make([][]float32, len(members)) // [N, E]
	for at, m := range members {
		var err error
		if images[at], err = m.imageRows(ctx); err != nil {
			return err
		}
	}
	e, err := gemm.New(x.pool, gemm.Options{})
	if err != nil {
		return err
	}
	b.precision = e.Fastest()
	n := x.split.NumImages()
	b.packed, b.images = make([][]gemm.Packed, len(images)), make([]operand, len(images))
	for at, rows := range images {
		dim := len(rows) / n
		o := operand{precision: b.precision, scale: scaleOf(rows, dim, b.precision)}
		blocks := make([]gemm.Packed, (n+batchImages-1)/batchImages)
		values := make([]float32, min(n, batchImages)*dim)
		for i := range blocks {
			lo, hi := i*batchImages, min(n, (i+1)*batchImages)
			for j := lo; j < hi; j++ {
				o.add(values[(j-lo)*dim:][:dim], rows[j*dim:(j+1)*dim])
			}
			e.PackB(&blocks[i], true, dim, hi-lo, values, dim, o.precision)
		}
		b.packed[at], b.images[at] = blocks, o
	}
	b.engine = e
	return nil
}

// operand describes how embeddings enter products: multiplied by a power of two and rounded to the precision.
type operand struct {
	precision gemm.Precision
	scale     float64
	length    float64 // the largest length of an embedding, multiplied by scale
	lost      float64 // the largest length of a rounding error
}

// add writes an embedding as operand to dst.
func (o *operand) add(dst, row []float32) {
	var length, lost float64
	for i, v := range row {
		x := float64(v) * o.scale
		switch o.precision {
		case gemm.Int16:
			dst[i] = float32(math.RoundToEven(x))
		case gemm.BF16:
			dst[i] = gemm.RoundBF16(v)
		default:
			dst[i] = v
		}
		d := x - float64(dst[i])
		length, lost = length+x*x, lost+d*d
	}
	o.length, o.lost = max(o.length, math.Sqrt(length)), max(o.lost, math.Sqrt(lost))
}

// scaleOf returns the factor that makes embeddings [N, dim] operands: 1, or for Int16 the largest power of two up to
// 2^60 for which each value is in range, and all lengths after rounding are below √(2^31), so that Σ|a b| ≤ |a| |b| is
// below 2^31.
func scaleOf(rows []float32, dim int, p gemm.Precision) float64 {
	if p != gemm.Int16 {
		return 1
	}
	var largest, squares float64
	for lo := 0; lo < len(rows); lo += dim {
		var s float64
		for _, v := range rows[lo : lo+dim] {
			x := math.Abs(float64(v))
			largest, s = max(largest, x), s+x*x
		}
		squares = max(squares, s)
	}
	scale := 0x1p60
	// Rounding adds at most √dim/2 to a length.
	for scale*largest > gemm.Int16Limit || scale*math.Sqrt(squares)+math.Sqrt(float64(dim))/2 > 46340 {
		scale /= 2
	}
	return scale
}

// slack bounds by how much a product of two operands a' and b' of n values, divided by the scale of a, differs from
// the product of the embeddings a and b, multiplied by the scale of b. Rounding changes the product by
//
//	a·b - a'·b' = a·(b - b') + (a - a')·b'
//
// where each term is at most the product of two lengths. A sum in float32 changes it by n u Σ|a'b'| ≤ n u |a'| |b'|
// with u = 2^-24 in any order (Higham, Accuracy and Stability of Numerical Algorithms, 2002, section 3.1); this is
// doubled for the sum of an ensemble, the rounding of the score and partial products. The last term covers operands
// that are flushed to zero.
func slack(n int, a, b operand) float64 {
	x, y := a.length+a.lost, b.length+b.lost   // at least |a'| and |b'|
	if !(x*y <= 1e37 && x*y/a.scale <= 1e37) { // float32 may overflow
		return math.Inf(1)
	}
	return (a.length*b.lost + a.lost*y + 2*float64(n+16)*0x1p-24*x*y + float64(n)*0x1p-100*(1+x+y)) / a.scale
}

// nearest collects the candidates of one query.
type nearest struct {
	k     int
	slack float64
	most  []float32 // contains the k largest scores seen
	floor float32   // no candidate is below it, and most[0] to most[k-1] are the k largest; meaningful once full
	full  bool
	best  []approx // contains all images seen that may be among the k best
	room  int      // length of best at which cut is called
}

// approx is an image with its score in float32.
type approx struct {
	index int32
	score float32
}

// see adds images lo, lo+1, …
func (n *nearest) see(lo int, scores []float32) {
	if !n.full {
		n.floor = float32(math.Inf(-1))
	}
	for j, s := range scores {
		if s < n.floor { // NaN is kept: exactly reports it
			continue
		}
		if !n.full || s > n.most[n.k-1] {
			if n.most = append(n.most, s); len(n.most) >= 2*n.k+64 {
				n.raise()
			}
		}
		if n.best = append(n.best, approx{int32(lo + j), s}); len(n.best) >= max(n.room, 256) {
			n.cut()
			n.room = 2 * len(n.best)
		}
	}
}

// raise leaves the k largest scores in most and raises the floor: k images beat any image below it by more than both
// errors together.
func (n *nearest) raise() {
	slices.SortFunc(n.most, func(a, b float32) int { return cmp.Compare(b, a) })
	if len(n.most) < n.k {
		return
	}
	n.full, n.most = true, n.most[:n.k]
	n.floor = math.Nextafter32(float32(float64(n.most[n.k-1])-2*n.slack), float32(math.Inf(-1)))
}

func (n *nearest) cut() {
	if n.raise(); n.full {
		n.best = slices.DeleteFunc(n.best, func(a approx) bool { return a.score < n.floor })
	}
}

// exactly returns the best k of the candidates of query j with the same scores as answer.
func exactly(members []*embedder, rows [][]float32, j int, n *nearest) ([]Hit, error) {
	n.cut()
	of := make([]int32, len(n.best))
	for i, a := range n.best {
		of[i] = a.index
	}
	sum, part := make([]float64, len(of)), make([]float64, len(of))
	for at, m := range members {
		images, _ := m.images.made()
		dotSome(part, images, widen(rows[at][j*m.dim:(j+1)*m.dim]), of)
		for i, v := range part {
			sum[i] += v
		}
	}
	meanOf(sum, len(members))
	return top(sum, of, n.k)
}
