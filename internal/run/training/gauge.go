package training

import (
	"time"

	"vsetrain/internal/compute/device"
)

// gauge looks at what a device tells of itself.
type gauge struct {
	heard  int           // warnings that were passed on
	looked time.Time     // when its use was looked at last
	used   *device.Usage // what it was then
}

// usage looks at a device once a second.
func (g *gauge) usage(d device.Device, now time.Time) *device.Usage {
	tells, ok := device.As[device.Gauge](d)
	if !ok {
		return nil
	}
	if now.Sub(g.looked) >= time.Second {
		g.looked, g.used = now, nil
		if u, ok := tells.Usage(); ok {
			g.used = &u
		}
	}
	return g.used
}

// warnings are those that a device has had since it was last asked.
func (g *gauge) warnings(d device.Device) (list []string) {
	if w, ok := device.As[device.Warner](d); ok {
		list = w.Warnings()[g.heard:]
		g.heard += len(list)
	}
	return list
}
