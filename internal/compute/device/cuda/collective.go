package cuda

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda/driver"
)

// job is the job of which the device is a rank; without a job it is rank 0 of 1.
type job struct {
	on          *dev
	rank, ranks int
	libraries   []string // paths of NCCL
	fast        bool
	comm        driver.Communicator
	meets       device.Job
	side        side
	over        chan struct{}  // closed with the device
	watching    sync.WaitGroup // watch
}

// errAborted is the error of all commands after a rank is gone.
var errAborted = errors.New("another rank is gone, and the collectives with it were aborted")

// collectiveNames names the commands from commandAllReduce on.
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

// Join implements device.Joiner. Rank 0 makes the id by which the ranks find each other.
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
	j.on.run(func() (err error) {
		if err = j.side.open(j.on); err == nil {
			j.comm, err = lib.Join(id, rank, ranks)
		}
		return err
	})
	if err := j.on.wait(); err != nil {
		return fmt.Errorf("device: cuda: rank %d of %d: join the other ranks through NCCL %s: %w", rank, ranks,
			driver.VersionOfNCCL(lib.Version()), err)
	}
	j.rank, j.ranks, j.meets, j.over = rank, ranks, m, make(chan struct{})
	j.watching.Go(func() { j.watch(m.Lost()) })
	return nil
}

// HostJob is a job whose ranks may share a GPU.
type HostJob interface {
	device.Job
	// Communicator connects the ranks, whose memory belongs to the driver.
	Communicator(driver.Driver) driver.Communicator
}

// overHost makes the device a rank of a job, instead of Join.
func (j *job) overHost(w HostJob) {
	rank, ranks := w.Rank()
	j.on.run(func() error {
		j.comm = w.Communicator(j.on.drv)
		return j.side.open(j.on)
	})
	j.rank, j.ranks, j.meets = rank, ranks, w
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

// watch ends the collectives that wait for a lost rank: the GPU would wait for it for ever. It asks NCCL every second.
// The job also learns of a lost rank, and knows the reason, so watch waits for it up to three seconds.
func (j *job) watch(lost <-chan struct{}) {
	every := time.NewTicker(time.Second)
	defer every.Stop()
	var failed <-chan time.Time
	for {
		select {
		case <-j.over:
			return
		case <-lost:
			j.comm.Abort()
			return
		case <-failed:
			j.comm.Abort()
			return
		case <-every.C:
			if failed == nil && j.comm.Failure() != nil {
				failed = time.After(3 * time.Second)
			}
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

// collective computes a kernel of several ranks, and reports whether k is one and there are several ranks.
func (j *job) collective(k device.Kernel) bool {
	if !j.divided() {
		return false
	}
	switch a := k.(type) {
	case *device.AllReduce:
		x := j.on.pointer(a.X)
		j.send(sent{kind: commandAllReduce, dst: x, src: x, n: a.X.N, room: a.X.N, async: a.Async})
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

// sent is a collective of n values.
type sent struct {
	kind     commandKind
	dst, src driver.Ptr
	n, room  int // room is the number of values that it writes to dst
	root     int
	async    bool
	half     bool     // bfloat16
	written  *written // the final place of the results; nil is dst
}

// send gives a collective to the stream of the kernels, or to the side if it is async. Collectives run in the order of
// their calls.
func (j *job) send(s sent) {
	if s.n == 0 {
		return
	}
	j.on.reads(s.src)
	j.on.changed(s.dst, s.room)
	if s.async {
		j.on.next().kind = commandFork
	} else {
		j.side.join(0, 0)
	}
	c := j.on.next()
	c.kind, c.dst, c.src, c.bytes, c.slot, c.async, c.half = s.kind, s.dst, s.src, 4*s.n, s.root, s.async, s.half
	w := written{to: s.dst, end: at(s.dst, s.room)}
	if s.written != nil {
		w = *s.written
	}
	if s.async {
		j.side.append(w)
	} else {
		j.side.arrive(&w)
	}
}

// execute does a command of several ranks, on the thread of the context.
func (j *job) execute(c *command) error {
	n, s := c.bytes/4, j.on.stream
	if c.async {
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
