package bench

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"vsetrain/internal/compute/device"
)

// Profiled is the time of a training step, kernel by kernel.
type Profiled struct {
	Device string  `json:"device"`
	StepMS float64 `json:"step_ms"` // of the host, with each kernel timed by itself
	Limits
	Kernels []Timed `json:"kernels"` // those that take longest first
	Sum     Timed   `json:"sum"`     // of the kernels
	// Launches are what a GPU ran for the kernels, and the gaps between them.
	Launches []Launched `json:"launches,omitempty"`
}

// Timed is a kernel in a step.
type Timed struct {
	Name  string  `json:"kernel"`
	Calls int     `json:"calls"`
	Bytes float64 `json:"bytes"` // device.Bytes
	Flop  float64 `json:"flop"`  // device.Flops
	MS    float64 `json:"ms"`
	// Share is the share of the limits: the least time that Limits allow for the bytes and operations of the calls,
	// over MS. It exceeds 1 for data in the cache of a processor, and for products that need fewer operations.
	Share float64 `json:"share"`
	least float64 // milliseconds
}

// Launched is a kernel, or another operation, that a GPU ran in a step.
type Launched struct {
	Name   string  `json:"launch"`
	Kernel string  `json:"kernel,omitempty"` // of Kernels, for which it was launched
	Calls  int     `json:"calls"`
	MS     float64 `json:"ms"`
}

// stopwatch is a device that times the kernels of another one.
type stopwatch struct {
	device.Device
	now    func() time.Time
	float  int             // bytes of a Float
	behind device.Profiler // of a device whose kernels run asynchronously; nil if Do waits for them
	namer  device.Namer    // of that device
	on     bool
	done   []Timed // calls of kernels
	given  []device.Launch
}

// around puts the stopwatch around a device.
func (s *stopwatch) around(d device.Device) device.Device {
	s.Device, s.float = d, 4
	if d.Float64() {
		s.float = 8
	}
	s.behind, _ = device.As[device.Profiler](d)
	s.namer, _ = device.As[device.Namer](d)
	return s
}

// Unwrap implements device.Wrapper.
func (s *stopwatch) Unwrap() device.Device { return s.Device }

// Do implements device.Device.
func (s *stopwatch) Do(k device.Kernel) bool {
	if !s.on {
		return s.Device.Do(k)
	}
	if s.behind != nil { // by its number
		s.namer.At(strconv.Itoa(len(s.done)))
		defer s.namer.At("")
	}
	start := s.now()
	if !s.Device.Do(k) {
		return false
	}
	call := Timed{Name: device.NameOf(k), Calls: 1, Flop: device.Flops(k), Bytes: float64(device.Bytes(k, s.float))}
	if g, ok := k.(*device.Gemm); ok {
		call.Name = fmt.Sprintf("%s %dx%dx%d", call.Name, g.M, g.N, g.K)
	}
	if s.behind == nil {
		call.MS = 1e3 * s.now().Sub(start).Seconds()
	}
	s.done = append(s.done, call)
	return true
}

// time notes the kernels of a step.
func (s *stopwatch) time(step func() error) error {
	s.on = true
	defer func() { s.on = false }()
	if s.behind == nil {
		return step()
	}
	first := len(s.done)
	given, err := s.behind.Profile(step)
	for _, l := range given {
		if i, err := strconv.Atoi(l.At); err == nil && i >= first && i < len(s.done) {
			s.done[i].MS += l.Milliseconds
		}
	}
	s.given = append(s.given, given...)
	return err
}

// table sums up the kernels of the given number of steps.
func (s *stopwatch) table(limits Limits, steps int) *Profiled {
	p := &Profiled{Limits: limits, Sum: Timed{Name: "sum"}}
	kernels, launches := map[string]Timed{}, map[[2]string]Launched{}
	for _, c := range s.done {
		c.least = 1e3 * max(c.Bytes/limits.Memory, c.Flop/limits.Products)
		kernels[c.Name] = kernels[c.Name].plus(c)
		p.Sum = p.Sum.plus(c)
	}
	for _, l := range s.given {
		of := ""
		if i, err := strconv.Atoi(l.At); err == nil && i < len(s.done) {
			of = s.done[i].Name
		}
		key := [2]string{l.Name, of}
		all := launches[key]
		launches[key] = Launched{l.Name, of, all.Calls + 1, all.MS + l.Milliseconds/float64(steps)}
	}
	for _, k := range kernels {
		p.Kernels = append(p.Kernels, k.over(steps))
	}
	for _, l := range launches {
		l.Calls = perStep(l.Calls, steps)
		p.Launches = append(p.Launches, l)
	}
	slices.SortFunc(p.Kernels, func(a, b Timed) int {
		return cmp.Or(cmp.Compare(b.MS, a.MS), cmp.Compare(a.Name, b.Name))
	})
	slices.SortFunc(p.Launches, func(a, b Launched) int {
		return cmp.Or(cmp.Compare(b.MS, a.MS), cmp.Compare(a.Name+a.Kernel, b.Name+b.Kernel))
	})
	p.Sum = p.Sum.over(steps)
	return p
}

func (t Timed) plus(o Timed) Timed {
	return Timed{Name: cmp.Or(t.Name, o.Name), Calls: t.Calls + o.Calls, Bytes: t.Bytes + o.Bytes,
		Flop: t.Flop + o.Flop, MS: t.MS + o.MS, least: t.least + o.least}
}

// over is the mean over the given number of steps.
func (t Timed) over(steps int) Timed {
	if t.MS > 0 {
		t.Share = t.least / t.MS
	}
	n := float64(steps)
	t.Calls, t.Bytes, t.Flop, t.MS = perStep(t.Calls, steps), t.Bytes/n, t.Flop/n, t.MS/n
	return t
}

// perStep is the number of calls in a step, at least 1: not every step makes all of them.
func perStep(calls, steps int) int { return max(1, (calls+steps/2)/steps) }
