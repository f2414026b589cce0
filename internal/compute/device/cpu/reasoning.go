package cpu

import (
	"slices"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/vec"
)

// A step of reasoning on the graphs of all pairs (device.GraphReason), block by block of the pairs of a lane; back,
// of those that have a gradient, from dP = dOut∘(Out > 0), with the attention A = softmax(Y Xᵀ) and E = A X computed
// again:
//
//	dW += dPᵀ E    dE = dP W    dA = dE Xᵀ    dX = Aᵀ dE    dS = A∘(dA - Σ A∘dA)
//	dY = dS X    dX += dSᵀ Y    dM += Xᵀ dY    dX += dY Mᵀ
type reasoning[T vec.Float] struct {
	ops        *vec.Ops[T]
	single     []single[T]
	spaces     []workspace[T]
	a          device.GraphReason
	layout     pairLayout
	block      int // nodes of a block
	capacity   int // rows of a block at most
	x, v, bias []T
	y, out     []T
	wanted     []T       // nil: all pairs
	m, w       packed[T] // M and Wᵀ, or back Mᵀ and W
	forwardM   packed[T] // M, back with First
	dOut, dX   []T
	dM, dV     []T // sums of the lanes
	dW, dB     []T
}

// Nodes of a block: with First, only one in some fifteen has a row in the products.
const reasonBlock, firstBlock = 256, 2048

func (d *dev[T]) beginReason(a device.GraphReason) *reasoning[T] {
	l := &d.reasoning
	l.ops, l.a, l.single, l.spaces = d.ops, a, d.singles(), d.workspaces()
	l.layout.set(a.Lengths.Host)
	l.block = reasonBlock
	if a.First {
		l.block = firstBlock
	}
	l.capacity = max(l.block, l.layout.longest+1)
	for i := range l.spaces { // any worker may get any lane
		w, most := &l.spaces[i], (l.layout.longest+1)*(l.layout.longest+1)
		scratch(&w.s, most)
		scratch(&w.t, most)
		for _, b := range [...]*[]T{&w.a, &w.b, &w.c, &w.u, &w.firsts[0], &w.firsts[1], &w.x, &w.dX} {
			scratch(b, l.capacity*a.S)
		}
		w.pairs = slices.Grow(w.pairs[:0], l.capacity)
	}
	l.x, l.v, l.bias, l.out = d.values(a.X), d.values(a.V), d.values(a.Bias), d.values(a.Out)
	l.wanted = d.values(a.Wanted)
	if l.y = nil; !a.First {
		l.y = d.values(a.Y)
	}
	return l
}

func (d *dev[T]) GraphReason(a device.GraphReason) {
	l := d.beginReason(a)
	d.packW(&l.m, false, a.S, a.S, d.values(a.M), a.S)
	d.packW(&l.w, true, a.S, a.S, d.values(a.W), a.S)
	d.pool.For(laneCount(a.B), l)
}

func (d *dev[T]) GraphReasonGrad(a device.GraphReason) {
	l := d.beginReason(a)
	square := a.S * a.S
	d.packW(&l.m, true, a.S, a.S, d.values(a.M), a.S)
	d.packW(&l.forwardM, false, a.S, a.S, d.values(a.M), a.S)
	d.packW(&l.w, false, a.S, a.S, d.values(a.W), a.S)
	l.dOut, l.dX = d.values(a.DOut), d.values(a.DX)
	dM, dV := d.values(a.DM), d.values(a.DV)
	dW, dB := d.values(a.DW), d.values(a.DBias)
	n := laneCount(a.B)
	d.ops.Fill(scratch(&l.dM, n*square), 0)
	d.ops.Fill(scratch(&l.dW, n*square), 0)
	d.ops.Fill(scratch(&l.dV, n*a.S), 0)
	d.ops.Fill(scratch(&l.dB, n*a.S), 0)
	d.pool.For(n, l)
	d.columnSum(dM, l.dM, n, square)
	d.columnSum(dW, l.dW, n, square)
	d.columnSum(dV, l.dV, n, a.S)
	d.columnSum(dB, l.dB, n, a.S)
}

func (l *reasoning[T]) Do(worker, i int) {
	lo, hi := lane(l.a.B, i)
	k := reasonPiece[T]{l: l, w: &l.spaces[worker], one: l.single[worker], lane: i, s: l.a.S}
	k.w.pairs = k.w.pairs[:0]
	for p := lo * len(l.layout.lengths); p < hi*len(l.layout.lengths); p++ {
		_, n := l.layout.pair(p)
		if l.a.Grad && l.ops.Zero(l.result(l.dOut, p)) {
			l.ops.Fill(l.nodes(l.dX, p), 0)
			continue
		}
		skip := !l.a.Grad && l.wanted != nil && l.wanted[p] == 0
		if k.rows > 0 && (skip || k.rows+n > l.block) { // the pairs of a block lie side by side
			k.run()
		}
		if skip {
			if l.a.First {
				l.ops.Fill(l.result(l.out, p), 0)
			}
			continue
		}
		k.w.pairs = append(k.w.pairs, p)
		k.rows += n
	}
	if k.rows > 0 {
		k.run()
	}
}

// nodes returns the rows of a pair in a matrix [B·P, S].
func (l *reasoning[T]) nodes(x []T, p int) []T {
	at, n := l.layout.pair(p)
	return x[at*l.a.S : (at+n)*l.a.S]
}

// result returns the rows of a pair in Out or DOut.
func (l *reasoning[T]) result(x []T, p int) []T {
	if l.a.First {
		return x[p*l.a.S : (p+1)*l.a.S]
	}
	return l.nodes(x, p)
}

// reasonPiece is a block of pairs of a lane, w.pairs in rising order, of so many nodes.
type reasonPiece[T vec.Float] struct {
	l       *reasoning[T]
	w       *workspace[T]
	one     single[T]
	rows    int
	lane, s int
}

// run works through the block and empties it.
func (k *reasonPiece[T]) run() {
	switch {
	case k.l.a.First && k.l.a.Grad:
		k.firstGrad()
	case k.l.a.First:
		k.first()
	case k.l.a.Grad:
		k.allGrad()
	default:
		k.all()
	}
	k.w.pairs, k.rows = k.w.pairs[:0], 0
}

// dense reports whether no pair lies between those of the block, so that their nodes are one range.
func (k *reasonPiece[T]) dense() bool {
	n := len(k.w.pairs)
	return k.w.pairs[n-1]-k.w.pairs[0] == n-1
}

// span returns the nodes of a block with nothing between its pairs in x [B·P, S].
func (k *reasonPiece[T]) span(x []T) []T {
	at, _ := k.l.layout.pair(k.w.pairs[0])
	return x[at*k.s:][:k.rows*k.s]
}

// gather returns the nodes of the block in x [B·P, S], as they lie there or else copied.
func (k *reasonPiece[T]) gather(x []T, to *[]T) []T {
	if k.dense() {
		return k.span(x)
	}
	at := 0
	for _, p := range k.w.pairs {
		at += copy((*to)[at:], k.l.nodes(x, p))
	}
	return (*to)[:at]
}

// multiply computes c = a·b (+ beta c), all of S columns or n as given.
func (k *reasonPiece[T]) multiply(transA, transB bool, m, n, inner int, a []T, lda int, b []T, ldb int, beta T, c []T,
	ldc int) {
	k.w.p = product[T]{transA: transA, transB: transB, m: m, n: n, k: inner, alpha: 1, beta: beta, a: a, lda: lda, b: b,
		ldb: ldb, c: c, ldc: ldc}
	k.one.gemm(&k.w.p)
}

// weight computes c = a·b + bias for a packed weight.
func (k *reasonPiece[T]) weight(rows int, a []T, b *packed[T], bias []T, beta T, c []T) {
	s := k.l.a.S
	k.w.p = product[T]{m: rows, n: s, k: s, alpha: 1, beta: beta, a: a, lda: s, c: c, ldc: s, bias: bias}
	k.one.gemmPacked(&k.w.p, b)
}

func (k *reasonPiece[T]) all() {
	l, s := k.l, k.s
	x, y, e := k.span(l.x), k.w.a[:k.rows*s], k.w.b[:k.rows*s]
	if l.y != nil {
		y = k.span(l.y)
	}
	k.weight(k.rows, x, &l.m, l.v, 0, y)
	lo := 0
	for _, p := range k.w.pairs {
		_, n := l.layout.pair(p)
		hi := lo + n*s
		k.attend(x[lo:hi], y[lo:hi], e[lo:hi], n)
		lo = hi
	}
	out := k.span(l.out)
	k.weight(k.rows, e, &l.w, l.bias, 0, out)
	l.ops.Map[vec.ReLU](out, out)
}

// attend computes A = softmax(Y Xᵀ) into w.s and E = A X.
func (k *reasonPiece[T]) attend(x, y, e []T, n int) {
	s, a := k.l.a.S, k.w.s[:n*n]
	k.multiply(false, true, n, n, s, y, s, x, s, 0, a, n)
	k.l.ops.Softmax(a, n, 1)
	k.multiply(false, false, n, s, n, a, n, x, s, 0, e, s)
}

func (k *reasonPiece[T]) allGrad() {
	l, s, w := k.l, k.s, k.w
	size := k.rows * s
	x, dx := k.gather(l.x, &w.x), w.dX[:size]
	if k.dense() {
		dx = k.span(l.dX)
	}
	var y []T
	if l.y != nil {
		y = k.gather(l.y, &w.firsts[0])
	} else {
		y = w.firsts[0][:size]
		k.weight(k.rows, x, &l.forwardM, l.v, 0, y)
	}
	dP, e, dE, dY := w.a[:size], w.b[:size], w.c[:size], w.u[:size]
	k.slope(dP)
	k.weight(k.rows, dP, &l.w, nil, 0, dE)
	lo := 0
	for _, p := range w.pairs {
		_, n := l.layout.pair(p)
		hi := lo + n*s
		x, y, e, dE, dx, a, dA := x[lo:hi], y[lo:hi], e[lo:hi], dE[lo:hi], dx[lo:hi], w.s[:n*n], w.t[:n*n]
		k.attend(x, y, e, n)
		k.multiply(false, true, n, n, s, dE, s, x, s, 0, dA, n)
		k.multiply(true, false, n, s, n, a, n, dE, s, 0, dx, s)
		l.ops.SoftmaxGrad(dA, a, n, 1)
		k.multiply(false, false, n, s, n, dA, n, x, s, 0, dY[lo:hi], s)
		k.multiply(true, false, n, s, n, dA, n, y, s, 1, dx, s)
		lo = hi
	}
	k.sums(k.rows, dP, e, x, dY)
	k.weight(k.rows, dY, &l.m, nil, 1, dx)
	if k.dense() {
		return
	}
	lo = 0
	for _, p := range w.pairs {
		lo += copy(l.nodes(l.dX, p), dx[lo:])
	}
}

// slope computes dP for the pairs of the block.
func (k *reasonPiece[T]) slope(dP []T) {
	lo := 0
	for _, p := range k.w.pairs {
		out := k.l.result(k.l.out, p)
		k.l.ops.Slope[vec.ReLU](dP[lo:lo+len(out)], out, k.l.result(k.l.dOut, p))
		lo += len(out)
	}
}

// sums adds the gradients of the weights: dW += dPᵀ e, dM += xᵀ dY.
func (k *reasonPiece[T]) sums(rows int, dP, e, x, dY []T) {
	l, s := k.l, k.s
	k.multiply(true, false, s, s, rows, dP, s, e, s, 1, l.dW[k.lane*s*s:][:s*s], s)
	k.multiply(true, false, s, s, rows, x, s, dY, s, 1, l.dM[k.lane*s*s:][:s*s], s)
	addRows(l.ops, l.dB[k.lane*s:][:s], dP, rows)
	addRows(l.ops, l.dV[k.lane*s:][:s], dY, rows)
}

// readout computes q = x_0 M + v into w.a from the first nodes in w.u, and for every pair, row r of the block, the
// weights of its nodes, each call of f with those of a pair in w.s.
func (k *reasonPiece[T]) readout(m *packed[T], f func(r, p int, x, q, a []T)) {
	l, s := k.l, k.s
	for r, p := range k.w.pairs {
		copy(k.w.u[r*s:(r+1)*s], l.nodes(l.x, p))
	}
	k.weight(len(k.w.pairs), k.w.u, m, l.v, 0, k.w.a)
	for r, p := range k.w.pairs {
		x, q := l.nodes(l.x, p), k.w.a[r*s:(r+1)*s]
		a := k.w.s[:len(x)/s]
		l.ops.Dots(a, q, x, s)
		l.ops.Softmax(a, len(a), 1)
		f(r, p, x, q, a)
	}
}

func (k *reasonPiece[T]) first() {
	l, s, w := k.l, k.s, k.w
	k.readout(&l.m, func(r, _ int, x, _, a []T) { l.ops.Mix(w.b[r*s:(r+1)*s], a, x, s) })
	n := len(w.pairs)
	out := l.out[w.pairs[0]*s:][:n*s]
	k.weight(n, w.b, &l.w, l.bias, 0, out)
	l.ops.Map[vec.ReLU](out, out)
}

func (k *reasonPiece[T]) firstGrad() {
	l, s, w, ops := k.l, k.s, k.w, k.l.ops
	n := len(w.pairs)
	dP, e, dE, dQ := w.firsts[0][:n*s], w.b[:n*s], w.c[:n*s], w.firsts[1][:n*s]
	k.slope(dP)
	k.weight(n, dP, &l.w, nil, 0, dE)
	k.readout(&l.forwardM, func(r, p int, x, q, a []T) {
		lo, hi := r*s, (r+1)*s
		de, dq, da, dx := dE[lo:hi], dQ[lo:hi], w.t[:len(a)], l.nodes(l.dX, p)
		ops.Mix(e[lo:hi], a, x, s)
		ops.Dots(da, de, x, s)
		ops.SoftmaxGrad(da, a, len(a), 1)
		ops.Mix(dq, da, x, s)
		for j, v := range a {
			ops.Sum2(dx[j*s:(j+1)*s], de, q, v, da[j])
		}
	})
	k.sums(n, dP, e, w.u[:n*s], dQ)
	k.weight(n, dQ, &l.m, nil, 0, dE)
	for r, p := range w.pairs {
		dx := l.nodes(l.dX, p)[:s]
		ops.Add(dx, dx, dE[r*s:(r+1)*s])
	}
}
