package cpu

import (
	"vsetrain/internal/device"
	"vsetrain/internal/vec"
)

// The gradient of BlockMatch. For a node with block norm q, context norm s and cosine m = n/(q s), the numerator n gets dm/(q s), s² gets
// -dm m/(2 s²) and the block x itself -dm m/q² · x; where q s < 1e-8 only the numerator gets anything, dm/1e-8. Then
//
//	dα_t = Σ_b dn^b∘A_t^b + 2 ds^b∘(G^b α)_t    dG^b_tl = Σ_k ds_k α_tk α_lk    dA^b_t = α_t∘dn^b + β_t∘dn'^b
//
// likewise for β, and with the products dW^b = dA^b V^b + 2 dG^b W^b, dV^b = (dA^b)ᵀ W^b + 2 dG'^b V^b. A is made again.

// BlockMatchGrad implements device.Matching.
func (d *dev[T]) BlockMatchGrad(a device.BlockMatchArgs) {
	const what = "BlockMatchGrad"
	m := d.beginMatch(what, a)
	rows := a.B * a.R
	m.dWordMatch, m.dRegMatch = d.floats("BlockMatchGrad DWordMatch", a.DWordMatch, a.B*m.t*a.Blocks), d.floats("BlockMatchGrad DRegionMatch", a.DRegionMatch, m.c*rows*a.Blocks)
	m.dWords, m.dRegions = d.floats("BlockMatchGrad DWords", a.DWords, m.t*a.E), d.floats("BlockMatchGrad DRegions", a.DRegions, rows*a.E)
	m.dWordAtt, m.dRegAtt = d.floats("BlockMatchGrad DWordAttention", a.DWordAttention, m.t*rows), d.floats("BlockMatchGrad DRegionAttention", a.DRegionAttention, m.t*rows)
	m.dCapGrams, m.dImgGrams = scratch(&m.dCapGrams, m.gramAt[m.c]), scratch(&m.dImgGrams, len(m.imgGrams))
	m.wordPull = scratch(&m.wordPull, m.t*a.Blocks)
	clear(m.dCapGrams)
	clear(m.wordPull)
	for m.image = 0; m.image < a.B; m.image += m.per {
		m.multiply()
		d.pool.For(m.images, &m.imgBack)
		d.pool.For(m.c, &m.capBack)
		m.product = product[T]{transA: true, m: m.columns, n: m.width, k: m.t, alpha: 1, beta: 1, a: m.tile, lda: m.columns,
			b: m.words, ldb: a.E, c: m.dRegions[m.image*a.R*a.E:], ldc: a.E}
		d.products.gemm(&m.product, a.Blocks, m.t*m.columns, m.width, m.width)
		m.product = product[T]{m: m.t, n: m.width, k: m.columns, alpha: 1, a: m.tile, lda: m.columns,
			b: m.regions[m.image*a.R*a.E:], ldb: a.E, c: m.dWords, ldc: a.E}
		if m.image > 0 {
			m.product.beta = 1
		}
		d.products.gemm(&m.product, a.Blocks, m.t*m.columns, m.width, m.width)
	}
	d.pool.For(m.c, &m.finish)
}

// slopes returns the gradients of the numerator and of the squared norm of the context, and what the block itself is multiplied by.
func slopes[T vec.Float](dm, cos, q, ctx T) (dot, square, pull T) {
	if s := q * ctx; s >= cosineFloor {
		g := dm * cos
		return dm / s, -g / (2 * ctx * ctx), -g / (q * q)
	}
	return dm / cosineFloor, 0, 0
}

// matchContextGrad goes back from the norms of the contexts of all words in an image to its regions and the words' attention, which it
// writes first; and from the regions' matches to the regions themselves.
type matchContextGrad[T vec.Float] struct{ *blockMatch[T] }

func (m *matchContextGrad[T]) Do(worker, i int) {
	image, r := m.image+i, m.a.R
	work := m.work[worker]
	x, dx := work[:r*matchLanes], work[r*matchLanes:][:r*matchLanes]
	tmp, z, ds := work[2*r*matchLanes:], work[(2*r+1)*matchLanes:], work[(2*r+2)*matchLanes:]
	grams := m.dImgGrams[image*m.a.Blocks*r*r:][:m.a.Blocks*r*r]
	clear(grams)
	for lo := 0; lo < m.t; lo += matchLanes {
		hi := min(m.t, lo+matchLanes)
		w := hi - lo
		tmp, z, ds := tmp[:w], z[:w], ds[:w]
		m.turn(x, m.wordAtt, image, lo, hi)
		m.ops.Fill(dx, 0)
		for b := range m.a.Blocks {
			for t := lo; t < hi; t++ {
				at := (image*m.t+t)*m.a.Blocks + b
				_, ds[t-lo], _ = slopes(m.dWordMatch[at], m.wordMatch[at], m.wordNorm[t*m.a.Blocks+b], m.wordCtx[at])
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
		for t := lo; t < hi; t++ {
			out := m.dWordAtt[(t*m.a.B+image)*r:][:r]
			for k := range out {
				out[k] = dx[k*matchLanes+t-lo]
			}
		}
	}
	m.regionsOf(image, grams)
}

// regionsOf writes the gradient of the regions of an image, as far as it does not go through the products.
func (m *blockMatch[T]) regionsOf(image int, grams []T) {
	r := m.a.R
	for k := range r {
		for b := range m.a.Blocks {
			q := m.regNorm[(image*r+k)*m.a.Blocks+b]
			var pull T
			for c := range m.c {
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
	n, lo, r, cols := m.first[c+1]-m.first[c], m.first[c], m.a.R, m.columns
	work := m.work[worker]
	dot, ds, tmp, z := work[:cols], work[cols:2*cols], work[2*cols:3*cols], work[3*cols:4*cols]
	gram, dgram := m.capGrams[m.gramAt[c]:m.gramAt[c+1]], m.dCapGrams[m.gramAt[c]:m.gramAt[c+1]]
	for j := range n {
		m.ops.Fill(m.row(m.dRegAtt, lo+j), 0)
	}
	for b := range m.a.Blocks {
		for i := range m.images {
			for k := range r {
				at := (((m.image+i)*m.c+c)*r+k)*m.a.Blocks + b
				dot[i*r+k], ds[i*r+k], _ = slopes(m.dRegMatch[at], m.regMatch[at], m.regNorm[((m.image+i)*r+k)*m.a.Blocks+b], m.regCtx[at])
			}
		}
		g, dg := gram[b*n*n:][:n*n], dgram[b*n*n:][:n*n]
		for j := range n {
			alpha, dAlpha := m.row(m.regionAtt, lo+j), m.row(m.dRegAtt, lo+j)
			beta, dBeta := m.row(m.wordAtt, lo+j), m.row(m.dWordAtt, lo+j)
			m.ops.Mul(z, alpha, ds)
			m.ops.Fill(tmp, 0)
			for l := range n {
				m.ops.Axpy(tmp, m.row(m.regionAtt, lo+l), 2*g[j*n+l])
				if l <= j {
					dg[j*n+l] += T(m.ops.Dot(z, m.row(m.regionAtt, lo+l)))
				}
			}
			m.ops.MAdd(dAlpha, tmp, ds)
			row := m.block(b, lo+j)
			m.ops.MAdd(dAlpha, row, dot)
			for i := range m.images {
				at := ((m.image+i)*m.t+lo+j)*m.a.Blocks + b
				dn, _, pull := slopes(m.dWordMatch[at], m.wordMatch[at], m.wordNorm[(lo+j)*m.a.Blocks+b], m.wordCtx[at])
				m.wordPull[(lo+j)*m.a.Blocks+b] += pull
				block := row[i*r : (i+1)*r]
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
