package cpu

import "vsetrain/internal/device"

// Both directions of a GRU (device.BiGRUArgs), one after the other: each has all cores.

// direction is one of them.
func direction(a *device.BiGRUArgs, k int) device.GRUArgs {
	w := &a.Directions[k]
	return device.GRUArgs{I: a.I, H: a.H, Lengths: a.Lengths, Reverse: k == 1, X: a.X, WIH: w.WIH, WHH: w.WHH, BIH: w.BIH, BHH: w.BHH,
		Gates: w.Gates, Prev: w.Prev, DWIH: w.DWIH, DWHH: w.DWHH, DBIH: w.DBIH, DBHH: w.DBHH}
}

// words is the number of words of a batch.
func words(lengths []int32) (n int) {
	for _, l := range lengths {
		n += int(l)
	}
	return n
}

// BiGRU implements device.Recurrent.
func (d *dev[T]) BiGRU(a device.BiGRUArgs) {
	positive("BiGRU", a.I, a.H)
	n := words(a.Lengths.Host) * a.H
	d.floats("BiGRU Y", a.Y, n)
	d.floats("BiGRU Work", a.Work, n)
	y := [2]device.View{a.Y.Slice(0, n), a.Work.Slice(0, n)}
	for k := range y {
		g := direction(&a, k)
		g.Y = y[k]
		d.GRU(g)
	}
	d.Combine(y[0], y[0], y[1], 0.5, 0.5)
}

// BiGRUGrad implements device.Recurrent.
func (d *dev[T]) BiGRUGrad(a device.BiGRUArgs) {
	positive("BiGRUGrad", a.I, a.H)
	rows := words(a.Lengths.Host)
	n, in := rows*a.H, rows*a.I
	dx := [2]device.View{}
	if a.DX.Present() {
		d.floats("BiGRUGrad DX", a.DX, in)
		d.floats("BiGRUGrad Work", a.Work, n+in)
		dx = [2]device.View{a.DX.Slice(0, in), a.Work.Slice(n, n+in)}
	}
	d.floats("BiGRUGrad Work", a.Work, n)
	d.floats("BiGRUGrad DY", a.DY, n)
	half := a.Work.Slice(0, n)
	d.Combine(half, a.DY.Slice(0, n), device.View{}, 0.5, 0)
	for k := range dx {
		g := direction(&a, k)
		g.DY, g.DX = half, dx[k]
		d.GRUGrad(g)
	}
	if a.DX.Present() {
		d.Add(dx[0], dx[0], dx[1])
	}
}
