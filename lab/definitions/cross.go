package definitions

import "vsetrain/internal/compute/device"

type crosses struct{ *Device }

// crossed is a pair of an image and a caption: queries [nq, e] and sources [ns, e], with their gradients.
type crossed struct {
	device.CrossScores
	q, s, dq, ds  device.View
	nq, ns        int
	score, dScore device.View
}

// CrossScores works pair by pair, and forms contexts.
func (k crosses) CrossScores(a device.CrossScores) bool {
	there, captions := k.Host(a.B*a.R), len(a.Lengths.Host)
	if a.Mask.Present() {
		k.DownloadDoubles(there, a.Mask)
	}
	score, dScore := a.Scores, a.DScores
	if a.Grad {
		if !a.DRegions.Present() {
			a.DRegions = k.Floats(a.B * a.R * a.E)
		}
		if !a.DWords.Present() {
			a.DWords = k.Floats(a.Words.N)
		}
		device.Do(k, device.Fill{Dst: a.DRegions})
		device.Do(k, device.Fill{Dst: a.DWords})
		score = k.Floats(a.B * captions)
	} else {
		dScore = score
	}
	for i := range a.B {
		rows, first := a.R, 0
		for a.Mask.Present() && rows > 1 && there[i*a.R+rows-1] == 0 {
			rows--
		}
		for c, n := range a.Lengths.Host {
			p := crossed{CrossScores: a, q: rowsAt(a.Words, first, int(n), a.E), nq: int(n),
				s: rowsAt(a.Regions, i*a.R, rows, a.E), ns: rows, score: rowsAt(score, i*captions+c, 1, 1),
				dScore: rowsAt(dScore, i*captions+c, 1, 1)}
			if a.Grad {
				p.dq, p.ds = rowsAt(a.DWords, first, int(n), a.E), rowsAt(a.DRegions, i*a.R, rows, a.E)
			}
			if a.OverWords {
				p.q, p.s, p.dq, p.ds, p.nq, p.ns = p.s, p.q, p.ds, p.dq, p.ns, p.nq
			}
			k.pair(&p)
			first += int(n)
		}
	}
	return true
}

func (k crosses) pair(p *crossed) {
	defer k.Give(k.Use())
	size, queries, sources := p.nq*p.ns, alongSegments(k.Each(1, p.nq), p.ns), alongRows(p.nq, p.ns)
	a, x, n, w := k.Floats(size), k.Floats(size), k.Floats(size), k.Floats(size)
	norm, u, context := k.Floats(p.ns), k.Floats(p.nq), k.Floats(p.nq*p.E)
	k.multiply(false, true, p.nq, p.ns, p.E, p.q, p.s, a, 0)
	most := device.Reduce{Max: true, N: p.nq, D: p.ns, X: a, Y: u, Index: k.Numbers(p.nq).View}
	var cosines cosines
	if p.Max {
		device.Do(k, most)
	} else {
		device.Do(k, device.Copy{Dst: x, Src: a})
		if p.Leaky {
			k.apply(device.LeakyReLU, leak, x, a)
		}
		if p.Softmax {
			k.softmax(n, x, 1, queries)
		} else {
			k.unit(n, x, norm, smallest, queries)
		}
		k.softmax(w, n, p.Lambda, sources)
		k.multiply(false, false, p.nq, p.E, p.ns, w, p.s, context, 0)
		cosines = matching(k).cosine(u, p.q, context, k.Floats(p.nq), p.nq, p.E)
	}
	du := k.pool(p, u)
	if !p.Grad {
		return
	}
	dq, ds, da, dw := k.Floats(p.nq*p.E), k.Floats(p.ns*p.E), k.Floats(size), k.Floats(size)
	device.Do(k, device.Fill{Dst: dq})
	device.Do(k, device.Fill{Dst: ds})
	if p.Max {
		most.X, most.Y = da, du
		device.DoGrad(k, most)
	} else {
		dContext := k.Floats(p.nq * p.E)
		matching(k).cosineGrad(dq, dContext, du, cosines)
		k.multiply(false, true, p.nq, p.ns, p.E, dContext, p.s, dw, 0)
		k.multiply(true, false, p.ns, p.E, p.nq, w, dContext, ds, 0)
		k.softmaxGrad(da, w, dw, p.Lambda, sources)
		if p.Softmax {
			k.softmaxGrad(da, n, da, 1, queries)
		} else {
			k.unitGrad(da, x, norm, da, smallest, queries)
		}
		if p.Leaky {
			k.applyGrad(device.LeakyReLU, leak, da, a, x, da)
		}
	}
	k.multiply(false, false, p.nq, p.E, p.ns, da, p.s, dq, 1)
	k.multiply(true, false, p.ns, p.E, p.nq, da, p.q, ds, 1)
	k.combine(p.dq, p.dq, dq, 1, 1)
	k.combine(p.ds, p.ds, ds, 1, 1)
}

// multiply computes c [m, n] = a b + beta·c.
func (k crosses) multiply(transA, transB bool, m, n, terms int, a, b, c device.View, beta float64) {
	device.Do(k, device.Gemm{TransA: transA, TransB: transB, M: m, N: n, K: terms, Alpha: 1, A: a, B: b, Beta: beta,
		C: c})
}

// pool computes the score, and with Grad returns the gradient of u.
func (k crosses) pool(p *crossed, u device.View) (du device.View) {
	n, w := p.nq, k.Floats(p.nq)
	du = k.Floats(n)
	if p.Grad {
		k.spreadRows(du, p.dScore, 1, n)
	}
	switch p.Pool {
	case device.CrossMaximum:
		most := device.Reduce{Max: true, N: 1, D: n, X: u, Y: p.score, Index: k.Numbers(1).View}
		device.Do(k, most)
		if p.Grad {
			most.X, most.Y = du, p.dScore
			device.DoGrad(k, most)
		}
	case device.CrossLogSumExp:
		k.times(w, u, p.Factor)
		k.apply(device.Exp, 0, w, w)
		k.sumRows(p.score, w, 1, n)
		k.apply(device.Log, 0, p.score, p.score)
		k.softmax(w, u, p.Factor, alongRows(1, n))
		device.Do(k, device.Multiply{Dst: du, A: du, B: w})
		k.times(du, du, p.Factor)
	default:
		k.sumRows(p.score, u, 1, n)
		if p.Pool == device.CrossMean {
			k.times(p.score, p.score, 1/float64(n))
			k.times(du, du, 1/float64(n))
		}
	}
	return du
}
