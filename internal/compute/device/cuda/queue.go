package cuda

import (
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda/driver"
)

// queue passes commands from the goroutine that uses the device to the owner of the context.
//
// Commands are written into a batch. The owner gets a batch when it is full or when the caller waits for it, and the
// caller fills another meanwhile. Batches are reused.
type queue struct {
	dev     *dev
	batch   *batch // being filled
	work    chan *batch
	free    chan *batch // done by the owner
	done    chan *batch // done by the owner, if the caller waits for it
	failure error       // the first; written by the owner, read after wait
	staging staging
	fetches [device.FetchSlots]fetchBuffer

	profile    *profile
	capturing  bool   // commands are recorded (record.go)
	captureErr error  // why the recording failed
	at         string // the node of the calls
	faults     faultRange
	full       error // the GPU had no room for scratch memory: commands are dropped until Sync reports it
	dropped    command
	bias       command // for a product whose bias cuBLAS does not add, on the thread of the context

	timeout  time.Duration // Options.Timeout
	patience *time.Timer
	answered atomic.Int64 // calls of the driver that returned; left if the caller has given up
	gone     error        // the GPU has not answered: all later commands are dropped
}

// left, in place of the number of answers, makes the owner end without using anything.
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
	written  uint64      // parameters that the kernel may write through, a bit each
	back     *backBuffer // of a streamed value
	pinned   bool        // host is pinned memory
	async    bool        // of a collective
	half     bool        // of a collective in bfloat16
	at       string      // the node of the command
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
	q.work <- q.batch // never blocks: of the two batches, the owner takes one before it returns the other
	if q.batch = q.answer(q.free); q.batch == nil {
		q.batch = new(batch)
	}
}

// answer returns what the owner sends, nil if the GPU does not answer in time. Only the owner calls the driver, so
// every wait for the GPU ends here. If no call of the driver returns during Options.Timeout, the device has failed, and
// the owner ends when the call returns.
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

// wait returns when the owner has handed all commands to the driver, with the first failure so far.
func (q *queue) wait() error {
	if q.flush(true); q.gone == nil && q.answer(q.done) != nil {
		return q.failure
	}
	return q.gone
}

// run executes f on the thread of the context, after the commands so far.
func (q *queue) run(f func() error) {
	c := q.next()
	c.kind, c.run = commandRun, f
}

// own runs the owner. The context is current on its thread only, until the device is closed.
func (q *queue) own() {
	runtime.LockOSThread() // without UnlockOSThread the thread ends with the goroutine
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
			if err == nil && q.dev.job.aborted() { // results of collectives are undefined
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
		return q.staging.send(d, c.dst, c.host, c.bytes, d.stream)
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
