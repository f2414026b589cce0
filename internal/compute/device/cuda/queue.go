package cuda

import (
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda/driver"
)

// queue carries commands from the goroutine that uses the device to the one that owns the context.
//
// Commands are written into a batch; a full batch, or one that somebody waits for, goes to the owner, and the other
// batch is filled meanwhile. A batch that is used again costs no allocation.
type queue struct {
	dev     *dev
	batch   *batch // being filled
	work    chan *batch
	free    chan *batch // those that the owner has done
	done    chan *batch // the ones among them that somebody waits for
	failure error       // the first; written by the owner, read after wait
	staging staging
	fetches [device.FetchSlots]fetchBuffer

	profile    *profile
	capturing  bool   // commands are recorded (record.go)
	captureErr error  // why they cannot be
	at         string // what the calls belong to
	faults     faultRange
	full       error // scratch memory that the GPU had no room for: commands are dropped until Sync reports it
	dropped    command
	bias       command // of a product whose bias cuBLAS does not add, on the thread of the context

	timeout  time.Duration // Options.Timeout
	patience *time.Timer
	answered atomic.Int64 // calls of the driver that came back; left where the owner was left behind
	gone     error        // the GPU has not answered: commands are dropped from then on
}

// left in place of the number of answers has the owner end without touching anything.
const left = -1

const batchSize = 64

type batch struct {
	n        int
	wait     bool
	commands [batchSize]command
}

type commandKind uint8

const (
	commandLaunch commandKind = iota
	commandFill
	commandCopy
	commandUpload
	commandDownload
	commandProduct
	commandSync
	commandRun
	commandReplay
	commandFetch
	commandSignal
	commandAwait
	commandStream
	commandStreamed
	commandFork
	commandAsync
	commandWait
	commandAllReduce // the first of the collectives
	commandBroadcast
	commandReduce
	commandAllGather
	commandReduceScatter
)

// command is one piece of work for the owner.
type command struct {
	kind     commandKind
	function *function // of a launch
	launch   driver.Launch
	types    [driver.MaxParameters]byte
	count    int // of parameters
	dst, src driver.Ptr
	host     unsafe.Pointer
	bytes    int
	pattern  uint32
	product  driver.Gemm
	run      func() error
	exec     driver.Exec
	slot     int         // of a fetch; the root of a collective; the number of an event
	owner    *dev        // of a kernel
	written  uint64      // parameters that the kernel may write through
	back     *backBuffer // of what is streamed
	pinned   bool        // host is memory that the GPU reads by itself
	behind   bool        // of a collective
	half     bool        // of a collective: of bfloat16
	at       string      // what the command belongs to
}

func (q *queue) start(d *dev) {
	q.dev, q.batch = d, new(batch)
	q.work, q.free, q.done = make(chan *batch, 1), make(chan *batch, 2), make(chan *batch, 1)
	q.patience = time.NewTimer(q.timeout)
	q.free <- new(batch)
	go q.own()
}

func (q *queue) stop() { close(q.work) }

// next returns a new command at the end of the batch.
func (q *queue) next() *command {
	if len(q.dev.small.parts) > 0 {
		q.dev.small.deliver(q.dev)
	}
	if len(q.dev.uploads.parts) > 0 {
		if q.full == nil && q.gone == nil {
			q.dev.deliver()
		} else {
			q.dev.uploads.drop()
		}
	}
	if q.full != nil || q.gone != nil {
		q.dropped = command{}
		q.dev.bf16.lost = true
		return &q.dropped
	}
	if q.batch.n == batchSize {
		q.flush(false)
	}
	c := &q.batch.commands[q.batch.n]
	*c = command{at: q.at}
	q.batch.n++
	return c
}

// At implements device.Namer.
func (q *queue) At(what string) { q.at = what }

func (q *queue) flush(wait bool) {
	if q.gone != nil {
		return
	}
	q.batch.wait = wait
	q.work <- q.batch // which has room: there are two batches, and the owner takes one before it gives back the other
	if q.batch = q.answer(q.free); q.batch == nil {
		q.batch = new(batch)
	}
}

// answer is what the owner sends, nil where the GPU has not answered in time. Every wait for the GPU is one for the
// owner, which alone calls the driver, so this is where they all end: where no call of the driver comes back during
// Options.Timeout, the owner is left behind with it, and the device has failed.
func (q *queue) answer(from <-chan *batch) *batch {
	select {
	case b := <-from:
		return b
	default:
	}
	for {
		seen := q.answered.Load()
		q.patience.Reset(q.timeout)
		select {
		case b := <-from:
			q.patience.Stop()
			return b
		case <-q.patience.C:
		}
		if seen == q.answered.Load() && q.answered.CompareAndSwap(seen, left) {
			q.gone = &device.Error{Err: &driver.Silence{For: q.timeout, At: q.faults.where()}}
			return nil
		}
	}
}

// wait returns when the owner has handed every command to the driver, with the first failure so far.
func (q *queue) wait() error {
	if q.flush(true); q.gone == nil && q.answer(q.done) != nil {
		return q.failure
	}
	return q.gone
}

// run executes f on the thread of the context, in its turn.
func (q *queue) run(f func() error) {
	c := q.next()
	c.kind, c.run = commandRun, f
}

// own is the life of the owner. The context is current on its thread and nowhere else; when the device is closed the
// thread has none.
func (q *queue) own() {
	runtime.LockOSThread() // a thread that is left behind ends with its context
	for b := range q.work {
		for i := range b.n {
			if q.failure != nil {
				break
			}
			c := &b.commands[i]
			if q.capturing && q.captureErr != nil && c.kind != commandRun {
				continue
			}
			if !q.capturing {
				q.faults.begin(c)
			}
			n := q.answered.Load()
			err := q.profiled(c)
			if !q.answered.CompareAndSwap(n, n+1) {
				close(q.done)
				return
			}
			if err == nil && q.dev.job.aborted() { // what a collective was to write is anything
				err = errAborted
			}
			switch {
			case err == nil:
				q.faults.end(c)
			case q.capturing:
				q.captureErr = q.describe(c, err)
			default:
				q.failure = &device.Error{Err: q.describe(c, err)}
			}
			c.run, c.host = nil, nil
		}
		b.n = 0
		wait := b.wait
		q.free <- b
		if wait {
			q.done <- b
		}
	}
	runtime.UnlockOSThread()
}

func (q *queue) execute(c *command) error {
	d := q.dev
	switch c.kind {
	case commandLaunch:
		return c.function.launch(d, c)
	case commandFill:
		return d.drv.Fill(c.dst, c.pattern, c.bytes/4, d.stream)
	case commandCopy:
		return d.drv.Copy(c.dst, c.src, c.bytes, d.stream)
	case commandUpload:
		return q.staging.upload(d, c.dst, c.host, c.bytes)
	case commandDownload:
		return q.staging.download(d, c.host, c.src, c.bytes)
	case commandProduct:
		return d.product(&c.product)
	case commandSync:
		return d.drv.Synchronize(d.stream)
	case commandReplay:
		return d.drv.LaunchGraph(c.exec, d.stream)
	case commandFetch:
		return d.drv.Download(q.fetches[c.slot].memory, c.src, c.bytes, d.stream)
	case commandSignal:
		return d.drv.Record(q.fetches[c.slot].event, d.stream)
	case commandAwait:
		return d.drv.Wait(q.fetches[c.slot].event)
	case commandStream:
		return q.staging.stream(d, c)
	case commandStreamed:
		return c.back.release(d)
	case commandFork, commandAsync, commandWait, commandAllReduce, commandBroadcast, commandReduce, commandAllGather,
		commandReduceScatter:
		return d.job.execute(c)
	}
	return c.run()
}
