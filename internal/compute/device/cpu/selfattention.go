package cpu

import (
	"math"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/vec"
)

// Self-attention of captions (device.SelfAttention; Vaswani et al.: "Attention Is All You Need", NIPS 2017, section
// 3.2), one caption an index. With Q, K, V [n, d] of the head, M the mask of the dropout divided by 1 - rate:
//
//	P = softmax(Q Kᵀ/√d)    C = (M∘P) V
//	dV = (M∘P)ᵀ dC    dP = M∘(dC Vᵀ)    dS = P∘(dP - rowsum(P∘dP))/√d    dQ = dS K    dK = dSᵀ Q
//
// The matrices of a head stay in the first cache; P is computed again for the gradient.
type selfAttentionLoop[T vec.Float] struct {
	ops        *vec.Ops[T]
	a          device.SelfAttention
	drop       drops[T]
	size, most int     // columns of a head; longest caption
	ld         int     // distance between rows of queries, keys, values
	factor     T       // 1/√d
	start      []int   // first row of each caption, and the number of rows
	tokens     []int32 // [B, L] or nil
	q, k, v, c []T
	dc         []T
	dq, dk, dv []T
	local      []T      // [workers, 3·most²]
	words      []uint32 // [workers, most²]
}

func (d *dev[T]) SelfAttention(a device.SelfAttention) {
	l := &d.selfAttend
	*l = selfAttentionLoop[T]{ops: d.ops, a: a, drop: d.drops(a.Drop), size: a.D / a.Heads, ld: a.LD,
		start: starts(l.start, a.Lengths.Host, same), local: l.local, words: l.words, tokens: d.integers(a.Words.View),
		q: d.values(a.Query), k: d.values(a.Key), v: d.values(a.Value)}
	if a.Grad {
		l.dc, l.dq, l.dk, l.dv = d.values(a.DContext), d.values(a.DQuery), d.values(a.DKey), d.values(a.DValue)
	} else {
		l.c = d.values(a.Context)
	}
	l.factor = T(1 / math.Sqrt(float64(l.size)))
	for _, n := range a.Lengths.Host {
		l.most = max(l.most, int(n))
	}
	scratch(&l.local, d.pool.Threads()*3*l.most*l.most)
	if l.drop.active() {
		reserve(&l.words, d.pool.Threads()*l.most*l.most)
	}
	d.pool.For(len(a.Lengths.Host), l)
}

func (d *dev[T]) SelfAttentionGrad(a device.SelfAttention) {
	d.SelfAttention(a)
	l := &d.selfAttend
	rows, sums := l.start[len(l.start)-1], d.values(a.DBias)
	switch q, k, v := a.DQuery, a.DKey, a.DValue; {
	case sums == nil:
	case l.ld == 3*a.D && q.Buf == k.Buf && k.Buf == v.Buf && q.Off+a.D == k.Off && k.Off+a.D == v.Off && rows > 0:
		d.columnSum(sums, d.values(device.View{Buf: q.Buf, Off: q.Off, N: rows * l.ld}), rows, l.ld)
	default:
		for i, x := range [][]T{l.dq, l.dk, l.dv} {
			d.columnSum(sums[i*a.D:(i+1)*a.D], x, rows, l.ld)
		}
	}
}

// head is one head of one caption.
type head[T vec.Float] struct {
	n      int      // rows
	at, in int      // first element of the head in contexts, and in queries, keys, values
	masked []int32  // word of each row, nil if none is masked
	words  []uint32 // draws of the dropout, [n, n]
}

// Do works on the heads of caption b. Each takes a few columns of many rows far apart, which the processor does not
// foresee, so all rows are prefetched at the beginning.
func (l *selfAttentionLoop[T]) Do(worker, b int) {
	n := int(l.a.Lengths.Host[b])
	l.fetch(b, n)
	x := head[T]{n: n}
	if l.tokens != nil {
		x.masked = masked(l.tokens[b*l.a.L:][:n])
	}
	for h := range l.a.Heads {
		x.at, x.in = l.start[b]*l.a.D+h*l.size, l.start[b]*l.ld+h*l.size
		if l.drop.active() {
			x.words = l.words[worker*l.most*l.most:][:n*n]
			l.drop.draw(x.words, l.start[b], h*n*n)
		}
		l.head(x, l.local[worker*3*l.most*l.most:])
	}
}

// fetch prefetches what the n rows of caption b read and write.
func (l *selfAttentionLoop[T]) fetch(b, n int) {
	for r := l.start[b]; r < l.start[b]+n; r++ {
		for _, m := range [...][]T{l.q, l.k, l.v, l.dq, l.dk, l.dv} {
			if m != nil {
				l.ops.Fetch(m[r*l.ld:][:l.a.D])
			}
		}
		for _, m := range [...][]T{l.c, l.dc} {
			if m != nil {
				l.ops.Fetch(m[r*l.a.D:][:l.a.D])
			}
		}
	}
}

// head works on one head with scratch memory.
func (l *selfAttentionLoop[T]) head(x head[T], local []T) {
	n := x.n
	p, dp, masked := local[:n*n], local[n*n:2*n*n], local[2*n*n:3*n*n]
	l.weights(x, p)
	if l.a.Grad {
		l.backward(x, p, dp, masked)
		return
	}
	if x.words != nil {
		l.drop.apply(l.ops, p, p, x.words)
	}
	l.ops.MixRows(l.c[x.at:], l.a.D, p, n, 1, l.v[x.in:], l.ld, n, l.size, n)
}

// masked returns the words if some but not all of them are 0, else nil.
func masked(words []int32) []int32 {
	zeros := 0
	for _, w := range words {
		if w == 0 {
			zeros++
		}
	}
	if zeros == 0 || zeros == len(words) {
		return nil
	}
	return words
}

// row is row r of the head in a matrix [T, D].
func (l *selfAttentionLoop[T]) row(m []T, x head[T], r int) []T { return m[x.at+r*l.a.D:][:l.size] }

// part is row r of the head in queries, keys, values or their gradients.
func (l *selfAttentionLoop[T]) part(m []T, x head[T], r int) []T { return m[x.in+r*l.ld:][:l.size] }

// weights writes P to p. What is masked is -Inf before the softmax and 0 after it.
func (l *selfAttentionLoop[T]) weights(x head[T], p []T) {
	n := x.n
	for r := range n {
		l.ops.Dots(p[r*n:(r+1)*n], l.part(l.q, x, r), l.k[x.in:], l.ld)
	}
	x.mask(p, T(math.Inf(-1)))
	l.ops.Softmax(p, n, l.factor)
	x.mask(p, 0)
}

// mask sets the columns of masked words in p.
func (x *head[T]) mask(p []T, value T) {
	for j, word := range x.masked {
		if word == 0 {
			for r := range x.n {
				p[r*x.n+j] = value
			}
		}
	}
}

// backward uses masked for M∘P.
func (l *selfAttentionLoop[T]) backward(x head[T], p, dp, masked []T) {
	n := x.n
	for r := range n {
		l.ops.Dots(dp[r*n:(r+1)*n], l.row(l.dc, x, r), l.v[x.in:], l.ld)
	}
	if x.words != nil {
		l.drop.apply(l.ops, masked, p, x.words)
		l.drop.apply(l.ops, dp, dp, x.words)
	} else {
		masked = p
	}
	l.ops.SoftmaxGrad(dp, p, n, l.factor)
	l.ops.MixRows(l.dq[x.in:], l.ld, dp, n, 1, l.k[x.in:], l.ld, n, l.size, n)
	l.ops.MixRows(l.dv[x.in:], l.ld, masked, 1, n, l.dc[x.at:], l.a.D, n, l.size, n)
	l.ops.MixRows(l.dk[x.in:], l.ld, dp, 1, n, l.q[x.in:], l.ld, n, l.size, n)
}
