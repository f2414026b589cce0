package device

import "slices"

// The collectives are kernels that the ranks of a job compute together: each rank calls the same ones in the same
// order. A rank is a process with its own device, which knows the others (Ranked). On other devices there is one rank,
// and a collective copies its values or does nothing.
//
// The items of a global batch are dealt in turn: item i belongs to rank i mod Ranks. So every rank has long and short
// captions of a sorted batch alike, and its own are sorted again.
//
// A collective that is Async may run beside the kernels that follow it, until Wait: those do not write its arguments,
// nor read its results. Those that are Async run in the order in which they were called, as all others do.

// Ranked is implemented by devices of a job of several ranks.
type Ranked interface {
	// Rank is this one, from 0, of that many.
	Rank() (rank, ranks int)
	// Wait waits until all ranks call it. It takes no processor meanwhile, as other collectives do.
	Wait()
}

// RankOf is the rank of a device and how many there are: 0 of 1 on a device that is not Ranked.
func RankOf(d Device) (rank, ranks int) {
	if r, ok := As[Ranked](d); ok {
		return r.Rank()
	}
	return 0, 1
}

// Job is the ranks of a job as the process of one sees them.
type Job interface {
	// Rank is this one, from 0, of that many.
	Rank() (rank, ranks int)
	// Wait waits until all ranks call it, and leaves the processor to others meanwhile.
	Wait() error
}

// Rendezvous is a job whose devices send values to each other, once they know where the others are.
type Rendezvous interface {
	Job
	// Broadcast returns what rank 0 gives. All ranks call it.
	Broadcast(text []byte) ([]byte, error)
	// Lost is closed when another rank has failed: nobody waits for it any more.
	Lost() <-chan struct{}
}

// Joiner is implemented by devices that send values to the devices of other ranks by themselves.
type Joiner interface {
	// Join makes the device the device of a rank. All ranks call it.
	Join(Rendezvous) error
}

// Shard says which rows of a global batch are whose: an item has Lengths rows, or where there are no lengths one of
// Items. All rows lie in the order of the items, and so do the rows of one rank.
type Shard struct {
	Rank, Ranks  int
	Items, Width int // Width values a row
	Lengths      Ints
}

// Each calls f for each item with its rank and the number of its values.
func (d *Shard) Each(f func(rank, values int)) {
	if d.Lengths.Host == nil {
		for i := range d.Items {
			f(i%d.Ranks, d.Width)
		}
		return
	}
	for i, n := range d.Lengths.Host {
		f(i%d.Ranks, int(n)*d.Width)
	}
}

// Values are how many values all ranks have, and this one.
func (d *Shard) Values() (all, own int) {
	d.Each(func(rank, values int) {
		all += values
		if rank == d.Rank {
			own += values
		}
	})
	return all, own
}

// Most is how many values the rank with most of them has. Of lengths that are an upper bound nobody knows that: it is
// as many as a rank can have where the sequences are sorted, the longest first.
func (d *Shard) Most() (most int) {
	values := make([]int, d.Ranks)
	all, longest := 0, 0
	d.Each(func(rank, n int) {
		values[rank] += n
		all, longest = all+n, max(longest, n)
	})
	if d.Lengths.Bounded {
		return min(all, (all+(d.Ranks-1)*longest)/d.Ranks)
	}
	return slices.Max(values)
}

// views declares the values of all ranks and the values of this one, of which there are any number where lengths are a
// bound.
func (d *Shard) views(c *Checker, whole string, all *View, part string, own *View) {
	c.positive("Ranks Width", d.Ranks, d.Width)
	if d.Rank < 0 || d.Rank >= d.Ranks || d.Items < 0 {
		c.refuse("rank %d of %d, %d items", d.Rank, d.Ranks, d.Items)
	}
	for i, n := range d.Lengths.Host {
		if n < 0 {
			c.length("Lengths", i, int(n), 0, anyLength)
		}
	}
	c.optionalInts("Lengths", &d.Lengths.View, len(d.Lengths.Host))
	n, mine := d.Values()
	c.floats(whole, all, n)
	if d.Lengths.Bounded {
		c.whole(part, own)
		return
	}
	c.floats(part, own, mine)
}

// AllReduce sets X to the sum of X of all ranks. It is the same bits on all ranks, and in every run with as many of
// them, but not in the order of the ranks.
type AllReduce struct {
	Async bool
	X     View
}

func (a *AllReduce) Views(c *Checker) { c.whole("X", &a.X) }

// Broadcast sets X to the values of rank Root.
type Broadcast struct {
	Root int
	X    View
}

func (a *Broadcast) Views(c *Checker) { c.whole("X", &a.X) }

// AllGather sets Y to the rows X of all ranks.
// The gradient, where all ranks compute the same from Y, is the rows of DY that belong to this rank.
//
// With Operand nothing but products of that many rows or more reads Y, which a device that rounds their operands may
// leave rounded.
//
// AllGather: X and DX are the rows of this rank, Y and DY the rows of all (Shard). The gradient needs no other rank.
type AllGather struct {
	Gradient
	Shard
	Async        bool
	Operand      int
	X, Y, DX, DY View
}

func (a *AllGather) Views(c *Checker) {
	if a.Grad {
		a.views(c, "DY", &a.DY, "DX", &a.DX)
	} else {
		a.views(c, "Y", &a.Y, "X", &a.X)
	}
}

// ReduceScatter sets Y to the rows of this rank of the sum of X of all ranks: the gradient of an AllGather where each
// rank computes something else from what was gathered (Shard). With BF16 the values of every rank are rounded to
// bfloat16 before they are added, so that half the bytes are sent, and sums may be; where there is one rank nothing is.
type ReduceScatter struct {
	Shard
	Async, BF16 bool
	X, Y        View
}

func (a *ReduceScatter) Views(c *Checker) { a.views(c, "X", &a.X, "Y", &a.Y) }

// Wait has the kernels that follow wait for the collectives that are Async: for those up to the last that writes to X,
// or for all where X is absent.
type Wait struct{ X View }

func (a *Wait) Views(c *Checker) {
	if a.X.Present() {
		c.whole("X", &a.X)
	}
}
