package search

import "vsetrain/internal/compute/par"

// dotRows computes the scores of one embedding with rows of a matrix,
//
//	dst[j] = Σ_e x[row j, e] · q[e]        e ascending, in float64
//
// bit for bit as eval.Embeddings does: the product of two float32 values is exact in float64. x is [N, len(q)]; of
// lists the rows, nil takes all in order. Eight rows at a time hide the latency of the sums.
func dotRows(pool *par.Pool, dst []float64, x []float32, q []float64, of []int32) {
	const block = 256 // rows that a thread takes at a time
	n := len(dst)
	pool.For((n+block-1)/block, par.Func(func(_, b int) {
		lo, hi := b*block, min(n, (b+1)*block)
		if of != nil {
			dotSome(dst[lo:hi], x, q, of[lo:hi])
			return
		}
		dotSome(dst[lo:hi], x[lo*len(q):], q, nil)
	}))
}

// dotSome is dotRows on the caller's thread.
func dotSome(dst []float64, x []float32, q []float64, of []int32) {
	row := func(j int) []float32 {
		if of != nil {
			j = int(of[j])
		}
		return x[j*len(q):][:len(q)]
	}
	lo := 0
	for ; lo+8 <= len(dst); lo += 8 {
		dot8(dst[lo:lo+8], q, row(lo), row(lo+1), row(lo+2), row(lo+3), row(lo+4), row(lo+5), row(lo+6), row(lo+7))
	}
	for ; lo < len(dst); lo++ {
		var s float64
		for e, v := range row(lo) {
			s += float64(v) * q[e]
		}
		dst[lo] = s
	}
}

func dot8(dst, q []float64, a, b, c, d, e, f, g, h []float32) {
	n := len(q)
	a, b, c, d, e, f, g, h = a[:n], b[:n], c[:n], d[:n], e[:n], f[:n], g[:n], h[:n]
	var sa, sb, sc, sd, se, sf, sg, sh float64
	for i, v := range q {
		sa += float64(a[i]) * v
		sb += float64(b[i]) * v
		sc += float64(c[i]) * v
		sd += float64(d[i]) * v
		se += float64(e[i]) * v
		sf += float64(f[i]) * v
		sg += float64(g[i]) * v
		sh += float64(h[i]) * v
	}
	copy(dst, []float64{sa, sb, sc, sd, se, sf, sg, sh})
}

func widen(x []float32) []float64 {
	q := make([]float64, len(x))
	for i, v := range x {
		q[i] = float64(v)
	}
	return q
}
