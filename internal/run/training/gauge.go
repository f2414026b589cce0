package training

import (
	"fmt"
	"time"

	"vsetrain/internal/compute/device"
)

// gauge reads the usage that a device reports.
type gauge struct {
	heard  int           // warnings that were passed on
	looked time.Time     // when its use was looked at last
	used   *device.Usage // the usage at that time
	began  time.Time     // of the steps that followed each other without a pause
	last   time.Time     // when the last one ended
}

// pause is the longest time between two consecutive steps.
const pause = 50 * time.Millisecond

// usage reads the usage of a device once a second, after a step of the given duration. The device reports how busy it
// was in the last second, which describes steps only if nothing else happened in it. After a validation or a checkpoint
// it would describe those.
func (g *gauge) usage(d device.Device, now time.Time, step time.Duration) *device.Usage {
	tells, ok := device.As[device.UsageReporter](d)
	if !ok {
		return nil
	}
	if began := now.Add(-step); began.Sub(g.last) > pause {
		g.began = began
	}
	g.last = now
	if now.Sub(g.looked) >= time.Second {
		g.looked, g.used = now, nil
		if u, ok := tells.Usage(); ok {
			if now.Sub(g.began) < time.Second {
				u.Busy = -1
			}
			g.used = &u
		}
	}
	return g.used
}

// attention compares the processor time of this process with the time of its steps.
type attention struct {
	processor  func() time.Duration // nil does not look
	last       time.Duration        // processor time at the last step; 0 where something else came between
	used, wall time.Duration        // of the steps since the last look
	said       bool
}

// watched is how long steps are watched before their share of the processors is known.
const watched = 10 * time.Second

// step records a step that took the given time without waiting for data. Once, it returns a warning if the processor
// time is below half of that.
func (a *attention) step(took time.Duration, ranks bool) error {
	if a.processor == nil || a.said {
		return nil
	}
	now := a.processor()
	if a.last > 0 {
		a.used, a.wall = a.used+now-a.last, a.wall+took
	}
	a.last = now
	if a.wall < watched {
		return nil
	}
	share := float64(a.used) / float64(a.wall)
	a.used, a.wall = 0, 0
	if share >= 0.5 {
		return nil
	}
	a.said = true
	late := ""
	if ranks {
		late = ", or another rank is late and this one waits for it"
	}
	return fmt.Errorf("steps had a processor for %.0f %% of their time: other programs compute on this machine%s; "+
		"steps take as much longer", 100*share, late)
}

// warnings are the warnings of a device since the last call.
func (g *gauge) warnings(d device.Device) (list []string) {
	if w, ok := device.As[device.Warner](d); ok {
		list = w.Warnings()[g.heard:]
		g.heard += len(list)
	}
	return list
}
