package device

import "slices"

// The ranks of a job compute collectives together: each rank calls the same collectives in the same order. A rank is a
// process with its own device, which knows the other ranks (Ranked). On other devices there is one rank, and a
// collective copies its values or does nothing.
//
// Item i of a global batch belongs to rank i mod Ranks. So every rank has both long and short captions of a sorted
// batch, and the captions of a rank are sorted too.
//
// An Async collective may run concurrently with the kernels that follow it, until Wait: they must not write its
// arguments or read its results. Async collectives run in the order of the calls, like all others.

// Ranked is implemented by devices of a job with several ranks.
type Ranked interface {
	// Rank returns the rank of this process, from 0, and the number of ranks.
	Rank() (rank, ranks int)
	// Wait waits until all ranks call it. Unlike other collectives, it does not keep the processor busy.
	Wait()
}

// RankOf returns the rank of a device and the number of ranks: 0 and 1 for a device that is not Ranked.
func RankOf(d Device) (rank, ranks int) {
	if r, ok := As[Ranked](d); ok {
		return r.Rank()
	}
	return 0, 1
}

// Job is a job of several ranks, as the process of one rank sees it.
type Job interface {
	// Rank returns the rank of this process, from 0, and the number of ranks.
	Rank() (rank, ranks int)
	// Wait waits until all ranks call it, without keeping the processor busy.
	Wait() error
}

// Rendezvous is a job whose devices exchange addresses, and then send values to each other.
type Rendezvous interface {
	Job
	// Broadcast returns the text that rank 0 passes. All ranks call it.
	Broadcast(text []byte) ([]byte, error)
	// Lost returns a channel that is closed when another rank has failed, so that nobody waits for it.
	Lost() <-chan struct{}
}

// Joiner is implemented by devices that send values directly to the devices of other ranks.
type Joiner interface {
	// Join makes the device the device of a rank. All ranks call it.
	Join(Rendezvous) error
}

// Shard says which rows of a global batch belong to which rank. Item i has Lengths[i] rows; without lengths, each of
// Items has one row. The rows of the batch, and the rows of a rank, are in the order of the items.
type Shard struct {
	Rank, Ranks  int
	Items, Width int // Width: values per row
	Lengths      Ints
}

// Each calls f for each item, with the rank that it belongs to and its number of values.
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

// Values returns the number of values of all ranks, and of this rank.
func (d *Shard) Values() (all, own int) {
	d.Each(func(rank, values int) {
		all += values
		if rank == d.Rank {
			own += values
		}
	})
	return all, own
}

// Most returns the number of values of the rank that has the most. If the lengths are upper bounds, it is the most that
// a rank can have where the sequences are sorted, the longest first.
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

// views declares the values of all ranks, and the values of this rank: any number of them if the lengths are bounds.
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

// AllReduce sets X to the sum of X over all ranks. The bits are the same on all ranks, and in every run with the same
// number of ranks, but the terms are not added in the order of the ranks.
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

// AllGather sets Y to the rows X of all ranks. X and DX are the rows of this rank, Y and DY the rows of all ranks
// (Shard). The gradient is for ranks that all compute the same from Y: it copies the rows of DY that belong to this
// rank, and needs no other rank.
//
// With Operand, only products of at least Operand rows read Y, so a device that rounds their operands may round Y.
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

// ReduceScatter sets Y to this rank's rows of the sum of X over all ranks (Shard). It is the gradient of an AllGather
// whose result each rank uses differently. With BF16, the values of every rank are rounded to bfloat16 before they are
// added, which halves the bytes that are sent; the sums may be rounded too. A single rank rounds nothing.
type ReduceScatter struct {
	Shard
	Async, BF16 bool
	X, Y        View
}

func (a *ReduceScatter) Views(c *Checker) { a.views(c, "X", &a.X, "Y", &a.Y) }

// Wait makes the kernels that follow wait for the Async collectives up to the last one that writes to X, or for all of
// them if X is absent.
type Wait struct{ X View }

func (a *Wait) Views(c *Checker) {
	if a.X.Present() {
		c.whole("X", &a.X)
	}
}
