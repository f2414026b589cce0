package cuda

import (
	"errors"
	"fmt"
	"strings"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda/driver"
)

// others opens NVML, the first of the paths that starts, and lists the processes that use the GPU, none without NVML.
func (d *dev) others(paths []string) (list []string) {
	for _, path := range paths {
		m, err := driver.OpenMonitor(path, d.info)
		if err != nil {
			continue
		}
		d.monitor = m
		all, _ := m.Processes() // an old driver does not list them
		for _, p := range all {
			s := fmt.Sprintf("process %d", p.ID)
			if p.Used > 0 {
				s += " with " + device.FormatBytes(p.Used)
			}
			list = append(list, s)
		}
		break
	}
	return list
}

// share warns if other programs use the GPU: they slow each other down and share its memory. It runs on the thread of
// the context.
func (d *dev) share(others []string) error {
	free, total, err := d.drv.Memory()
	if err != nil {
		return err
	}
	const usual = 0.8 // the driver and the context of this process take less than the rest
	if len(others) > 0 || float64(free) < usual*float64(total) {
		by := ""
		if len(others) > 0 {
			by = " (" + strings.Join(others, ", ") + ")"
		}
		d.warn("other programs use this GPU%s: %s of its %s are free, and they take time from each other; end them, "+
			"or choose another GPU with device.index", by, device.FormatBytes(int64(free)),
			device.FormatBytes(int64(total)))
	}
	return nil
}

// Usage implements device.UsageReporter.
func (d *dev) Usage() (device.Usage, bool) {
	if d.monitor == nil || d.closed {
		return device.Usage{}, false
	}
	s, err := driver.Within(d.timeout, "NVML", d.monitor.State)
	if _, silent := errors.AsType[*driver.Silence](err); silent {
		d.monitor = nil // the call has not returned
	}
	if err != nil {
		return device.Usage{}, false // the next kernel reports a GPU that is lost or hangs
	}
	u := device.Usage{Used: s.Used, Total: s.Total, Busy: s.Busy, Celsius: s.Celsius, Watts: -1}
	if s.Milliwatts >= 0 {
		u.Watts = float64(s.Milliwatts) / 1000
	}
	return u, true
}
