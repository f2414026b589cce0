package cpu

import (
	"vsetrain/internal/device"
	"vsetrain/internal/vec"
)

// A step of reasoning on the graphs of all pairs (device.ReasonArgs), block by block of the captions of an image. Back, from dP =
// dOut∘(Out > 0), with the attention A = softmax(Y Xᵀ) and E = A X made again:
//
//	dW += dPᵀ E    dE = dP W    dA = dE Xᵀ    dX = Aᵀ dE    dS = A∘(dA - Σ A∘dA)    dY = dS X    dX += dSᵀ Y    dM += Xᵀ dY    dX += dY Mᵀ
type reasoning[T vec.Float] struct {
	ops        *vec.Ops[T]
	single     []single[T]
	spaces     []workspace[T]
	a          device.ReasonArgs
	layout     pairLayout
	back       bool
	block      int // nodes of a block
	room       int // rows of a block at most
	x, v, bias []T
	y, out     []T
	m, w       packed[T] // M and Wᵀ, or back Mᵀ and W
	forwardM   packed[T] // M, back with First
	dOut, dX   []T
	dM, dV     []T // sums of the lanes
	dW, dB     []T
}

// Nodes of a block: with First, only one in some fifteen has a row in the products.
const reasonBlock, firstBlock = 256, 2048

func (d *dev[T]) beginReason(what string, a device.ReasonArgs, back bool) *reasoning[T] {
	positive(what, a.B, a.S)
	l := &d.reasoning
	l.ops, l.a, l.back, l.single, l.spaces = d.ops, a, back, d.singles(), d.workspaces()
	l.layout.set(a.Lengths.Host)
	l.block = reasonBlock
	if a.First {
		l.block = firstBlock
	}
	l.room = max(l.block, l.layout.longest+1)
	n := a.B * l.layout.nodes() * a.S
	for i := range l.spaces { // any worker may get any lane
		w, most := &l.spaces[i], (l.layout.longest+1)*(l.layout.longest+1)
		scratch(&w.s, most)
		scratch(&w.t, most)
		for _, b := range [...]*[]T{&w.a, &w.b, &w.c, &w.u, &w.firsts[0], &w.firsts[1]} {
			scratch(b, l.room*a.S)
		}
	}
	l.x = d.floats("GraphReason X", a.X, n)
	l.y = nil
	if a.Y.Present() && !a.First {
		l.y = d.floats("GraphReason Y", a.Y, n)
	}
	if a.First {
		n = a.B * len(l.layout.lengths) * a.S
	}
	l.out = d.floats("GraphReason Out", a.Out, n)
	l.v = d.floats("GraphReason V", a.V, a.S)
	return l
}

// GraphReason implements device.Pairs.
func (d *dev[T]) GraphReason(a device.ReasonArgs) {
	l := d.beginReason("GraphReason", a, false)
	l.bias = d.floats("GraphReason Bias", a.Bias, a.S)
	d.packW(&l.m, false, a.S, a.S, d.floats("GraphReason M", a.M, a.S*a.S), a.S)
	d.packW(&l.w, true, a.S, a.S, d.floats("GraphReason W", a.W, a.S*a.S), a.S)
	d.pool.For(laneCount(a.B), l)
}

// GraphReasonGrad implements device.Pairs.
func (d *dev[T]) GraphReasonGrad(a device.ReasonArgs) {
	l := d.beginReason("GraphReasonGrad", a, true)
	square := a.S * a.S
	d.packW(&l.m, true, a.S, a.S, d.floats("GraphReasonGrad M", a.M, square), a.S)
	d.packW(&l.forwardM, false, a.S, a.S, d.floats("GraphReasonGrad M", a.M, square), a.S)
	d.packW(&l.w, false, a.S, a.S, d.floats("GraphReasonGrad W", a.W, square), a.S)
	l.dOut, l.dX = d.floats("GraphReasonGrad DOut", a.DOut, len(l.out)), d.floats("GraphReasonGrad DX", a.DX, len(l.x))
	dM, dV := d.floats("GraphReasonGrad DM", a.DM, square), d.floats("GraphReasonGrad DV", a.DV, a.S)
	dW, dB := d.floats("GraphReasonGrad DW", a.DW, square), d.floats("GraphReasonGrad DBias", a.DBias, a.S)
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
	w := &l.spaces[worker]
	p := l.layout.nodes()
	for b := lo; b < hi; b++ {
		for c := 0; c < len(l.layout.lengths); {
			end := l.layout.block(c, l.block)
			at := l.layout.captions[c]
			rows := l.layout.first[end] + end - at
			k := reasonPiece[T]{l: l, w: w, one: l.single[worker], image: b, c0: c, c1: end, at: at, rows: rows, base: (b*p + at) * l.a.S, lane: i}
			switch {
			case l.a.First && l.back:
				k.firstGrad()
			case l.a.First:
				k.first()
			case l.back:
				k.allGrad()
			default:
				k.all()
			}
			c = end
		}
	}
}

// reasonPiece is a block of captions [c0, c1) of an image; base is where their nodes begin.
type reasonPiece[T vec.Float] struct {
	l             *reasoning[T]
	w             *workspace[T]
	one           single[T]
	image, c0, c1 int
	at, rows      int
	base, lane    int
}

// multiply computes c = a·b (+ beta c), all of S columns or n as given.
func (k *reasonPiece[T]) multiply(transA, transB bool, m, n, inner int, a []T, lda int, b []T, ldb int, beta T, c []T, ldc int) {
	k.w.p = product[T]{transA: transA, transB: transB, m: m, n: n, k: inner, alpha: 1, beta: beta, a: a, lda: lda, b: b, ldb: ldb, c: c, ldc: ldc}
	k.one.gemm(&k.w.p)
}

// weight computes c = a·b + bias for a packed weight.
func (k *reasonPiece[T]) weight(rows int, a []T, b *packed[T], bias []T, beta T, c []T) {
	s := k.l.a.S
	k.w.p = product[T]{m: rows, n: s, k: s, alpha: 1, beta: beta, a: a, lda: s, c: c, ldc: s, bias: bias}
	k.one.gemmPacked(&k.w.p, b)
}

// softmax replaces the rows of x [rows, n] by their softmax.
func (k *reasonPiece[T]) softmax(x []T, n int) {
	for at := 0; at < len(x); at += n {
		row := x[at : at+n]
		top := row[0]
		for _, v := range row {
			top = max(top, v)
		}
		for j := range row {
			row[j] -= top
		}
	}
	k.l.ops.Exp(x, x)
	for at := 0; at < len(x); at += n {
		row := x[at : at+n]
		var sum T
		for _, v := range row {
			sum += v
		}
		inv := 1 / sum
		for j := range row {
			row[j] *= inv
		}
	}
}

// softmaxGrad replaces da by a∘(da - Σ a∘da), rows of n.
func softmaxGrad[T vec.Float](a, da []T, n int) {
	for at := 0; at < len(a); at += n {
		x, d := a[at:at+n], da[at:at+n]
		var mean T
		for j, v := range x {
			mean += v * d[j]
		}
		for j, v := range x {
			d[j] = v * (d[j] - mean)
		}
	}
}

func (k *reasonPiece[T]) all() {
	l, s := k.l, k.l.a.S
	x := l.x[k.base:][:k.rows*s]
	y, e := k.w.a[:k.rows*s], k.w.b[:k.rows*s]
	if l.y != nil {
		y = l.y[k.base:][:k.rows*s]
	}
	k.weight(k.rows, x, &l.m, l.v, 0, y)
	for c := k.c0; c < k.c1; c++ {
		at, n := l.layout.span(c)
		lo := (at - k.at) * s
		k.attend(x[lo:lo+n*s], y[lo:lo+n*s], e[lo:lo+n*s], n)
	}
	out := l.out[k.base:][:k.rows*s]
	k.weight(k.rows, e, &l.w, l.bias, 0, out)
	l.ops.Map[vec.ReLU](out, out)
}

// attend computes A = softmax(Y Xᵀ) into w.s and E = A X.
func (k *reasonPiece[T]) attend(x, y, e []T, n int) {
	s, a := k.l.a.S, k.w.s[:n*n]
	k.multiply(false, true, n, n, s, y, s, x, s, 0, a, n)
	k.softmax(a, n)
	k.multiply(false, false, n, s, n, a, n, x, s, 0, e, s)
}

func (k *reasonPiece[T]) allGrad() {
	l, s, w := k.l, k.l.a.S, k.w
	size := k.rows * s
	x, dx := l.x[k.base:][:size], l.dX[k.base:][:size]
	var y []T
	if l.y != nil {
		y = l.y[k.base:][:size]
	} else {
		y = scratch(&w.firsts[0], size)
		k.weight(k.rows, x, &l.forwardM, l.v, 0, y)
	}
	dP, e, dE, dY := w.a[:size], w.b[:size], w.c[:size], w.u[:size]
	l.ops.Slope[vec.ReLU](dP, l.out[k.base:][:size], l.dOut[k.base:][:size])
	k.weight(k.rows, dP, &l.w, nil, 0, dE)
	for c := k.c0; c < k.c1; c++ {
		at, n := l.layout.span(c)
		lo, hi := (at-k.at)*s, (at-k.at+n)*s
		x, y, e, dE, dx, a, dA := x[lo:hi], y[lo:hi], e[lo:hi], dE[lo:hi], dx[lo:hi], w.s[:n*n], w.t[:n*n]
		k.attend(x, y, e, n)
		k.multiply(false, true, n, n, s, dE, s, x, s, 0, dA, n)
		k.multiply(true, false, n, s, n, a, n, dE, s, 0, dx, s)
		softmaxGrad(a, dA, n)
		k.multiply(false, false, n, s, n, dA, n, x, s, 0, dY[lo:hi], s)
		k.multiply(true, false, n, s, n, dA, n, y, s, 1, dx, s)
	}
	k.sums(k.rows, dP, e, x, dY)
	k.weight(k.rows, dY, &l.m, nil, 1, dx)
}

// sums adds the gradients of the weights: dW += dPᵀ e, dM += xᵀ dY.
func (k *reasonPiece[T]) sums(rows int, dP, e, x, dY []T) {
	l, s := k.l, k.l.a.S
	k.multiply(true, false, s, s, rows, dP, s, e, s, 1, l.dW[k.lane*s*s:][:s*s], s)
	k.multiply(true, false, s, s, rows, x, s, dY, s, 1, l.dM[k.lane*s*s:][:s*s], s)
	addRows(l.ops, l.dB[k.lane*s:][:s], dP, rows)
	addRows(l.ops, l.dV[k.lane*s:][:s], dY, rows)
}

// gather copies node 0 of every pair of the block.
func (k *reasonPiece[T]) gather(to []T) {
	s := k.l.a.S
	for c := k.c0; c < k.c1; c++ {
		copy(to[(c-k.c0)*s:(c-k.c0+1)*s], k.l.x[k.base+(k.l.layout.captions[c]-k.at)*s:])
	}
}

// readout computes q = x_0 M + v into w.a, and for every pair the weights of its nodes, each call of f with those of a pair in w.s.
func (k *reasonPiece[T]) readout(m *packed[T], f func(c int, x, q, a []T)) {
	l, s := k.l, k.l.a.S
	k.gather(k.w.u)
	k.weight(k.c1-k.c0, k.w.u, m, l.v, 0, k.w.a)
	for c := k.c0; c < k.c1; c++ {
		at, n := l.layout.span(c)
		lo := k.base + (at-k.at)*s
		x, q, a := l.x[lo:lo+n*s], k.w.a[(c-k.c0)*s:][:s], k.w.s[:n]
		l.ops.Dots(a, q, x, s)
		k.softmax(a, n)
		f(c, x, q, a)
	}
}

func (k *reasonPiece[T]) first() {
	l, s, w := k.l, k.l.a.S, k.w
	k.readout(&l.m, func(c int, x, _, a []T) { l.ops.Mix(w.b[(c-k.c0)*s:][:s], a, x, s) })
	n := k.c1 - k.c0
	out := l.out[(k.image*len(l.layout.lengths)+k.c0)*s:][:n*s]
	k.weight(n, w.b, &l.w, l.bias, 0, out)
	l.ops.Map[vec.ReLU](out, out)
}

func (k *reasonPiece[T]) firstGrad() {
	l, s, w, ops := k.l, k.l.a.S, k.w, k.l.ops
	n := k.c1 - k.c0
	at := (k.image*len(l.layout.lengths) + k.c0) * s
	dP, e, dE, dQ := scratch(&w.firsts[0], n*s), w.b[:n*s], w.c[:n*s], scratch(&w.firsts[1], n*s)
	ops.Slope[vec.ReLU](dP, l.out[at:at+n*s], l.dOut[at:at+n*s])
	k.weight(n, dP, &l.w, nil, 0, dE)
	k.readout(&l.forwardM, func(c int, x, q, a []T) {
		lo := (c - k.c0) * s
		de, dq, da := dE[lo:lo+s], dQ[lo:lo+s], w.t[:len(a)]
		ops.Mix(e[lo:lo+s], a, x, s)
		ops.Dots(da, de, x, s)
		softmaxGrad(a, da, len(a))
		ops.Mix(dq, da, x, s)
		dx := l.dX[k.base+(l.layout.captions[c]-k.at)*s:]
		for j, v := range a {
			ops.Sum2(dx[j*s:(j+1)*s], de, q, v, da[j])
		}
	})
	k.sums(n, dP, e, w.u[:n*s], dQ)
	k.weight(n, dQ, &l.m, nil, 0, dE)
	for c := k.c0; c < k.c1; c++ {
		dx := l.dX[k.base+(l.layout.captions[c]-k.at)*s:][:s]
		ops.Add(dx, dx, dE[(c-k.c0)*s:][:s])
	}
}
