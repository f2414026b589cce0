package cuda

import (
	"errors"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda/driver"
)

// told is memory for n values that each rank tells the others: of all ranks, and within it of this rank.
func (j *job) told(n int) (whole, own driver.Ptr) {
	whole = j.on.need(scratchDeal, 4*n*j.ranks)
	return whole, at(whole, j.rank*n)
}

// tell sends what this rank tells. Doubles are sent as pairs of values, because a gather only copies.
func (j *job) tell(whole, own driver.Ptr, n int) {
	j.send(sent{kind: commandAllGather, dst: whole, src: own, n: n, room: n * j.ranks})
}

// Ways of deal_rows.
const (
	dealAll  = iota // from the order of the ranks to the order of all rows
	dealRank        // the reverse
	dealOwn         // the rows of this rank
)

// together returns how many values each rank has, and how many more the last one has, if they are in the order of the
// ranks: then collectives work on them where they are. Otherwise n is 0.
func together(a *device.Shard) (n, tail int) {
	items := len(a.Lengths.Host)
	if a.Lengths.Host == nil {
		items = a.Items
	}
	if items != a.Ranks || a.Lengths.Bounded {
		return 0, 0
	}
	alike := true
	a.Each(func(rank, values int) {
		switch {
		case rank == 0:
			n = values
		case rank == a.Ranks-1 && values > n:
			tail = values - n
		case values != n:
			alike = false
		}
	})
	if !alike {
		return 0, 0
	}
	return n, tail
}

// gatherSharded gathers the rows of all ranks. It sends operands of products in the type that products read.
func (j *job) gatherSharded(a *device.AllGather) {
	deal, own, all := a.Shard, a.X.N, a.Y.N
	to, from := j.on.pointer(a.Y), j.on.pointer(a.X)
	// Pairs of bfloat16 in place of float32, where they begin at multiples of 4 bytes, on all ranks alike.
	if a.Operand > 0 && a.Width%2 == 0 && (to|from)&7 == 0 && j.on.takesHalf(all*a.Operand) {
		to, from = j.operands(a, to, from)
		deal.Width, own, all = a.Width/2, own/2, all/2
	}
	w := written{to: j.on.pointer(a.Y), end: at(j.on.pointer(a.Y), a.Y.N)}
	if n, tail := together(&deal); n > 0 {
		j.send(sent{kind: commandAllGather, dst: to, src: from, n: n, room: all, async: a.Async, written: &w})
		rest := at(to, n*a.Ranks)
		if own := at(from, n); j.rank == a.Ranks-1 && tail > 0 && own != rest {
			j.on.copy(rest, own, 4*tail)
		}
		j.send(sent{kind: commandBroadcast, dst: rest, src: rest, n: tail, room: tail, root: a.Ranks - 1,
			async: a.Async, written: &w})
		return
	}
	most := deal.Most()
	var whole driver.Ptr
	if bytes := 4 * most * a.Ranks; a.Async {
		whole = j.side.room(bytes)
	} else {
		whole = j.on.need(scratchDeal, bytes)
	}
	mine := at(whole, j.rank*most)
	j.on.copy(mine, from, 4*min(own, most))
	w.then = func() { j.shard(&deal, dealAll, to, whole, all) }
	j.send(sent{kind: commandAllGather, dst: whole, src: mine, n: most, room: most * a.Ranks, async: a.Async,
		written: &w})
}

// operands returns the copies of Y and X, and rounds what is missing. After the gather, the values of other ranks exist
// as copies alone. All ranks must do the same: a rank without room for a copy fails.
func (j *job) operands(a *device.AllGather, y, x driver.Ptr) (to, from driver.Ptr) {
	d := j.on
	from, ok := d.rounded(x, a.X.N)
	if to = d.copyFor(y, a.Y.N); !ok || to == 0 {
		d.run(func() error { return errors.New("no memory for copies in bfloat16 of what the ranks gather") })
		return y, x
	}
	m := d.bf16.find(y)
	lo, own := m.index(y), m.index(y)
	m.drop(lo, lo+a.Y.N)
	d.fresh(to, y, a.Y.N)
	if x >= y && x < at(y, a.Y.N) { // X is in Y
		own = m.index(x)
		m.alone.add(lo, own)
		lo, own = own+a.X.N, m.index(y)
	}
	m.alone.add(lo, own+a.Y.N)
	d.bf16.alone = true
	return to, from
}

// scatterSharded sets Y to the rows of this rank in the sum of all ranks. Values that are not together (see together)
// are few, and are sent as float32.
func (j *job) scatterSharded(a *device.ReduceScatter) {
	to, from, most := j.on.pointer(a.Y), j.on.pointer(a.X), a.Most()
	if n, tail := together(&a.Shard); n > 0 && a.BF16 {
		j.scatterHalves(a, to, from, n, tail)
		return
	} else if n > 0 {
		s := sent{kind: commandReduceScatter, dst: to, src: from, n: n, room: n, async: a.Async}
		j.send(s)
		s.kind, s.src, s.n, s.root = commandReduce, at(from, n*a.Ranks), tail, a.Ranks-1
		if s.dst, s.room = s.src, 0; j.rank == s.root { // others write nothing
			s.dst, s.room = at(to, n), tail
		}
		j.send(s)
		return
	}
	whole, mine := j.told(most)
	j.on.fill(whole, 4*most*a.Ranks, 0)
	j.shard(&a.Shard, dealRank, whole, from, 0)
	j.send(sent{kind: commandReduceScatter, dst: mine, src: whole, n: most, room: most * a.Ranks})
	j.on.copy(to, mine, 4*min(a.Y.N, most))
	if a.Y.N > most {
		j.on.fill(at(to, most), 4*(a.Y.N-most), 0)
	}
}

// scatterHalves is scatterSharded of n values of every rank, and tail more of the last, rounded to bfloat16. Each part
// of a buffer has its own copies, because several sums may run at the same time.
func (j *job) scatterHalves(a *device.ReduceScatter, to, from driver.Ptr, n, tail int) {
	half := j.on.need(scratchHalves, 2*a.X.Buf.Len()) + driver.Ptr(2*a.X.Off)
	place := func(i int) driver.Ptr { return half + driver.Ptr(2*i) }
	wide := func(to, from driver.Ptr, n int) *written {
		return &written{to: to, end: at(to, n), then: func() { j.on.each("widen_copy", n).ptr(to, from).long(n) }}
	}
	j.on.round(half, from, n*a.Ranks+tail)
	j.send(sent{kind: commandReduceScatter, dst: place(j.rank * n), src: half, n: n, async: a.Async, half: true,
		written: wide(to, place(j.rank*n), n)})
	rest := place(n * a.Ranks)
	s := sent{kind: commandReduce, dst: rest, src: rest, n: tail, root: a.Ranks - 1, async: a.Async, half: true}
	if j.rank == s.root { // others write nothing
		s.written = wide(at(to, n), rest, tail)
	}
	j.send(s)
}

// shard moves rows between their order and the order of the ranks, and zeroes the rest of to, of room values. Only few
// items have lengths that are not on the device.
func (j *job) shard(a *device.Shard, way int, to, from driver.Ptr, room int) {
	most := a.Most()
	if a.Lengths.Host != nil && !a.Lengths.Present() {
		j.shardByHost(a, way, to, from, most)
		return
	}
	items, lengths := a.Items, driver.Ptr(0)
	if a.Lengths.Host != nil {
		items, lengths = len(a.Lengths.Host), j.on.pointer(a.Lengths.View)
	}
	all, _ := a.Values()
	pieces := min(64, 1+all/max(1, items)/4096)
	j.on.start("deal_rows", threads, items+1, pieces, 1).ptr(to, from, lengths).
		int(items, a.Ranks, j.rank, a.Width).long(most, room).int(way)
}

func (j *job) shardByHost(a *device.Shard, way int, to, from driver.Ptr, most int) {
	whole, part := 0, make([]int, a.Ranks)
	a.Each(func(rank, n int) {
		dealt := part[rank] + rank*most
		switch {
		case way == dealAll:
			j.on.copy(at(to, whole), at(from, dealt), 4*n)
		case way == dealRank:
			j.on.copy(at(to, dealt), at(from, whole), 4*n)
		case rank == j.rank:
			j.on.copy(at(to, part[rank]), at(from, whole), 4*n)
		}
		whole, part[rank] = whole+n, part[rank]+n
	})
}
