package cuda

import (
	"fmt"
	"runtime"
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
	free    chan *batch
	done    chan struct{}
	failure error // the first; written by the owner, read after wait
	staging staging
	fetches [device.FetchSlots]fetchBuffer

	profile    *profile
	capturing  bool   // commands are recorded (record.go)
	captureErr error  // why they cannot be
	at         string // what the calls belong to
	faults     faultRange
	full       error // scratch memory that the GPU had no room for: commands are dropped until Sync reports it
	dropped    command
	hung       func(string) // told where the GPU is when it has not answered for so long; may be nil
	hungAfter  time.Duration
	patience   *time.Timer
	bias       command // of a product whose bias cuBLAS does not add, on the thread of the context
}

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
	commandBehind
	commandJoin
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
	q.work, q.free, q.done = make(chan *batch, 1), make(chan *batch, 2), make(chan struct{})
	q.free <- new(batch)
	go q.own()
}

func (q *queue) stop() { close(q.work) }

// next returns a new command at the end of the batch.
func (q *queue) next() *command {
	if len(q.dev.uploads.parts) > 0 {
		if q.full == nil {
			q.dev.deliver()
		} else {
			q.dev.uploads.drop()
		}
	}
	if q.full != nil {
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
	q.batch.wait = wait
	q.work <- q.batch
	q.batch = <-q.free
}

// wait returns when the owner has handed every command to the driver, with the first failure so far.
func (q *queue) wait() error {
	q.flush(true)
	if q.hung == nil {
		<-q.done
		return q.failure
	}
	q.patience.Reset(q.hungAfter)
	select {
	case <-q.done:
	case <-q.patience.C:
		// The owner is within one call of the driver meanwhile, and changes nothing.
		q.hung(fmt.Sprintf("the GPU has not answered for %v: it is at %s", q.hungAfter, q.faults.where()))
		<-q.done
	}
	q.patience.Stop()
	return q.failure
}

// run executes f on the thread of the context, in its turn.
func (q *queue) run(f func() error) {
	c := q.next()
	c.kind, c.run = commandRun, f
}

// own is the life of the owner. The context is current on its thread and nowhere else; when the device is closed the
// thread has none.
func (q *queue) own() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
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
			err := q.profiled(c)
			if err == nil && q.dev.job.aborted() { // what a collective was to write is anything
				err = errAborted
			}
			switch {
			case err == nil:
				q.faults.end(c)
			case q.capturing:
				q.captureErr = q.describe(c, err)
			default:
				q.failure = &device.Failed{Err: q.describe(c, err)}
			}
			c.run, c.host = nil, nil
		}
		b.n = 0
		wait := b.wait
		q.free <- b
		if wait {
			q.done <- struct{}{}
		}
	}
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
	case commandFork, commandBehind, commandJoin, commandAllReduce, commandBroadcast, commandReduce, commandAllGather,
		commandReduceScatter:
		return d.job.execute(c)
	}
	return c.run()
}
