package experiment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"vsetrain/internal/device"
	"vsetrain/internal/device/cpu"
	"vsetrain/internal/device/cuda"
	"vsetrain/internal/device/cuda/driver"
	"vsetrain/internal/device/devicetest"
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
	Kernels     int      `json:"kernels,omitempty"` // that were started on a GPU
	Failures    []string `json:"failures,omitempty"`
}

// variant is a way in which a device computes. A new one is a line in variants.
type variant struct {
	kind, name, precision string
	blas                  bool    // with cuBLAS; otherwise products by the own kernel
	all                   bool    // every family; otherwise those with matrix products in them
	rounds                float64 // devicetest.Measure
	copies                bool    // all products read bfloat16 from memory, whatever their size; then copyFamilies too
}

var variants = []variant{
	{kind: "cuda", name: "fp32", precision: cuda.FP32, blas: true, all: true},
	{kind: "cuda", name: "tf32", precision: cuda.TF32, blas: true, rounds: devicetest.RoundsTF32},
	{kind: "cuda", name: "bf16", precision: cuda.BF16, blas: true, rounds: devicetest.RoundsBF16},
	{kind: "cuda", name: "bf16-copies", precision: cuda.BF16, blas: true, rounds: devicetest.RoundsBF16, copies: true},
	{kind: "cuda", name: "own-fp32", precision: cuda.FP32, all: true},
	{kind: "cuda", name: "own-bf16", precision: cuda.BF16, rounds: devicetest.RoundsBF16},
	{kind: "cuda", name: "own-bf16-copies", precision: cuda.BF16, rounds: devicetest.RoundsBF16, copies: true},
	{kind: "cpu", name: "fp32", precision: cpu.FP32, all: true},
	{kind: "cpu", name: "bf16", precision: cpu.BF16, rounds: devicetest.RoundsBF16},
	{kind: "cpu", name: "fp64", precision: cpu.FP64, all: true},
}

// productFamilies are tested in every variant.
var productFamilies = []string{"Gemm", "GRU", "GRUGrad", "Factored"}

// copyFamilies have kernels that write bfloat16.
var copyFamilies = []string{"BlockMatch", "LayerNorm", "Similarities", "GraphReason", "Adam"}

// contextFamilies form contexts on tensor cores in tf32.
var contextFamilies = []string{"BlockMatch", "Similarities"}

// tests reports whether a family is tested.
func (v variant) tests(family string) bool {
	return v.all || slices.Contains(productFamilies, family) || v.copies && slices.Contains(copyFamilies, family) ||
		v.precision == cuda.TF32 && slices.Contains(contextFamilies, family)
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

// Selftest measures a device. opened is told of each variant and of the device, or why there is none here; each of
// every result. It ends with ErrFaulted behind the family in which the GPU failed.
func Selftest(ctx context.Context, r SelftestRequest, opened func(variant, device, skipped string),
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
					opened(v.name, "", skipped)
					break
				}
				d = next
				opened(v.name, d.Name(), "")
			}
			before, start := launched(d), time.Now()
			m := devicetest.Measure(d, family, v.rounds)
			result := SelftestResult{Variant: v.name, Family: family, Comparisons: m.Comparisons,
				Difference: m.Difference, Allowed: m.Allowed,
				Seconds: time.Since(start).Seconds(), Failures: m.Failures, Kernels: launched(d) - before}
			if len(result.Failures) > 0 { // what fails may leave the device unusable
				var failed *device.Failed
				if errors.As(d.Sync(), &failed) {
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

// launched is how many kernels a GPU was given so far.
func launched(d device.Device) int {
	if l, ok := d.(cuda.Launcher); ok {
		return l.Launched()
	}
	return 0
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
	o := cuda.Options{Precision: v.precision}
	if v.copies {
		o.RoundFrom = 1
	}
	if v.blas {
		if o.BLAS = blas.Paths(); o.BLAS == nil {
			return nil, blas.Missing(), nil
		}
	}
	d, err = openGPU(lib, o)
	return d, "", err
}
