package bench

import (
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
	"vsetrain/internal/compute/device/devicetest"
	"vsetrain/internal/run/place"
)

// SelftestRequest asks whether the kernels of a device compute what they should on this machine: the conformance suite
// against its references in float64, in every precision, with every kind of matrix product.
type SelftestRequest struct {
	Kind     string   // "cuda" or "cpu"
	Families []string // none: all
	Variants []string // none: all of the kind (SelftestVariants)
}

// SelftestResult is the outcome of one kernel family in one variant of the device.
type SelftestResult struct {
	Variant     string   `json:"variant"`
	Family      string   `json:"family"`
	Comparisons int      `json:"comparisons"`
	Difference  float64  `json:"difference"` // of the comparison that came closest to its bound
	Allowed     float64  `json:"allowed"`
	Seconds     float64  `json:"seconds"`
	Kernels     []string `json:"kernels,omitempty"` // of a GPU that were launched
	Failures    []string `json:"failures,omitempty"`
}

// SelftestDevice is the device of a variant.
type SelftestDevice struct {
	Variant string
	Name    string
	Skipped string   // why there is none here
	Kernels []string // of a GPU
}

// variant is a way in which a device computes. A new one is a line in variants.
type variant struct {
	kind, name, precision string
	blas                  bool    // with cuBLAS; otherwise products by the own kernel
	rounds                float64 // devicetest.Measure; 0: in full precision
	copies                bool    // all products read bfloat16 from memory, whatever their size
	steps                 bool    // recurrences step by step, as where blocks of a GPU cannot wait for each other
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
	{kind: "cpu", name: "fp32", precision: cpu.FP32},
	{kind: "cpu", name: "bf16", precision: cpu.BF16, rounds: devicetest.RoundsBF16},
	{kind: "cpu", name: "fp64", precision: cpu.FP64},
}

// stepFamilies have recurrences of which a GPU computes all steps at once.
var stepFamilies = []string{"GRU", "GRUGrad", "BiGRU", "BiGRUGrad"}

// tests reports whether a family is tested: in full precision all, otherwise those that compute something else then.
func (v variant) tests(family string) bool {
	if v.steps {
		return slices.Contains(stepFamilies, family)
	}
	return v.rounds == 0 || devicetest.Rounds(family)
}

// SelftestVariants lists the variants of a kind of device.
func SelftestVariants(kind string) (names []string) {
	for _, v := range variants {
		if v.kind == kind {
			names = append(names, v.name)
		}
	}
	return names
}

// Tested are the families that a variant of a request has, in their order.
func (r *SelftestRequest) Tested(variant string) (families []string) {
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

// ErrFaulted is the error of a selftest whose GPU failed: no call of this process succeeds any more, so the families
// that follow need another.
var ErrFaulted = errors.New("selftest: the GPU failed, and this process can compute nothing more on it")

// Selftest measures a device. opened is told of the device of each variant, or why there is none here; begin of each
// family before it is tested; each of every result. It ends with ErrFaulted behind the family in which the GPU failed.
func Selftest(ctx context.Context, r SelftestRequest, opened func(SelftestDevice), begin func(family string),
	each func(SelftestResult)) error {
	for _, v := range variants {
		if v.kind != r.Kind || len(r.Variants) > 0 && !slices.Contains(r.Variants, v.name) {
			continue
		}
		var d device.Device
		for _, family := range r.Tested(v.name) {
			if err := ctx.Err(); err != nil {
				return err
			}
			if d == nil {
				next, skipped, err := v.open()
				if err != nil {
					return err
				}
				if skipped != "" {
					opened(SelftestDevice{Variant: v.name, Skipped: skipped})
					break
				}
				d = next
				opened(SelftestDevice{Variant: v.name, Name: d.Name(), Kernels: slices.Sorted(maps.Keys(launches(d)))})
			}
			begin(family)
			before, start := launches(d), time.Now()
			m := devicetest.Measure(d, family, v.rounds)
			result := SelftestResult{Variant: v.name, Family: family, Comparisons: m.Comparisons,
				Difference: m.Difference, Allowed: m.Allowed, Seconds: time.Since(start).Seconds(),
				Failures: m.Failures}
			for name, n := range launches(d) {
				if n > before[name] {
					result.Kernels = append(result.Kernels, name)
				}
			}
			slices.Sort(result.Kernels)
			if len(result.Failures) > 0 { // what fails may leave the device unusable
				if failed, ok := errors.AsType[*device.Failed](d.Sync()); ok {
					result.Failures = append(result.Failures, failed.Error())
					each(result)
					d.Close()
					return ErrFaulted
				}
				d.Close()
				d = nil
			}
			each(result)
		}
		if d != nil {
			if err := d.Close(); err != nil {
				return fmt.Errorf("%s: close the device: %w", v.name, err)
			}
		}
	}
	return nil
}

// launches is how often each kernel of a GPU was launched so far.
func launches(d device.Device) map[string]int {
	if l, ok := d.(cuda.Launcher); ok {
		return l.Launches()
	}
	return nil
}

// open starts the device, or says why this variant is not available.
func (v variant) open() (d device.Device, skipped string, err error) {
	if v.kind == "cpu" {
		d, err = cpu.New(cpu.Options{Precision: v.precision})
		return d, "", err
	}
	if driver.ErrNone != nil {
		return nil, "", fmt.Errorf("no GPU to test: %w", driver.ErrNone)
	}
	lib, blas := driver.Search("/", os.Getenv)
	if lib.Path == "" {
		return nil, "", fmt.Errorf("no GPU to test: %s", lib.Missing())
	}
	o := cuda.Options{Precision: v.precision, StepByStep: v.steps}
	if v.copies {
		o.RoundFrom = 1
	}
	if v.blas {
		if o.BLAS = blas.Paths(); o.BLAS == nil {
			return nil, blas.Missing(), nil
		}
	}
	d, err = place.OpenGPU(lib, o)
	return d, "", err
}
