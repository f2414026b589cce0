package cuda

import "vsetrain/internal/compute/device/cuda/driver"

// Profiler is implemented by the devices of this package.
type Profiler interface {
	// Profile returns what the GPU is given while f runs, without what is streamed beside its kernels. With timed the
	// time of each lies between two events, and f must start its kernels call by call: no recording is made or
	// replayed.
	Profile(timed bool, f func() error) ([]driver.Call, error)
}

// profile collects the calls of Profile, on the thread of the context.
type profile struct {
	timed  bool
	calls  []driver.Call
	events [][2]driver.Event // of the calls
}

// Profile implements Profiler.
func (d *dev) Profile(timed bool, f func() error) ([]driver.Call, error) {
	p := &profile{timed: timed}
	d.run(func() error { d.profile = p; return nil })
	err := f()
	d.run(func() error { d.profile = nil; return p.finish(d) })
	if failed := d.wait(); err == nil {
		err = failed
	}
	return p.calls, err
}

// profiled executes a command, and notes it where Profile asks for that.
func (q *queue) profiled(c *command) error {
	p := q.profile
	if p == nil {
		return q.execute(c)
	}
	call, ok := q.dev.call(c)
	if !ok {
		return q.execute(c)
	}
	p.calls = append(p.calls, call)
	if !p.timed {
		return q.execute(c)
	}
	var around [2]driver.Event
	for i := range around {
		e, err := q.dev.drv.NewEvent()
		if err != nil {
			return err
		}
		around[i] = e
		if i == 0 {
			err = q.dev.drv.Record(e, q.dev.stream)
		} else if err = q.execute(c); err == nil {
			err = q.dev.drv.Record(e, q.dev.stream)
		}
		if err != nil {
			return err
		}
	}
	p.events = append(p.events, around)
	return nil
}

// call is a command as a piece of work of the GPU, false for what is none.
func (d *dev) call(c *command) (driver.Call, bool) {
	switch c.kind {
	case commandLaunch:
		return driver.Call{Kernel: c.function.Name, Launch: c.launch, Parameters: string(c.types[:c.count])}, true
	case commandProduct:
		product := c.product
		return driver.Call{Product: &product}, true
	case commandCopy:
		return driver.Call{Bytes: c.bytes, Copy: true}, true
	case commandUpload, commandDownload, commandFetch:
		return driver.Call{Bytes: c.bytes, Copy: true, Host: true}, true
	case commandFill:
		return driver.Call{Bytes: c.bytes}, true
	}
	return driver.Call{}, false
}

// finish reads the events.
func (p *profile) finish(d *dev) error {
	if len(p.events) == 0 {
		return nil
	}
	if err := d.drv.Synchronize(d.stream); err != nil {
		return err
	}
	for i, e := range p.events {
		ms, err := d.drv.Elapsed(e[0], e[1])
		if err != nil {
			return err
		}
		p.calls[i].Millis = float64(ms)
		for _, x := range e {
			if err := d.drv.DestroyEvent(x); err != nil {
				return err
			}
		}
	}
	return nil
}
