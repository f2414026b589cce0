package cuda

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda/driver"
)

// job is what the device knows of the job that it is a rank of; without one it is rank 0 of 1.
type job struct {
	on          *dev
	rank, ranks int
	libraries   []string // of NCCL
	fast        bool
	comm        driver.Communicator
	meets       device.Job
	side        side
	over        chan struct{}  // closed when the device is
	watching    sync.WaitGroup // watch
}

// errAborted is the error of all that follows when a rank is gone.
var errAborted = errors.New("another rank is gone, and the collectives with it were aborted")

// collectiveNames are the names of the commands from commandAllReduce on.
var collectiveNames = []string{"AllReduce", "Broadcast", "Reduce", "AllGather", "ReduceScatter"}

// divided reports whether there are several ranks.
func (j *job) divided() bool { return j.ranks > 1 }

func (j *job) aborted() bool { return j.comm != nil && j.comm.Aborted() }

// Rank implements device.Ranked.
func (j *job) Rank() (rank, ranks int) { return j.rank, j.ranks }

// Wait implements device.Ranked.
func (j *job) Wait() {
	if j.divided() {
		err := j.meets.Wait()
		j.on.run(func() error { return err })
	}
}

// Join implements device.Joiner. Rank 0 makes the id by which NCCL finds the ranks.
func (j *job) Join(m device.Rendezvous) error {
	lib, err := j.openNCCL()
	if err != nil {
		return err
	}
	rank, ranks := m.Rank()
	var id driver.NCCLID
	if rank == 0 {
		if id, err = lib.NewID(); err != nil {
			return fmt.Errorf("device: cuda: %w", err)
		}
	}
	text, err := m.Broadcast(id.Internal[:])
	if err != nil {
		return err
	}
	copy(id.Internal[:], text)
	j.on.run(func() error { return j.open(lib, id, rank, ranks) })
	if err := j.on.wait(); err != nil {
		return fmt.Errorf("device: cuda: rank %d of %d joins the others through NCCL %s: %w", rank, ranks,
			driver.VersionOfNCCL(lib.Version()), err)
	}
	j.rank, j.ranks, j.meets, j.over = rank, ranks, m, make(chan struct{})
	j.watching.Go(func() { j.watch(m.Lost()) })
	return nil
}

// HostJob is a job whose ranks may share a GPU.
type HostJob interface {
	device.Job
	// Communicator joins the ranks, which have memory of the driver.
	Communicator(driver.Driver) driver.Communicator
}

// overHost makes the device a rank of a job in place of Join.
func (j *job) overHost(w HostJob) {
	rank, ranks := w.Rank()
	j.on.run(func() error {
		j.comm = w.Communicator(j.on.drv)
		return j.side.open(j.on)
	})
	j.rank, j.ranks, j.meets = rank, ranks, w
}

// open joins the other ranks, on the thread of the context.
func (j *job) open(lib driver.NCCL, id driver.NCCLID, rank, ranks int) (err error) {
	if err = j.side.open(j.on); err != nil {
		return err
	}
	j.comm, err = lib.Join(id, rank, ranks)
	return err
}

// close releases what open made, on the thread of the context.
func (j *job) close(keep func(error)) {
	if j.comm != nil {
		keep(j.comm.Close())
	}
	j.side.close(keep)
}

// openNCCL loads the first of the libraries that is NCCL.
func (j *job) openNCCL() (driver.NCCL, error) {
	all := []error{errors.New("device: cuda: several GPUs need NCCL")}
	for _, path := range j.libraries {
		lib, err := driver.OpenNCCL(path, j.fast)
		if err == nil {
			return lib, nil
		}
		all = append(all, err)
	}
	return nil, errors.Join(all...)
}

// The times of watch.
const (
	lookEvery = time.Second
	// hearsay is how long a rank that NCCL cannot reach may take to be known to the job, which says why.
	hearsay = 3 * time.Second
)

// watch ends the collectives that wait for a rank which is gone: the GPU would wait for it for ever.
func (j *job) watch(lost <-chan struct{}) {
	every := time.NewTicker(lookEvery)
	defer every.Stop()
	for {
		select {
		case <-j.over:
			return
		case <-lost:
			j.comm.Abort()
			return
		case <-every.C:
			if j.comm.Failure() == nil {
				continue
			}
			select {
			case <-lost:
			case <-j.over:
				return
			case <-time.After(hearsay):
			}
			j.comm.Abort()
			return
		}
	}
}

// end ends watch.
func (j *job) end() {
	if j.over != nil {
		close(j.over)
		driver.Within(j.on.timeout, "the end of its job", func() (any, error) { j.watching.Wait(); return nil, nil })
		j.over = nil
	}
}

// collective computes a kernel of several ranks, or reports that k is none, or that there is one rank.
func (j *job) collective(k device.Kernel) bool {
	if !j.divided() {
		return false
	}
	switch a := k.(type) {
	case *device.AllReduce:
		x := j.on.pointer(a.X)
		j.send(sent{kind: commandAllReduce, dst: x, src: x, n: a.X.N, room: a.X.N, behind: a.Async})
	case *device.Broadcast:
		x := j.on.pointer(a.X)
		j.send(sent{kind: commandBroadcast, dst: x, src: x, n: a.X.N, room: a.X.N, root: a.Root})
	case *device.Wait:
		if !a.X.Present() {
			j.side.join(0, 0)
		} else if p := j.on.pointer(a.X); a.X.N > 0 {
			j.side.join(p, at(p, a.X.N))
		}
	case *device.AllGather:
		if a.Grad {
			j.shard(&a.Shard, dealOwn, j.on.pointer(a.DX), j.on.pointer(a.DY), a.DX.N)
		} else {
			j.gatherSharded(a)
		}
	case *device.ReduceScatter:
		j.scatterSharded(a)
	default:
		return false
	}
	return true
}

// sent is a collective of n values that is given to a stream, of which it writes that many.
type sent struct {
	kind     commandKind
	dst, src driver.Ptr
	n, room  int // room is how many of them dst gets
	root     int
	behind   bool
	half     bool     // of bfloat16
	written  *written // where the values come to in the end; nil is dst
}

// send gives a collective to the stream of the kernels, or where it runs in the background to the side. All collectives
// run in the order in which they are called.
func (j *job) send(s sent) {
	if s.n == 0 {
		return
	}
	j.on.reads(s.src)
	j.on.changed(s.dst, s.room)
	if s.behind {
		j.on.next().kind = commandFork
	} else {
		j.side.join(0, 0)
	}
	c := j.on.next()
	c.kind, c.dst, c.src, c.bytes, c.slot, c.behind, c.half = s.kind, s.dst, s.src, 4*s.n, s.root, s.behind, s.half
	w := written{to: s.dst, end: at(s.dst, s.room)}
	if s.written != nil {
		w = *s.written
	}
	if !s.behind {
		j.side.arrive(&w)
		return
	}
	j.side.append(w)
}

// execute does a command of several ranks, on the thread of the context.
func (j *job) execute(c *command) error {
	n, s := c.bytes/4, j.on.stream
	if c.behind {
		s = j.side.stream
	}
	switch c.kind {
	case commandFork, commandAsync, commandWait:
		return j.side.execute(c)
	case commandAllReduce:
		return j.comm.AllReduce(c.dst, n, s)
	case commandBroadcast:
		return j.comm.Broadcast(c.dst, n, c.slot, s)
	case commandReduce:
		return j.comm.Reduce(c.dst, c.src, n, c.slot, c.half, s)
	case commandAllGather:
		return j.comm.AllGather(c.dst, c.src, n, s)
	}
	return j.comm.ReduceScatter(c.dst, c.src, n, c.half, s)
}

// told is memory for n values that each rank tells the others: of all, and of this one.
func (j *job) told(n int) (whole, own driver.Ptr) {
	whole = j.on.need(scratchDeal, 4*n*j.ranks)
	return whole, at(whole, j.rank*n)
}

// tell sends what this rank tells. Doubles are pairs of values, which a gather only copies.
func (j *job) tell(whole, own driver.Ptr, n int) {
	j.send(sent{kind: commandAllGather, dst: whole, src: own, n: n, room: n * j.ranks})
}

// Ways of deal_rows.
const (
	dealAll  = iota // all from what lies rank by rank
	dealRank        // the reverse
	dealOwn         // the rows of this rank from all
)

// together is how many values of every rank lie one rank after the other, and how many more the last one has: then
// collectives work on them where they are. Otherwise n is 0.
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

// gatherSharded sets all to the rows of all ranks. Operands of products are sent as those read them.
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
		j.send(sent{kind: commandAllGather, dst: to, src: from, n: n, room: all, behind: a.Async, written: &w})
		rest := at(to, n*a.Ranks)
		if own := at(from, n); j.rank == a.Ranks-1 && tail > 0 && own != rest {
			j.on.copy(rest, own, 4*tail)
		}
		j.send(sent{kind: commandBroadcast, dst: rest, src: rest, n: tail, room: tail, root: a.Ranks - 1,
			behind: a.Async, written: &w})
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
	j.send(sent{kind: commandAllGather, dst: whole, src: mine, n: most, room: most * a.Ranks, behind: a.Async,
		written: &w})
}

// operands are the places of the copies of Y and X, which are rounded where they are not yet. After the gather the
// values of other ranks are there as copies alone. All ranks do so or none: one without room for a copy fails.
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
	if x >= y && x < at(y, a.Y.N) { // the own values lie among all
		own = m.index(x)
		m.alone.add(lo, own)
		lo, own = own+a.X.N, m.index(y)
	}
	m.alone.add(lo, own+a.Y.N)
	d.bf16.alone = true
	return to, from
}

// scatterSharded sets own to the rows of this rank of the sum of all. Values that do not lie together are few, and are
// sent as float32.
func (j *job) scatterSharded(a *device.ReduceScatter) {
	to, from, most := j.on.pointer(a.Y), j.on.pointer(a.X), a.Most()
	if n, tail := together(&a.Shard); n > 0 && a.BF16 {
		j.scatterHalves(a, to, from, n, tail)
		return
	} else if n > 0 {
		s := sent{kind: commandReduceScatter, dst: to, src: from, n: n, room: n, behind: a.Async}
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

// scatterHalves is scatterSharded of n values of every rank, and tail more of the last, that are rounded to bfloat16
// first. Their copies have a place each, as sums of several parts of a buffer are on their way together.
func (j *job) scatterHalves(a *device.ReduceScatter, to, from driver.Ptr, n, tail int) {
	half := j.on.need(scratchHalves, 2*a.X.Buf.Len()) + driver.Ptr(2*a.X.Off)
	place := func(i int) driver.Ptr { return half + driver.Ptr(2*i) }
	wide := func(to, from driver.Ptr, n int) *written {
		return &written{to: to, end: at(to, n), then: func() { j.on.each("widen_copy", n).ptr(to, from).long(n) }}
	}
	j.on.round(half, from, n*a.Ranks+tail)
	j.send(sent{kind: commandReduceScatter, dst: place(j.rank * n), src: half, n: n, behind: a.Async, half: true,
		written: wide(to, place(j.rank*n), n)})
	rest := place(n * a.Ranks)
	s := sent{kind: commandReduce, dst: rest, src: rest, n: tail, root: a.Ranks - 1, behind: a.Async, half: true}
	if j.rank == s.root { // others write nothing
		s.written = wide(at(to, n), rest, tail)
	}
	j.send(s)
}

// shard moves rows between their order and the order of the ranks. What is left of to, of room values, becomes zero.
// Lengths that the host alone knows are lengths of few items.
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
