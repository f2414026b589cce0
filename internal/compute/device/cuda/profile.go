package cuda

import (
	"fmt"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda/driver"
)

// profile collects the launches of Profile, on the thread of the context.
type profile struct {
	launches []device.Launch
	kernels  []driver.Launch   // their arguments; zero for other work
	events   [][2]driver.Event // around them
}

// Profile implements device.Profiler. Two events around each launch measure its time.
func (d *dev) Profile(f func() error) ([]device.Launch, error) {
	p, err := d.profiling(f)
	return p.launches, err
}

func (d *dev) profiling(f func() error) (*profile, error) {
	p := &profile{}
	d.run(func() error { d.profile = p; return nil })
	err := f()
	d.run(func() error { d.profile = nil; return p.finish(d) })
	if failed := d.wait(); err == nil {
		err = failed
	}
	return p, err
}

// profiled executes a command, and measures its time during Profile.
func (q *queue) profiled(c *command) (err error) {
	p := q.profile
	if p == nil {
		return q.execute(c)
	}
	name := c.name()
	if name == "" {
		return q.execute(c)
	}
	var around [2]driver.Event
	for i := range around {
		if around[i], err = q.dev.drv.NewEvent(); err != nil {
			return err
		}
		if i == 1 {
			if err := q.execute(c); err != nil {
				return err
			}
		}
		if err := q.dev.drv.Record(around[i], q.dev.stream); err != nil {
			return err
		}
	}
	p.launches = append(p.launches, device.Launch{Name: name, At: c.at})
	p.kernels = append(p.kernels, c.launch)
	p.events = append(p.events, around)
	return nil
}

// name is the name of a command, empty if it is not work of the GPU.
func (c *command) name() string {
	switch c.kind {
	case commandLaunch:
		return c.function.Name
	case commandProduct:
		p := &c.product
		kind := "fp32"
		switch {
		case p.Half || p.Compute == driver.ComputeBF16:
			kind = "bf16"
		case p.Compute == driver.ComputeTF32:
			kind = "tf32"
		}
		name := fmt.Sprintf("product %s %dx%dx%d", kind, p.M, p.N, p.K)
		if p.Count > 1 {
			name += fmt.Sprintf(" x%d", p.Count)
		}
		return name
	case commandCopy:
		return "copy"
	case commandUpload, commandDownload, commandFetch:
		return "host copy"
	case commandFill:
		return "fill"
	}
	return ""
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
		p.launches[i].Milliseconds = float64(ms)
		for _, x := range e {
			if err := d.drv.DestroyEvent(x); err != nil {
				return err
			}
		}
	}
	return nil
}
