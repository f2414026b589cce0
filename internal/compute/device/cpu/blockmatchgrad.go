package cpu

import (
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/vec"
)

// The gradient of BlockMatch. For a node with block norm q, context norm s and cosine m = n/(q s), the numerator n gets
// dm/(q s), s² gets -dm m/(2 s²) and the block x itself -dm m/q² · x; where q s < 1e-8 only the numerator gets
// anything, dm/1e-8. Then
//
//	dα_t = Σ_b dn^b∘A_t^b + 2 ds^b∘(G^b α)_t    dG^b_tl = Σ_k ds_k α_tk α_lk    dA^b_t = α_t∘dn^b + β_t∘dn'^b
//
// likewise for β, and with the products dW^b = dA^b V^b + 2 dG^b W^b, dV^b = (dA^b)ᵀ W^b + 2 dG'^b V^b. A is made
// again. Pairs without gradient are passed over.

func (d *dev[T]) BlockMatchGrad(a device.BlockMatch) {
	m := d.beginMatch(a)
	m.dWordMatch, m.dRegMatch = d.values(a.DWordMatch), d.values(a.DRegionMatch)
	m.dWords, m.dRegions = d.values(a.DWords), d.values(a.DRegions)
	m.dWordAtt, m.dRegAtt = d.values(a.DWordAttention), d.values(a.DRegionAttention)
	m.dCapGrams, m.dImgGrams = scratch(&m.dCapGrams, m.gramAt[m.c]), scratch(&m.dImgGrams, len(m.imgGrams))
	m.wordPull = scratch(&m.wordPull, m.t*a.Blocks)
	clear(m.dCapGrams)
	clear(m.wordPull)
	clear(m.dWords)
	m.sparse.find()
	for m.image = 0; m.image < a.B; m.image += m.per {
		words := m.sparse.take()
		m.multiply(words)
		d.pool.For(m.images, &m.imgBack)
		d.pool.For(m.c, &m.capBack)
		if m.taken == 0 {
			continue
		}
		m.product = product[T]{transA: true, m: m.columns, n: m.width, k: m.taken, alpha: 1, beta: 1, a: m.tile,
			lda: m.columns, b: words, ldb: a.E, c: m.dRegions[m.image*a.R*a.E:], ldc: a.E}
		d.products.gemm(&m.product, a.Blocks, m.taken*m.columns, m.width, m.width)
		m.product = product[T]{m: m.taken, n: m.width, k: m.columns, alpha: 1, beta: 1, a: m.tile, lda: m.columns,
			b: m.regions[m.image*a.R*a.E:], ldb: a.E, c: m.dWords, ldc: a.E}
		if m.taken < m.t {
			m.product.beta, m.product.c = 0, m.sparse.few
		}
		d.products.gemm(&m.product, a.Blocks, m.taken*m.columns, m.width, m.width)
		if m.taken < m.t {
			m.sparse.put()
		}
	}
	d.pool.For(m.c, &m.finish)
}

// slopes returns the gradients of the numerator and of the squared norm of the context, and what the block itself is
// multiplied by.
func slopes[T vec.Float](dm, cos, q, ctx T) (dot, square, pull T) {
	if s := q * ctx; s >= cosineFloor {
		g := dm * cos
		return dm / s, -g / (2 * ctx * ctx), -g / (q * q)
	}
	return dm / cosineFloor, 0, 0
}

// matchContextGrad goes back from the norms of the contexts of all words in an image to its regions and the words'
// attention, which it writes first; and from the regions' matches to the regions themselves.
type matchContextGrad[T vec.Float] struct{ *blockMatch[T] }

func (m *matchContextGrad[T]) Do(worker, i int) {
	image, r := m.image+i, m.a.R
	grams := m.dImgGrams[image*m.a.Blocks*r*r:][:m.a.Blocks*r*r]
	clear(grams)
	var list [matchLanes]int
	n := 0
	for c := range m.c {
		live := m.sparse.has(image, c)
		for t := m.first[c]; t < m.first[c+1]; t++ {
			if !live {
				m.ops.Fill(m.dWordAtt[(t*m.a.B+image)*r:][:r], 0)
				continue
			}
			list[n] = t
			if n++; n == matchLanes {
				m.some(worker, image, list[:n], grams)
				n = 0
			}
		}
	}
	if n > 0 {
		m.some(worker, image, list[:n], grams)
	}
	m.regionsOf(image, grams)
}

// some goes back from the contexts of at most matchLanes words.
func (m *matchContextGrad[T]) some(worker, image int, words []int, grams []T) {
	r, w := m.a.R, len(words)
	work := m.work[worker]
	x, dx := work[:r*matchLanes], work[r*matchLanes:][:r*matchLanes]
	tmp, z, ds := work[2*r*matchLanes:][:w], work[(2*r+1)*matchLanes:][:w], work[(2*r+2)*matchLanes:][:w]
	m.transposeColumns(x, m.wordAtt, image, words)
	m.ops.Fill(dx, 0)
	for b := range m.a.Blocks {
		for n, t := range words {
			at := (image*m.t+t)*m.a.Blocks + b
			_, ds[n], _ = slopes(m.dWordMatch[at], m.wordMatch[at], m.wordNorm[t*m.a.Blocks+b], m.wordCtx[at])
		}
		gram, dgram := m.imgGrams[(image*m.a.Blocks+b)*r*r:][:r*r], grams[b*r*r:][:r*r]
		for k := range r {
			row := x[k*matchLanes:][:w]
			m.ops.Mul(z, row, ds)
			m.ops.Fill(tmp, 0)
			for l := range r {
				m.ops.Axpy(tmp, x[l*matchLanes:][:w], 2*gram[k*r+l])
				if l <= k {
					dgram[k*r+l] += T(m.ops.Dot(z, x[l*matchLanes:][:w]))
				}
			}
			m.ops.MAdd(dx[k*matchLanes:][:w], tmp, ds)
		}
	}
	for n, t := range words {
		out := m.dWordAtt[(t*m.a.B+image)*r:][:r]
		for k := range out {
			out[k] = dx[k*matchLanes+n]
		}
	}
}

// regionsOf writes the gradient of the regions of an image, as far as it does not go through the products.
func (m *blockMatch[T]) regionsOf(image int, grams []T) {
	r := m.a.R
	for k := range r {
		for b := range m.a.Blocks {
			q := m.regNorm[(image*r+k)*m.a.Blocks+b]
			var pull T
			for c := range m.c {
				if !m.sparse.has(image, c) {
					continue
				}
				at := ((image*m.c+c)*r+k)*m.a.Blocks + b
				_, _, p := slopes(m.dRegMatch[at], m.regMatch[at], q, m.regCtx[at])
				pull += p
			}
			out := m.dRegions[(image*r+k)*m.a.E+b*m.width:][:m.width]
			m.pulled(out, m.regions[image*r*m.a.E:], grams[b*r*r:], k, b, r, pull)
		}
	}
}

// pulled computes pull·x_k + 2 Σ_l dG_kl x_l for block b of row k of x, from the lower triangle of dG.
func (m *blockMatch[T]) pulled(out, x, gram []T, k, b, n int, pull T) {
	m.ops.Scale(out, x[k*m.a.E+b*m.width:][:m.width], pull+2*gram[k*n+k])
	for l := range n {
		if l != k {
			m.ops.Axpy(out, x[l*m.a.E+b*m.width:][:m.width], 2*gram[max(k, l)*n+min(k, l)])
		}
	}
}

// matchCaptionGrad goes back through a caption with the images of the group, and turns A into dA.
type matchCaptionGrad[T vec.Float] struct{ *blockMatch[T] }

func (m *matchCaptionGrad[T]) Do(worker, c int) {
	for lo := 0; lo < m.images; {
		hi, live := lo, m.sparse.has(m.image+lo, c)
		for hi < m.images && m.sparse.has(m.image+hi, c) == live {
			hi++
		}
		if live {
			m.some(worker, c, lo, hi)
		} else {
			m.none(c, lo, hi)
		}
		lo = hi
	}
}

// none writes the zeros of images [from, to) of the group.
func (m *matchCaptionGrad[T]) none(c, from, to int) {
	lo, hi := from*m.a.R, to*m.a.R
	for j := range m.first[c+1] - m.first[c] {
		m.ops.Fill(m.row(m.dRegAtt, m.first[c]+j)[lo:hi], 0)
		if at := m.sparse.start[c]; at >= 0 {
			for b := range m.a.Blocks {
				m.ops.Fill(m.block(b, at+j)[lo:hi], 0)
			}
		}
	}
}

// some goes back through the images [from, to) of the group.
func (m *matchCaptionGrad[T]) some(worker, c, from, to int) {
	n, first, r := m.first[c+1]-m.first[c], m.first[c], m.a.R
	lo, hi := from*r, to*r
	cols, row := hi-lo, func(x []T, t int) []T { return m.row(x, first+t)[lo:hi] }
	work := m.work[worker]
	dot, ds, tmp, z := work[:cols], work[cols:2*cols], work[2*cols:3*cols], work[3*cols:4*cols]
	gram, dgram := m.capGrams[m.gramAt[c]:m.gramAt[c+1]], m.dCapGrams[m.gramAt[c]:m.gramAt[c+1]]
	for j := range n {
		m.ops.Fill(row(m.dRegAtt, j), 0)
	}
	for b := range m.a.Blocks {
		for k := range cols {
			region := m.image*r + lo + k
			at := ((region/r*m.c+c)*r+region%r)*m.a.Blocks + b
			dot[k], ds[k], _ = slopes(m.dRegMatch[at], m.regMatch[at], m.regNorm[region*m.a.Blocks+b], m.regCtx[at])
		}
		g, dg := gram[b*n*n:][:n*n], dgram[b*n*n:][:n*n]
		for j := range n {
			alpha, dAlpha, beta, dBeta := row(m.regionAtt, j), row(m.dRegAtt, j), row(m.wordAtt, j), row(m.dWordAtt, j)
			m.ops.Mul(z, alpha, ds)
			m.ops.Fill(tmp, 0)
			for l := range n {
				m.ops.Axpy(tmp, row(m.regionAtt, l), 2*g[j*n+l])
				if l <= j {
					dg[j*n+l] += T(m.ops.Dot(z, row(m.regionAtt, l)))
				}
			}
			m.ops.MAdd(dAlpha, tmp, ds)
			a := m.block(b, m.sparse.start[c]+j)[lo:hi]
			m.ops.MAdd(dAlpha, a, dot)
			for i := range to - from {
				at := ((m.image+from+i)*m.t+first+j)*m.a.Blocks + b
				dn, _, pull := slopes(m.dWordMatch[at], m.wordMatch[at], m.wordNorm[(first+j)*m.a.Blocks+b],
					m.wordCtx[at])
				m.wordPull[(first+j)*m.a.Blocks+b] += pull
				block := a[i*r : (i+1)*r]
				m.ops.Axpy(dBeta[i*r:(i+1)*r], block, dn)
				m.ops.Mul(block, alpha[i*r:(i+1)*r], dot[i*r:(i+1)*r]) // A has served
				m.ops.Axpy(block, beta[i*r:(i+1)*r], dn)
			}
		}
	}
}

// matchFinish adds to the gradient of the words of a caption what does not go through the products.
type matchFinish[T vec.Float] struct{ *blockMatch[T] }

func (m *matchFinish[T]) Do(worker, c int) {
	n, lo := m.first[c+1]-m.first[c], m.first[c]
	out := m.work[worker][:m.width]
	words, grams := m.words[lo*m.a.E:], m.dCapGrams[m.gramAt[c]:]
	for j := range n {
		for b := range m.a.Blocks {
			m.pulled(out, words, grams[b*n*n:], j, b, n, m.wordPull[(lo+j)*m.a.Blocks+b])
			row := m.dWords[(lo+j)*m.a.E+b*m.width:][:m.width]
			m.ops.Add(row, row, out)
		}
	}
}
