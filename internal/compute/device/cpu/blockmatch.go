package cpu

import (
	"math"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/vec"
)

// Block cosines of nodes and their contexts (device.BlockMatch; GSMN, layers.py: inter_relations, attention and
// cosine of blocks).
//
// Images are taken in groups, so that a row of a group has a few hundred columns: the regions of its images. For a
// group, the products A^b [T, columns] of all words with its regions come from one batched product. Then every caption
// sums up its numerators and, for the regions, the norms of their contexts; and every image the norms of the contexts
// of the words.
type blockMatch[T vec.Float] struct {
	d   *dev[T]
	ops *vec.Ops[T]
	a   device.BlockMatch

	c, t, width   int // captions, words, values of a block
	first         []int
	gramAt        []int // of each caption in capGrams
	per           int   // images of a group
	image, images int   // first image of the group, number of images
	columns       int   // regions of the group
	taken         int   // words whose products with the group are in tile: all; back, of captions with a gradient

	words, regions     []T
	wordAtt, regionAtt []T // β, α [T, B·R]
	wordMatch, wordCtx []T
	regMatch, regCtx   []T

	wordNorm, regNorm  []T // of the blocks themselves: [T, Blocks], [B·R, Blocks]
	capGrams, imgGrams []T // [Blocks, L, L] for each caption, [B, Blocks, R, R]
	tile               []T // A of the group: [Blocks, taken, columns]

	dWordMatch, dRegMatch []T
	dWords, dRegions      []T
	dWordAtt, dRegAtt     []T
	dCapGrams, dImgGrams  []T
	wordPull              []T // [T, Blocks]: what a block is multiplied by in its own gradient

	work     [][]T // scratch of each worker
	prepares matchPrepare[T]
	captions matchCaption[T]
	contexts matchContext[T]
	sparse   matchSparse[T]
	capBack  matchCaptionGrad[T]
	imgBack  matchContextGrad[T]
	finish   matchFinish[T]
	product  product[T]
}

const (
	matchColumns = 288  // columns of a group, about
	matchLanes   = 256  // words that a piece of the norms of their contexts takes
	cosineFloor  = 1e-8 // least product of norms
)

func (d *dev[T]) beginMatch(a device.BlockMatch) *blockMatch[T] {
	m := &d.match
	m.d, m.ops, m.a, m.c, m.width = d, d.ops, a, len(a.Lengths.Host), a.E/a.Blocks
	m.first = starts(m.first, a.Lengths.Host, same)
	m.gramAt = starts(m.gramAt, a.Lengths.Host, func(n int) int { return a.Blocks * n * n })
	m.t = m.first[m.c]
	rows := a.B * a.R
	m.words, m.regions = d.values(a.Words), d.values(a.Regions)
	m.wordAtt, m.regionAtt = d.values(a.WordAttention), d.values(a.RegionAttention)
	m.wordMatch, m.wordCtx = d.values(a.WordMatch), d.values(a.WordNorm)
	m.regMatch, m.regCtx = d.values(a.RegionMatch), d.values(a.RegionNorm)
	m.per = min(a.B, max(1, matchColumns/a.R))
	m.wordNorm, m.regNorm = scratch(&m.wordNorm, m.t*a.Blocks), scratch(&m.regNorm, rows*a.Blocks)
	m.capGrams, m.imgGrams = scratch(&m.capGrams, m.gramAt[m.c]), scratch(&m.imgGrams, a.B*a.Blocks*a.R*a.R)
	m.tile = scratch(&m.tile, a.Blocks*m.t*m.per*a.R)
	for len(m.work) < d.pool.Threads() {
		m.work = append(m.work, nil)
	}
	need := max(4*m.per*a.R, (2*a.R+3)*matchLanes, m.width)
	for w := range m.work {
		m.work[w] = scratch(&m.work[w], need)
	}
	m.prepares.blockMatch, m.captions.blockMatch, m.contexts.blockMatch = m, m, m
	m.sparse.blockMatch, m.capBack.blockMatch, m.imgBack.blockMatch, m.finish.blockMatch = m, m, m, m
	d.pool.For(m.c+a.B, &m.prepares)
	return m
}

func (d *dev[T]) BlockMatch(a device.BlockMatch) {
	m := d.beginMatch(a)
	for m.image = 0; m.image < a.B; m.image += m.per {
		m.taken = m.t
		m.multiply(m.words)
		d.pool.For(m.c, &m.captions)
		d.pool.For(m.images*pieces(m.t, matchLanes), &m.contexts)
	}
}

// multiply computes the products of the words taken with the regions of a group: A^b = W^b V^bᵀ.
func (m *blockMatch[T]) multiply(words []T) {
	m.group()
	if m.taken == 0 {
		return
	}
	m.product = product[T]{transB: true, m: m.taken, n: m.columns, k: m.width, alpha: 1, a: words, lda: m.a.E,
		b: m.regions[m.image*m.a.R*m.a.E:], ldb: m.a.E, c: m.tile, ldc: m.columns}
	m.d.products.gemm(&m.product, m.a.Blocks, m.width, m.width, m.taken*m.columns)
}

func (m *blockMatch[T]) group() {
	m.images = min(m.per, m.a.B-m.image)
	m.columns = m.images * m.a.R
}

// block returns row t of A^b.
func (m *blockMatch[T]) block(b, t int) []T { return m.tile[(b*m.taken+t)*m.columns:][:m.columns] }

// row returns the columns of the group in row t of a matrix [T, B·R].
func (m *blockMatch[T]) row(x []T, t int) []T {
	return x[(t*m.a.B+m.image)*m.a.R:][:m.columns]
}

// matchPrepare computes norms and Gram matrices of the blocks of one caption or one image.
type matchPrepare[T vec.Float] struct{ *blockMatch[T] }

func (m *matchPrepare[T]) Do(_, i int) {
	if i < m.c {
		lo, hi := m.first[i], m.first[i+1]
		m.grams(m.capGrams[m.gramAt[i]:m.gramAt[i+1]], m.words[lo*m.a.E:hi*m.a.E],
			m.wordNorm[lo*m.a.Blocks:hi*m.a.Blocks], hi-lo)
		return
	}
	i -= m.c
	r, size := m.a.R, m.a.Blocks*m.a.R*m.a.R
	m.grams(m.imgGrams[i*size:(i+1)*size], m.regions[i*r*m.a.E:(i+1)*r*m.a.E],
		m.regNorm[i*r*m.a.Blocks:(i+1)*r*m.a.Blocks], r)
}

// grams computes G^b_jl = x_j^b·x_l^b [Blocks, n, n] and the norms √G_jj [n, Blocks].
func (m *blockMatch[T]) grams(g, x, norm []T, n int) {
	for b := range m.a.Blocks {
		for j := range n {
			v := x[j*m.a.E+b*m.width:][:m.width]
			for l := range j + 1 {
				s := m.ops.Dot(v, x[l*m.a.E+b*m.width:][:m.width])
				g[(b*n+j)*n+l], g[(b*n+l)*n+j] = T(s), T(s)
				if l == j {
					norm[j*m.a.Blocks+b] = T(math.Sqrt(s))
				}
			}
		}
	}
}

// cancelled is the share of the keys' lengths below which the terms of a context cancel so far that its squared norm, a
// sum over Gram matrices, would lose too many digits in float32; the context is then formed.
const cancelled = 1e-3

// cosine returns the cosine of a block of norm q with a context, and the context's norm, from the numerator and the
// squared norm.
func cosine[T vec.Float](dot, q, square T) (cos, norm T) {
	norm = T(math.Sqrt(float64(max(0, square))))
	return dot / max(q*norm, cosineFloor), norm
}

// form computes cosine with the context Σ_j weight_j x_j itself; key j is block b of row j of x, the weights lie stride
// apart.
func (m *blockMatch[T]) form(query, x, weights []T, stride, n, b int, q T) (cos, norm T) {
	var dot, square float64
	for e := b * m.width; e < (b+1)*m.width; e++ {
		var s float64
		for j := range n {
			s += float64(weights[j*stride]) * float64(x[j*m.a.E+e])
		}
		dot += s * float64(query[e])
		square += s * s
	}
	return cosine(T(dot), q, T(square))
}

// matchCaption computes the numerators of a caption with the images of the group, and the matches of the regions.
type matchCaption[T vec.Float] struct{ *blockMatch[T] }

func (m *matchCaption[T]) Do(worker, c int) {
	n, lo, r := m.first[c+1]-m.first[c], m.first[c], m.a.R
	work := m.work[worker]
	tmp, dot, norm, size := work[:m.columns], work[m.columns:2*m.columns], work[2*m.columns:3*m.columns],
		work[3*m.columns:4*m.columns]
	gram := m.capGrams[m.gramAt[c]:m.gramAt[c+1]]
	for b := range m.a.Blocks {
		m.ops.Fill(dot, 0)
		m.ops.Fill(norm, 0)
		m.ops.Fill(size, 0)
		for j := range n {
			row, alpha, beta := m.block(b, lo+j), m.row(m.regionAtt, lo+j), m.row(m.wordAtt, lo+j)
			m.ops.MAdd(dot, alpha, row)
			for i := range m.images {
				m.wordMatch[((m.image+i)*m.t+lo+j)*m.a.Blocks+b] = T(m.ops.Dot(beta[i*r:(i+1)*r], row[i*r:(i+1)*r]))
			}
			m.ops.Scale(tmp, alpha, gram[(b*n+j)*n+j])
			for l := range j {
				m.ops.Axpy(tmp, m.row(m.regionAtt, lo+l), 2*gram[(b*n+j)*n+l])
			}
			m.ops.MAdd(norm, tmp, alpha)
			m.ops.Axpy(size, alpha, m.wordNorm[(lo+j)*m.a.Blocks+b])
		}
		for i := range m.images {
			at := ((m.image+i)*m.c + c) * r * m.a.Blocks
			for k := range r {
				row := (m.image+i)*r + k
				q, s := m.regNorm[row*m.a.Blocks+b], size[i*r+k]
				cos, ctx := cosine(dot[i*r+k], q, norm[i*r+k])
				if norm[i*r+k] < cancelled*s*s {
					cos, ctx = m.form(m.regions[row*m.a.E:], m.words[lo*m.a.E:], m.regionAtt[lo*m.a.B*r+row:], m.a.B*r,
						n, b, q)
				}
				m.regMatch[at+k*m.a.Blocks+b], m.regCtx[at+k*m.a.Blocks+b] = cos, ctx
			}
		}
	}
}

// matchContext computes the norms of the contexts of some words in one image, and their matches.
type matchContext[T vec.Float] struct{ *blockMatch[T] }

// transposeColumns copies the columns of an image in the rows of some words of a matrix [T, B·R] to x [R, matchLanes].
func (m *blockMatch[T]) transposeColumns(x, from []T, image int, words []int) {
	for n, t := range words {
		for k, v := range from[(t*m.a.B+image)*m.a.R:][:m.a.R] {
			x[k*matchLanes+n] = v
		}
	}
}

func (m *matchContext[T]) Do(worker, p int) {
	r, n := m.a.R, pieces(m.t, matchLanes)
	image, lo := m.image+p/n, p%n*matchLanes
	hi := min(m.t, lo+matchLanes)
	w := hi - lo
	work := m.work[worker]
	x, tmp, norm, size := work[:r*matchLanes], work[r*matchLanes:][:w], work[(r+1)*matchLanes:][:w],
		work[(r+2)*matchLanes:][:w]
	var words [matchLanes]int
	for n := range w {
		words[n] = lo + n
	}
	m.transposeColumns(x, m.wordAtt, image, words[:w])
	for b := range m.a.Blocks {
		gram := m.imgGrams[(image*m.a.Blocks+b)*r*r:][:r*r]
		m.ops.Fill(norm, 0)
		m.ops.Fill(size, 0)
		for k := range r {
			m.ops.Scale(tmp, x[k*matchLanes:][:w], gram[k*r+k])
			for l := range k {
				m.ops.Axpy(tmp, x[l*matchLanes:][:w], 2*gram[k*r+l])
			}
			m.ops.MAdd(norm, tmp, x[k*matchLanes:][:w])
			m.ops.Axpy(size, x[k*matchLanes:][:w], m.regNorm[(image*r+k)*m.a.Blocks+b])
		}
		for t := lo; t < hi; t++ {
			at, q, s := (image*m.t+t)*m.a.Blocks+b, m.wordNorm[t*m.a.Blocks+b], size[t-lo]
			cos, ctx := cosine(m.wordMatch[at], q, norm[t-lo])
			if norm[t-lo] < cancelled*s*s {
				cos, ctx = m.form(m.words[t*m.a.E:], m.regions[image*r*m.a.E:], m.wordAtt[(t*m.a.B+image)*r:], 1, r, b,
					q)
			}
			m.wordMatch[at], m.wordCtx[at] = cos, ctx
		}
	}
}
