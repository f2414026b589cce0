// Package model predicts what a training step takes on a GPU that is not there: from the calls that a step gives a GPU
// (driver.Call), what each kernel moves and computes (the Cost lines of the sources), and what a GPU can do (GPU,
// Assumed). It is a sum over the calls, each of which takes the longest of moving its bytes, computing, and waiting for
// memory, and a constant for being started behind the one before.
//
// Ratios between kernels and between versions of a kernel are better than the times: docs/gpu-model.md.
package model

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"vsetrain/internal/compute/device/cuda/driver"
)

// Batch is what a cost may depend on that no parameter of a kernel says: words of a caption, on average and at most.
type Batch struct{ Words, Longest float64 }

// Line is a kernel, or products of one shape, in the table of a step.
type Line struct {
	Name      string  `json:"name"`
	Calls     int     `json:"calls"`
	Bytes     float64 `json:"bytes"`
	Flop      float64 `json:"flop"`
	Predicted float64 `json:"predicted_ms"`
	Measured  float64 `json:"measured_ms,omitempty"` // 0 where nothing was measured
}

// Table is a step: its lines, the longest predicted first, and their sum, without a name.
type Table struct {
	GPU   string `json:"gpu"`
	Lines []Line `json:"lines"`
	Sum   Line   `json:"sum"`
}

// Predict makes the table of the calls of a step.
func Predict(g GPU, b Batch, calls []driver.Call) (*Table, error) {
	known, err := costs()
	if err != nil {
		return nil, err
	}
	t := &Table{GPU: g.Name}
	at := map[string]int{}
	for _, c := range calls {
		l, err := g.call(c, b, known)
		if err != nil {
			return nil, err
		}
		t.put(at, l)
	}
	t.sort()
	return t, nil
}

// Add adds the lines of a table, times over; calls are rounded to whole ones.
func (t *Table) Add(o *Table, times float64) {
	at := map[string]int{}
	for i, l := range t.Lines {
		at[l.Name] = i
	}
	for _, l := range o.Lines {
		l.Calls = int(math.Round(float64(l.Calls) * times))
		l.Bytes, l.Flop, l.Predicted, l.Measured = l.Bytes*times, l.Flop*times, l.Predicted*times, l.Measured*times
		t.put(at, l)
	}
	t.sort()
}

// put adds a line to that of the same name, whose place at knows, and to the sum.
func (t *Table) put(at map[string]int, l Line) {
	i, ok := at[l.Name]
	if !ok {
		i = len(t.Lines)
		at[l.Name] = i
		t.Lines = append(t.Lines, Line{Name: l.Name})
	}
	t.Lines[i].add(l)
	t.Sum.add(l)
}

// sort puts the longest lines first.
func (t *Table) sort() {
	slices.SortStableFunc(t.Lines, func(a, b Line) int { return cmp.Compare(b.Predicted, a.Predicted) })
}

func (l *Line) add(o Line) {
	l.Calls += o.Calls
	l.Bytes += o.Bytes
	l.Flop += o.Flop
	l.Predicted += o.Predicted
	l.Measured += o.Measured
}

// call is the line of one call.
func (g GPU) call(c driver.Call, b Batch, known map[string]*cost) (Line, error) {
	l := Line{Calls: 1, Measured: c.Millis}
	var seconds float64
	switch {
	case c.Product != nil:
		l.Name, l.Bytes, l.Flop, seconds = g.product(c.Product)
	case c.Kernel != "":
		k := known[c.Kernel]
		if k == nil {
			return l, fmt.Errorf("kernel %s is not in the sources", c.Kernel)
		}
		l.Name = c.Kernel
		var err error
		if l.Bytes, l.Flop, seconds, err = g.kernel(c, b, k); err != nil {
			return l, fmt.Errorf("kernel %s: %w", c.Kernel, err)
		}
	case c.Host:
		l.Name, l.Bytes = "host copy", float64(c.Bytes)
		seconds = l.Bytes / g.Link
	default:
		l.Name, l.Bytes = "fill", float64(c.Bytes)
		if c.Copy {
			l.Name, l.Bytes = "copy", 2*float64(c.Bytes)
		}
		seconds = l.Bytes / g.rate(l.Bytes)
	}
	l.Predicted = 1e3 * (seconds + assumed("start"))
	return l, nil
}

// rate is the bandwidth for a kernel that moves so many bytes.
func (g GPU) rate(bytes float64) float64 {
	r := g.Bandwidth * assumed("bandwidth")
	if bytes < g.L2/2 {
		r *= assumed("l2")
	}
	return r
}

// threads is how many the GPU holds at once.
func (g GPU) threads() float64 {
	n := assumed("resident")
	if g.Major == 8 && g.Minor > 0 {
		n = 1536
	}
	return n * float64(g.Multiprocessors)
}

// kernel is the longest of moving, computing and waiting.
func (g GPU) kernel(c driver.Call, b Batch, k *cost) (bytes, flop, seconds float64, err error) {
	with := k.variables(c, b, g.threads())
	value := map[string]float64{}
	for name, otherwise := range map[string]float64{"read": 0, "write": 0, "flop": 0, "double": 0, "mma": 0,
		"tf32": 0, "flight": 4, "hits": 0} {
		if value[name], err = k.eval(name, with, otherwise); err != nil {
			return 0, 0, 0, err
		}
	}
	blocks := float64(c.Launch.Grid[0]) * float64(c.Launch.Grid[1]) * float64(c.Launch.Grid[2])
	all := blocks * float64(c.Launch.Threads)
	bytes, flop = value["read"]+value["write"], value["flop"]+value["double"]+value["mma"]+value["tf32"]
	turns, err := k.eval("turns", with, value["read"]/(min(all, g.threads())*value["flight"]))
	if err != nil {
		return 0, 0, 0, err
	}
	latency := assumed("dram")
	if bytes < g.L2/2 {
		latency = assumed("cached")
	}
	busy := min(1, blocks/float64(g.Multiprocessors)) // share of the multiprocessors with work
	compute := (value["flop"]/g.FP32 + value["double"]/g.FP64) / (assumed("units") * busy)
	tensor := (value["mma"]/g.BF16 + value["tf32"]/g.TF32) / (assumed("mma") * busy)
	return bytes, flop, max(bytes/g.rate(bytes), compute, tensor,
		turns*latency+value["hits"]*assumed("cached")), nil
}

// tiles are the sizes that a kernel of cuBLAS may work on at once, and how well it does: a larger one reads its
// operands less often.
var tiles = []struct{ m, n, share float64 }{
	{256, 128, 1}, {128, 128, 1}, {128, 64, 0.85}, {64, 128, 0.85}, {64, 64, 0.6}, {64, 32, 0.4}, {32, 64, 0.4},
}

// product is the fastest way of dividing a product into tiles, over depth too, on whole rounds of all multiprocessors;
// memory and the data sheet's rate bound it.
func (g GPU) product(p *driver.Gemm) (name string, bytes, flop, seconds float64) {
	m, n, k, count := float64(p.M), float64(p.N), float64(p.K), float64(p.Count)
	kind, rate, size := g.arithmetic(p)
	flop = 2 * m * n * k * count
	out := 4 * m * n
	if p.Beta != 0 {
		out *= 2
	}
	bytes = count * (size*(m*k+k*n) + out)
	best := math.Inf(1)
	for _, t := range tiles {
		for split := 1.0; split <= 16 && (split == 1 || k/split >= 64); split *= 2 {
			rounds := math.Ceil(math.Ceil(m/t.m) * math.Ceil(n/t.n) * count * split / float64(g.Multiprocessors))
			s := rounds * 2 * t.m * t.n * (k / split) / (rate / float64(g.Multiprocessors) * t.share)
			if split > 1 {
				s += assumed("start") + 8*m*n*count*split/g.rate(0)
			}
			best = min(best, s)
		}
	}
	seconds = max(best, bytes/g.rate(bytes)) + assumed("product")
	name = fmt.Sprintf("product %s %dx%dx%d", kind, p.M, p.N, p.K)
	if p.Count > 1 {
		name += fmt.Sprintf(" x%d", p.Count)
	}
	return name, bytes, flop, seconds
}

// arithmetic is that of a product: its name, operations a second, bytes of an element of the operands.
func (g GPU) arithmetic(p *driver.Gemm) (kind string, rate, size float64) {
	switch {
	case p.Half:
		return "bf16", g.BF16 * assumed("bf16"), 2
	case p.Compute == driver.ComputeBF16 && g.Major >= 8:
		return "bf16", g.TF32 * assumed("tf32"), 4 // reads float32 as tf32 does
	case p.Compute == driver.ComputeTF32 && g.Major >= 8:
		if g.Major >= 9 && (p.TransA || !p.TransB) {
			return "tf32", g.TF32 * assumed("tf32t"), 4
		}
		return "tf32", g.TF32 * assumed("tf32"), 4
	}
	return "fp32", g.FP32 * assumed("fp32"), 4
}
