package cpu

import (
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/par"
	"vsetrain/internal/compute/vec"
)

// Both directions of a GRU (device.BiGRU). Their products over all words have all threads, one direction after the
// other. Their steps, small products that wait for each other, have half of them each: two threads that need not meet
// after every step do more than two that share each product.

// directions runs the steps of both directions, each on its team; without teams one after the other.
type directions[T vec.Float] struct {
	teams [2]*recurrence[T]
	o     [2]gruOperands[T]
	back  bool
}

func (l *directions[T]) Do(_, k int) {
	switch {
	case l.o[k].rows == 0:
	case l.back:
		l.teams[k].backward(&l.o[k])
	default:
		l.teams[k].forward(&l.o[k])
	}
}

// run runs the steps of both directions.
func (d *dev[T]) run(l *directions[T]) {
	if l.teams[0] == nil {
		d.newTeams(l)
	}
	if l.teams[0] == l.teams[1] {
		l.Do(0, 0)
		l.Do(0, 1)
	} else {
		d.pool.For(2, l)
	}
	l.o = [2]gruOperands[T]{}
}

// newTeams divides the threads. One thread, or products of a library with its own threads, are not divided.
func (d *dev[T]) newTeams(l *directions[T]) {
	l.teams = [2]*recurrence[T]{&d.gru, &d.gru}
	n := d.pool.Threads()
	if n < 2 || d.products.external() {
		return
	}
	for k := range l.teams {
		pool := par.New((n + k) / 2)
		l.teams[k] = &recurrence[T]{ops: d.ops, pool: pool, products: d.products.on(pool)}
	}
}

// forget drops what the teams have kept of weights.
func (l *directions[T]) forget() {
	for _, t := range l.teams {
		if t != nil {
			t.forget()
		}
	}
}

// close stops the teams.
func (l *directions[T]) close() {
	if l.teams[0] != l.teams[1] {
		l.teams[0].pool.Close()
		l.teams[1].pool.Close()
	}
}

// direction is one of them.
func direction(a *device.BiGRU, k int) device.GRU {
	return device.GRU{I: a.I, H: a.H, Lengths: a.Lengths, Reverse: k == 1, X: a.X, GRUDirection: a.Directions[k]}
}

func (d *dev[T]) BiGRU(a device.BiGRU) {
	y := [2]device.View{a.Y, a.Work}
	for k := range y {
		g := direction(&a, k)
		g.Y = y[k]
		d.directions.o[k] = d.projected(g, k == 1)
	}
	d.directions.back = false
	d.run(&d.directions)
	d.Combine(device.Combine{Dst: y[0], A: y[0], B: y[1], Alpha: 0.5, Beta: 0.5})
}

func (d *dev[T]) BiGRUGrad(a device.BiGRU) {
	n := a.DY.N
	dx := [2]device.View{}
	if a.DX.Present() {
		dx = [2]device.View{a.DX, a.Work.Slice(n, a.Work.N)}
	}
	half := a.Work.Slice(0, n)
	d.Combine(device.Combine{Dst: half, A: a.DY, Alpha: 0.5})
	var o [2]gruOperands[T]
	for k := range dx {
		g := direction(&a, k)
		g.DY, g.DX = half, dx[k]
		o[k] = d.gruGradOperands(g)
	}
	d.directions.o, d.directions.back = o, true
	d.run(&d.directions)
	for k := range o {
		d.gruWeights(&o[k])
	}
	if a.DX.Present() {
		d.Add(device.Add{Dst: dx[0], A: dx[0], B: dx[1]})
	}
}
