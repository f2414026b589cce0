package cuda

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda/driver"
)

var kernelDealRows = entryOf("deal_rows")

// job is what the device knows of the job that it is a rank of; without one it is rank 0 of 1.
type job struct {
	on          *dev
	rank, ranks int
	libraries   []string // of NCCL
	fast        bool
	comm        driver.Communicator
	meeting     device.Meeting
	over        chan struct{}  // closed when the device is
	watching    sync.WaitGroup // watch
}

// errAborted is the error of all that follows when a rank is gone.
var errAborted = errors.New("another rank is gone, and the collectives with it were aborted")

// collectiveNames are those of the commands from commandAllReduce on.
var collectiveNames = []string{"AllReduce", "Broadcast", "AllGather", "ReduceScatter"}

// divided reports whether there are several ranks.
func (j *job) divided() bool { return j.ranks > 1 }

func (j *job) aborted() bool { return j.comm != nil && j.comm.Aborted() }

// Rank implements device.Ranked.
func (j *job) Rank() (rank, ranks int) { return j.rank, j.ranks }

// Wait implements device.Ranked.
func (j *job) Wait() {
	if j.divided() {
		err := j.meeting.Wait()
		j.on.run(func() error { return err })
	}
}

// Join implements device.Joiner. Rank 0 makes the id by which NCCL finds the ranks.
func (j *job) Join(m device.Meeting) error {
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
	text, err := m.Share(id.Internal[:])
	if err != nil {
		return err
	}
	copy(id.Internal[:], text)
	j.on.run(func() error {
		j.comm, err = lib.Join(id, rank, ranks)
		return err
	})
	if err := j.on.wait(); err != nil {
		return fmt.Errorf("device: cuda: rank %d of %d joins the others through NCCL %s: %w", rank, ranks,
			driver.VersionOfNCCL(lib.Version()), err)
	}
	j.rank, j.ranks, j.meeting, j.over = rank, ranks, m, make(chan struct{})
	j.watching.Go(j.watch)
	return nil
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
func (j *job) watch() {
	every := time.NewTicker(lookEvery)
	defer every.Stop()
	for {
		select {
		case <-j.over:
			return
		case <-j.meeting.Lost():
			j.comm.Abort()
			return
		case <-every.C:
			if j.comm.Failure() == nil {
				continue
			}
			select {
			case <-j.meeting.Lost():
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
		j.watching.Wait()
		j.over = nil
	}
}

// collective computes a kernel of several ranks.
func (j *job) collective(k device.Kernel) bool {
	if !j.divided() {
		return false
	}
	switch a := k.(type) {
	case *device.AllReduce:
		j.send(commandAllReduce, j.on.pointer(a.X), 0, a.X.N, a.X.N)
	case *device.Broadcast:
		if c := j.send(commandBroadcast, j.on.pointer(a.X), 0, a.X.N, a.X.N); c != nil {
			c.slot = a.Root
		}
	case *device.AllGather:
		if a.Grad {
			j.deal(&a.Deal, dealOwn, j.on.pointer(a.DX), j.on.pointer(a.DY), a.DX.N)
		} else {
			j.gatherDealt(&a.Deal, a.Y, a.X)
		}
	case *device.ReduceScatter:
		j.scatterDealt(&a.Deal, a.Y, a.X)
	}
	return true
}

// send gives a collective of n values, of which it writes so many, to the stream. NCCL works on src where it lies.
func (j *job) send(kind commandKind, dst, src driver.Ptr, n, written int) *command {
	if n == 0 {
		return nil
	}
	if src != 0 {
		j.on.reads(src)
	} else {
		j.on.reads(dst)
	}
	j.on.changed(dst, written)
	c := j.on.next()
	c.kind, c.dst, c.src, c.bytes = kind, dst, src, 4*n
	return c
}

// told is memory for n values that each rank tells the others: of all, and of this one.
func (j *job) told(n int) (whole, own driver.Ptr) {
	whole = j.on.need(scratchDeal, 4*n*j.ranks)
	return whole, at(whole, j.rank*n)
}

// tell sends what this rank tells. Doubles are pairs of values, which a gather only copies.
func (j *job) tell(whole, own driver.Ptr, n int) {
	j.send(commandAllGather, whole, own, n, n*j.ranks)
}

// Ways of deal_rows.
const (
	dealAll  = iota // all from what lies rank by rank
	dealRank        // the reverse
	dealOwn         // the rows of this rank from all
)

// lieTogether reports whether the values of all ranks lie one rank behind the other, as many of each: then a collective
// works on them where they are.
func lieTogether(a *device.Deal) bool {
	items := len(a.Lengths.Host)
	if a.Lengths.Host == nil {
		items = a.Items
	}
	all, _ := a.Values()
	return items == a.Ranks && !a.Lengths.Bounded && all == a.Ranks*a.Most()
}

// gatherDealt sets all to the rows of all ranks.
func (j *job) gatherDealt(a *device.Deal, all, own device.View) {
	to, from, most := j.on.pointer(all), j.on.pointer(own), a.Most()
	if lieTogether(a) {
		j.send(commandAllGather, to, from, most, all.N)
		return
	}
	whole, mine := j.told(most)
	j.on.copy(mine, from, 4*min(own.N, most))
	j.tell(whole, mine, most)
	j.deal(a, dealAll, to, whole, all.N)
}

// scatterDealt sets own to the rows of this rank of the sum of all.
func (j *job) scatterDealt(a *device.Deal, own, all device.View) {
	to, from, most := j.on.pointer(own), j.on.pointer(all), a.Most()
	if lieTogether(a) {
		j.send(commandReduceScatter, to, from, most, most)
		return
	}
	whole, mine := j.told(most)
	j.on.fill(whole, 4*most*a.Ranks, 0)
	j.deal(a, dealRank, whole, from, 0)
	j.send(commandReduceScatter, mine, whole, most, most*a.Ranks)
	j.on.copy(to, mine, 4*min(own.N, most))
	if own.N > most {
		j.on.fill(at(to, most), 4*(own.N-most), 0)
	}
}

// deal moves rows between their order and that of the ranks. What is left of to, of room values, becomes zero. Lengths
// that the host alone knows are those of few items.
func (j *job) deal(a *device.Deal, way int, to, from driver.Ptr, room int) {
	most := a.Most()
	if a.Lengths.Host != nil && !a.Lengths.Present() {
		j.dealByHost(a, way, to, from, most)
		return
	}
	items, lengths := a.Items, driver.Ptr(0)
	if a.Lengths.Host != nil {
		items, lengths = len(a.Lengths.Host), j.on.pointer(a.Lengths.View)
	}
	all, _ := a.Values()
	pieces := min(64, 1+all/max(1, items)/4096)
	j.on.start(kernelDealRows, threads, items+1, pieces, 1).ptr(to, from, lengths).
		int(items, a.Ranks, j.rank, a.Width).long(most, room).int(way)
}

func (j *job) dealByHost(a *device.Deal, way int, to, from driver.Ptr, most int) {
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
