// Package selftest compares the kernels of a device with their references on this machine (vsetrain selftest). The
// program imports no other package of the laboratory directly.
package selftest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cpu"
	"vsetrain/internal/compute/device/cuda"
	"vsetrain/internal/compute/device/cuda/driver"
	"vsetrain/internal/compute/device/ranks"
	"vsetrain/internal/run/placement"
	"vsetrain/lab/devicetest"
)

// Request selects what to test: the conformance suite compares kernels with references in float64, in every precision
// and with every kind of matrix product.
type Request struct {
	Kind     string   // "cuda" or "cpu"
	Families []string // empty for all
	Variants []string // empty for all of the kind (Variants)
}

// Result is the outcome of one kernel family in one variant of the device.
type Result struct {
	Variant     string   `json:"variant"`
	Family      string   `json:"family"`
	Comparisons int      `json:"comparisons"`
	Difference  float64  `json:"difference"` // in the comparison that came closest to its bound
	Allowed     float64  `json:"allowed"`
	Seconds     float64  `json:"seconds"`
	Kernels     []string `json:"kernels,omitempty"` // of a GPU, that were launched
	// Barred are the kernels so far that the GPU cannot start, each with the reason.
	Barred   map[string]string `json:"barred,omitempty"`
	Failures []string          `json:"failures,omitempty"`
}

// Device is the device of a variant.
type Device struct {
	Variant string
	Name    string
	Skipped string   // why the device is not available
	Kernels []string // of a GPU
}

// variant is a way in which a device computes. A new one is a line in variants.
type variant struct {
	kind, name, precision string
	blas                  bool    // products by cuBLAS, otherwise by vsetrain's kernel
	rounds                float64 // devicetest.Measure; 0 for full precision
	copies                bool    // all products read bfloat16 from memory, whatever their size
	steps                 bool    // recurrences step by step, as if blocks could not wait for each other
	ranks                 int     // of a job, which share the device; 0 for no job
}

var variants = []variant{
	{kind: "cuda", name: "fp32", precision: cuda.FP32, blas: true},
	{kind: "cuda", name: "tf32", precision: cuda.TF32, blas: true, rounds: devicetest.RoundsTF32},
	{kind: "cuda", name: "bf16", precision: cuda.BF16, blas: true, rounds: devicetest.RoundsBF16},
	{kind: "cuda", name: "bf16-copies", precision: cuda.BF16, blas: true, rounds: devicetest.RoundsBF16, copies: true},
	{kind: "cuda", name: "own-fp32", precision: cuda.FP32},
	{kind: "cuda", name: "own-tf32", precision: cuda.TF32, rounds: devicetest.RoundsTF32},
	{kind: "cuda", name: "own-bf16", precision: cuda.BF16, rounds: devicetest.RoundsBF16},
	{kind: "cuda", name: "own-bf16-copies", precision: cuda.BF16, rounds: devicetest.RoundsBF16, copies: true},
	{kind: "cuda", name: "own-tf32-steps", precision: cuda.TF32, rounds: devicetest.RoundsTF32, steps: true},
	{kind: "cuda", name: "own-bf16-steps", precision: cuda.BF16, rounds: devicetest.RoundsBF16, steps: true},
	{kind: "cuda", name: "own-fp32-ranks", precision: cuda.FP32, ranks: 2},
	{kind: "cuda", name: "own-bf16-ranks", precision: cuda.BF16, rounds: devicetest.RoundsBF16, copies: true, ranks: 2},
	{kind: "cpu", name: "fp32", precision: cpu.FP32},
	{kind: "cpu", name: "bf16", precision: cpu.BF16, rounds: devicetest.RoundsBF16},
	{kind: "cpu", name: "fp64", precision: cpu.FP64},
	{kind: "cpu", name: "fp32-ranks", precision: cpu.FP32, ranks: 2},
}

// stepFamilies have recurrences whose steps a GPU computes in one kernel.
var stepFamilies = []string{"GRU", "GRUGrad", "BiGRU", "BiGRUGrad"}

// tests reports whether a family is tested: in full precision all, otherwise those that depend on the precision.
func (v variant) tests(family string) bool {
	switch {
	case v.ranks > 0 || family == devicetest.Together:
		return v.ranks > 0 && family == devicetest.Together
	case v.steps:
		return slices.Contains(stepFamilies, family)
	}
	return v.rounds == 0 || devicetest.Rounds(family)
}

// Families returns the kernel families, in the order of the tests.
func Families() []string { return devicetest.Families() }

// Variants returns the variants of a kind of device.
func Variants(kind string) (names []string) {
	for _, v := range variants {
		if v.kind == kind {
			names = append(names, v.name)
		}
	}
	return names
}

// Tested returns the families that the request tests in a variant, in their order.
func (r *Request) Tested(variant string) (families []string) {
	for _, v := range variants {
		if v.kind != r.Kind || v.name != variant {
			continue
		}
		for _, f := range devicetest.Families() {
			if (len(r.Families) == 0 || slices.Contains(r.Families, f)) && v.tests(f) {
				families = append(families, f)
			}
		}
	}
	return families
}

// ErrFaulted is the error of a selftest whose GPU failed: all later calls of this process fail, so the following
// families need another process.
var ErrFaulted = errors.New("selftest: the GPU failed, and this process can compute nothing more on it")

// Run tests a device. It calls opened for each variant, with the device or why there is none, begin before each family,
// and each with every result. If the GPU fails in a family, Run ends with ErrFaulted after its result.
func Run(ctx context.Context, r Request, opened func(Device), begin func(family string), each func(Result)) error {
	for _, v := range variants {
		if v.kind != r.Kind || len(r.Variants) > 0 && !slices.Contains(r.Variants, v.name) {
			continue
		}
		var d tested
		for _, family := range r.Tested(v.name) {
			if err := ctx.Err(); err != nil {
				return err
			}
			if d.devices == nil {
				next, skipped, err := v.open(v.openRank)
				if err != nil {
					return err
				}
				if skipped != "" {
					opened(Device{Variant: v.name, Skipped: skipped})
					break
				}
				d = next
				opened(Device{Variant: v.name, Name: d.devices[0].Name(),
					Kernels: slices.Sorted(maps.Keys(d.launches()))})
			}
			begin(family)
			before, start := d.launches(), time.Now()
			m := d.measure(family, v.rounds)
			result := Result{Variant: v.name, Family: family, Comparisons: m.Comparisons,
				Difference: m.Difference, Allowed: m.Allowed, Seconds: time.Since(start).Seconds(),
				Barred: d.barred(), Failures: m.Failures}
			for name, n := range d.launches() {
				if n > before[name] {
					result.Kernels = append(result.Kernels, name)
				}
			}
			slices.Sort(result.Kernels)
			if len(result.Failures) > 0 { // the device may be unusable
				failed := d.failure()
				if failed != nil {
					result.Failures = append(result.Failures, failed.Error())
				}
				each(result)
				d.close()
				if failed != nil {
					return ErrFaulted
				}
				d = tested{}
				continue
			}
			each(result)
		}
		if err := d.close(); err != nil {
			return fmt.Errorf("%s: close the device: %w", v.name, err)
		}
	}
	return nil
}

// tested is the device of a variant, or the devices of all its ranks.
type tested struct {
	devices []device.Device
	job     []*devicetest.World // nil without ranks
}

func (t *tested) measure(family string, rounds float64) devicetest.Measured {
	if t.job != nil {
		return devicetest.MeasureTogether(t.job, t.devices, rounds)
	}
	return devicetest.Measure(t.devices[0], family, rounds)
}

// launches returns how often each kernel of a GPU was launched so far.
func (t *tested) launches() map[string]int {
	all := map[string]int{}
	for _, d := range t.devices {
		if l, ok := d.(cuda.Launcher); ok {
			for name, n := range l.Launches() {
				all[name] += n
			}
		}
	}
	return all
}

// barred is cuda.Launcher.Barred, nil for other devices.
func (t *tested) barred() map[string]string {
	if l, ok := t.devices[0].(cuda.Launcher); ok {
		return l.Barred()
	}
	return nil
}

// failure is the failure of a device, nil if none failed.
func (t *tested) failure() error {
	for _, d := range t.devices {
		if failed, ok := errors.AsType[*device.Error](d.Sync()); ok {
			return failed
		}
	}
	return nil
}

func (t *tested) close() (first error) {
	for _, d := range t.devices {
		first = cmp.Or(first, d.Close())
	}
	return first
}

// open starts the devices with rank, or says why this variant is not available.
func (v variant) open(rank func(*devicetest.World) (device.Device, string, error)) (t tested, skipped string,
	err error) {
	worlds := []*devicetest.World{nil} // one device, in no job
	if v.ranks > 0 {
		t.job = devicetest.Worlds(v.ranks)
		worlds = t.job
	}
	for _, w := range worlds {
		d, skipped, err := rank(w)
		if d == nil {
			t.close()
			return tested{}, skipped, err
		}
		t.devices = append(t.devices, d)
	}
	return t, "", nil
}

// openRank starts the device of a rank of a job, or without a job if w is nil.
func (v variant) openRank(w *devicetest.World) (d device.Device, skipped string, err error) {
	if v.kind == "cpu" {
		if d, err = cpu.New(cpu.Options{Precision: v.precision}); err == nil && w != nil {
			d, err = ranks.New(d, w)
		}
		return d, "", err
	}
	if driver.ErrNone != nil {
		return nil, "", fmt.Errorf("no GPU to test: %w", driver.ErrNone)
	}
	lib, blas := driver.Search("/", os.Getenv)
	if lib.Path == "" {
		return nil, "", fmt.Errorf("no GPU to test: %s", lib.Missing())
	}
	o := v.options(w)
	if v.blas {
		if o.BLAS = blas.Paths(); o.BLAS == nil {
			return nil, blas.Missing(), nil
		}
	}
	d, err = placement.OpenGPU(lib, o)
	return d, "", err
}

// options are the options of a GPU, without the libraries of the machine.
func (v variant) options(w *devicetest.World) cuda.Options {
	o := cuda.Options{Precision: v.precision, StepByStep: v.steps}
	if v.copies {
		o.RoundFrom = 1
	}
	if w != nil {
		o.Host = w
	}
	return o
}
