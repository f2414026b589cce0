package definitions

import "vsetrain/internal/compute/device"

type recurrent struct{ *Device }

// step is step t of a run through packed sequences: rows [start, start+n) of packed values.
type step struct{ n, start int }

func stepAt(p *device.Packing, i int, reverse bool) step {
	t := i
	if reverse {
		t = p.Steps() - 1 - i
	}
	return step{p.Active(t), p.Start(t)}
}

// of returns the rows of the step.
func (s step) of(v device.View, width int) device.View {
	return v.Slice(s.start*width, (s.start+s.n)*width)
}

// GRU computes the part of the words as one product; each step is a cell.
func (k recurrent) GRU(a device.GRU) {
	defer k.Give(k.Use())
	p, h := a.Lengths.Packing(), a.H
	b := len(a.Lengths.Host)
	device.Do(k, device.Gemm{TransB: true, M: p.Rows(), N: 3 * h, K: a.I, Alpha: 1, A: a.X, B: a.WIH, C: a.Gates,
		LDC: 4 * h, Bias: a.BIH, Even: true})
	state, hidden := a.Final, k.Floats(b*3*h)
	if !state.Present() {
		state = k.Floats(b * h)
	}
	device.Do(k, device.Fill{Dst: state})
	for i := range p.Steps() {
		s := stepAt(p, i, a.Reverse)
		before, y := state.Slice(0, s.n*h), s.of(a.Y, h)
		device.Do(k, device.Gemm{TransB: true, M: s.n, N: 3 * h, K: h, Alpha: 1, A: before, B: a.WHH, C: hidden,
			Bias: a.BHH, Even: true})
		device.Do(k, device.GRUCell{N: s.n, H: h, Gates: s.of(a.Gates, 4*h), Hidden: hidden, Before: before, Y: y,
			Prev: s.of(a.Prev, h)})
		device.Do(k, device.Copy{Dst: before, Src: y})
	}
}

// GRUGrad goes back through time, and then computes the gradients of the weights from those of all gates.
func (k recurrent) GRUGrad(a device.GRU) {
	defer k.Give(k.Use())
	p, h := a.Lengths.Packing(), a.H
	b := len(a.Lengths.Host)
	carry := k.Filled(b*h, 0)
	if a.DFinal.Present() {
		device.Do(k, device.Copy{Dst: carry, Src: a.DFinal})
	}
	for i := p.Steps() - 1; i >= 0; i-- {
		s := stepAt(p, i, a.Reverse)
		c := device.GRUCell{N: s.n, H: h, Gates: s.of(a.Gates, 4*h), Prev: s.of(a.Prev, h), Carry: carry.Slice(0,
			s.n*h)}
		if a.DY.Present() {
			c.DY = s.of(a.DY, h)
		}
		device.DoGrad(k, c)
		device.Do(k, device.Gemm{M: s.n, N: h, K: 3 * h, Alpha: 1, Beta: 1, A: after(c.Gates, h), LDA: 4 * h, B: a.WHH,
			C: c.Carry, Even: true})
	}
	k.weights(&a, p.Rows())
}

// after is v without its first n elements.
func after(v device.View, n int) device.View { return v.Slice(n, v.N) }

// weights computes DX and the gradients of the weights from the gradients of the gates: n, r, z, hn in every row.
func (k recurrent) weights(a *device.GRU, n int) {
	defer k.Give(k.Use())
	h, in := a.H, a.I
	gates := a.Gates
	rz := after(gates, h)
	even := func(g device.Gemm) {
		g.Alpha, g.LDA, g.Even = 1, 4*h, true
		device.Do(k, g)
	}
	if a.DX.Present() {
		even(device.Gemm{M: n, N: in, K: 2 * h, A: rz, B: a.WIH, C: a.DX})
		even(device.Gemm{M: n, N: in, K: h, Beta: 1, A: gates, B: a.WIH.Slice(2*h*in, 3*h*in), C: a.DX})
	}
	if a.DWIH.Present() {
		even(device.Gemm{TransA: true, M: 2 * h, N: in, K: n, A: rz, B: a.X, C: a.DWIH.Slice(0, 2*h*in)})
		even(device.Gemm{TransA: true, M: h, N: in, K: n, A: gates, B: a.X, C: a.DWIH.Slice(2*h*in, 3*h*in)})
	}
	if a.DWHH.Present() {
		even(device.Gemm{TransA: true, M: 3 * h, N: h, K: n, A: rz, B: a.Prev, C: a.DWHH})
	}
	sums := k.Floats(4 * h)
	k.sumAll(sums, gates, n, 4*h)
	if a.DBIH.Present() {
		device.Do(k, device.Copy{Dst: a.DBIH.Slice(0, 2*h), Src: sums.Slice(h, 3*h)})
		device.Do(k, device.Copy{Dst: a.DBIH.Slice(2*h, 3*h), Src: sums.Slice(0, h)})
	}
	if a.DBHH.Present() {
		device.Do(k, device.Copy{Dst: a.DBHH, Src: after(sums, h)})
	}
}

// direction returns the arguments of one direction.
func direction(a *device.BiGRU, i int) device.GRU {
	return device.GRU{I: a.I, H: a.H, Lengths: a.Lengths, Reverse: i == 1, X: a.X, GRUDirection: a.Directions[i]}
}

func (k recurrent) BiGRU(a device.BiGRU) {
	defer k.Give(k.Use())
	final := k.Floats(len(a.Lengths.Host) * a.H)
	for i, states := range [...]device.View{a.Y, a.Work} {
		g := direction(&a, i)
		g.Y, g.Final = states, final
		device.Do(k, g)
	}
	k.combine(a.Y, a.Y, a.Work, 0.5, 0.5)
}

func (k recurrent) BiGRUGrad(a device.BiGRU) {
	defer k.Give(k.Use())
	rows := a.Lengths.Packing().Rows()
	dy, other := a.Work.Slice(0, rows*a.H), device.View{}
	k.times(dy, a.DY, 0.5)
	if a.DX.Present() {
		other = a.Work.Slice(rows*a.H, rows*(a.H+a.I))
	}
	for i, dx := range [...]device.View{a.DX, other} {
		g := direction(&a, i)
		g.DY, g.DX = dy, dx
		device.DoGrad(k, g)
	}
	if a.DX.Present() {
		k.combine(a.DX, a.DX, other, 1, 1)
	}
}

type cells struct{ *Device }

// split returns the parts of x [N, parts·H].
func (k cells) split(x device.View, n, parts, h int) [4]device.View {
	all := k.Floats(n * parts * h)
	device.Do(k, device.SwapAxes{Dst: all, X: x.Slice(0, n*parts*h), A: n, B: parts, Inner: h})
	var out [4]device.View
	for i := range parts {
		out[i] = all.Slice(i*n*h, (i+1)*n*h)
	}
	return out
}

// join writes four parts to x [N, 4H].
func (k cells) join(x device.View, n, h int, parts [4]device.View) {
	defer k.Give(k.Use())
	all := k.Floats(n * 4 * h)
	for i, p := range parts {
		device.Do(k, device.Copy{Dst: all.Slice(i*n*h, (i+1)*n*h), Src: p})
	}
	device.Do(k, device.SwapAxes{Dst: x.Slice(0, n*4*h), X: all, A: 4, B: n, Inner: h})
}

func (k cells) GRUCell(a device.GRUCell) {
	defer k.Give(k.Use())
	size := a.N * a.H
	g, hidden := k.split(a.Gates, a.N, 4, a.H), k.split(a.Hidden, a.N, 3, a.H)
	before, y, prev := a.Before, a.Y, a.Prev
	r, z, n := g[0], g[1], g[2]
	for i, gate := range [...]device.View{r, z} {
		k.combine(gate, gate, hidden[i], 1, 1)
		device.Do(k, device.Activate{F: device.Sigmoid, Y: gate, X: gate})
	}
	x := k.Floats(size)
	device.Do(k, device.Multiply{Dst: x, A: r, B: hidden[2]})
	k.combine(n, n, x, 1, 1)
	device.Do(k, device.Activate{F: device.Tanh, Y: n, X: n})
	device.Do(k, device.Copy{Dst: prev, Src: before})
	k.combine(x, before, n, 1, -1)
	device.Do(k, device.Multiply{Dst: x, A: x, B: z})
	k.combine(y, n, x, 1, 1)
	k.join(a.Gates, a.N, a.H, [4]device.View{r, z, n, hidden[2]})
}

func (k cells) GRUCellGrad(a device.GRUCell) {
	defer k.Give(k.Use())
	size := a.N * a.H
	g := k.split(a.Gates, a.N, 4, a.H)
	r, z, n, hn := g[0], g[1], g[2], g[3]
	prev, carry := a.Prev, a.Carry
	dh, dn, dr, dz, dhn := k.Floats(size), k.Floats(size), k.Floats(size), k.Floats(size), k.Floats(size)
	device.Do(k, device.Copy{Dst: dh, Src: carry})
	if a.DY.Present() {
		k.combine(dh, dh, a.DY, 1, 1)
	}
	device.Do(k, device.Multiply{Dst: carry, A: dh, B: z})
	k.combine(dn, dh, carry, 1, -1) // dh·(1-z)
	device.DoGrad(k, device.Activate{F: device.Tanh, DX: dn, Y: n, DY: dn})
	k.combine(dz, prev, n, 1, -1)
	device.Do(k, device.Multiply{Dst: dz, A: dz, B: dh})
	device.DoGrad(k, device.Activate{F: device.Sigmoid, DX: dz, Y: z, DY: dz})
	device.Do(k, device.Multiply{Dst: dr, A: dn, B: hn})
	device.DoGrad(k, device.Activate{F: device.Sigmoid, DX: dr, Y: r, DY: dr})
	device.Do(k, device.Multiply{Dst: dhn, A: dn, B: r})
	k.join(a.Gates, a.N, a.H, [4]device.View{dn, dr, dz, dhn})
}
