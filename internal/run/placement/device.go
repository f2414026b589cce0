package placement

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cpu"
	"vsetrain/internal/compute/device/cuda"
	"vsetrain/internal/compute/device/cuda/driver"
	"vsetrain/internal/compute/device/ranks"
	"vsetrain/internal/run/config"
)

// Choice describes how a device was chosen.
type Choice struct {
	Reason string // why auto chose it, for device.kind and device.precision; empty if nothing was left to auto
	// Precision is the precision of computation: device.precision, or the choice of auto.
	Precision string
	// Emulated says that the processor has no bf16 instructions, so that bf16 is slower than fp32.
	Emulated bool
	// Warnings say what makes the device slow or different from the one asked for.
	Warnings []error
}

// Choose starts the device that the options name, and records what auto chose and why: the GPU if driver and GPU are
// present, otherwise the CPU. A GPU that is present but unusable is a warning. A GPU that was asked for by number and
// does not exist is always an error. blas selects the matrix product of the CPU ("" is the fastest).
func Choose(o device.Options, blas string) (device.Device, Choice, error) {
	d, c, err := chooseKind(o, blas)
	if c.Precision = Precision(d, o); err != nil || o.Precision != device.PrecisionAuto {
		return d, c, err
	}
	why := "this device has no units for another one that are sure to be faster"
	if c.Precision == cuda.BF16 {
		why = "the GPU multiplies bfloat16 faster; sums and weights stay float32"
	}
	if c.Reason != "" {
		c.Reason += "; "
	}
	c.Reason += fmt.Sprintf("device.precision auto chose %s: %s", c.Precision, why)
	return d, c, nil
}

// Join makes a device the device of one rank of a job; a nil job has one rank. A device that does not support this is
// closed.
func Join(d device.Device, j device.Job) (device.Device, error) {
	own, err := ranks.Join(d, j)
	if err != nil {
		d.Close()
		return nil, err
	}
	return own, nil
}

// Precision is the precision of the options, or the choice of auto for the device.
func Precision(d device.Device, o device.Options) string {
	if o.Precision != device.PrecisionAuto {
		return o.Precision
	}
	if p, ok := device.As[device.Precise](d); ok {
		return p.Precision()
	}
	return cpu.FP32
}

// chooseKind is Choose without the precision.
func chooseKind(o device.Options, blas string) (device.Device, Choice, error) {
	var c Choice
	warn := func(format string, args ...any) { c.Warnings = append(c.Warnings, fmt.Errorf(format, args...)) }
	if o.Kind == "cuda" || o.Kind == "auto" {
		d, missing, err := openCUDA(o)
		var none *cuda.NoSuchGPUError
		var unusable *cuda.UnusableError
		switch {
		case err == nil:
			if o.Kind == "auto" {
				c.Reason = "device.kind auto chose the GPU"
			}
			if missing.Path == "" {
				warn("products run on vsetrain's own kernel, which is slow and knows no TF32: %s", missing.Missing())
			}
			if w, ok := device.As[device.Warner](d); ok {
				for _, s := range w.Warnings() {
					warn("%s", s)
				}
			}
			return d, c, nil
		case o.Kind == "cuda" && errors.As(err, &unusable): // today
			return nil, c, fmt.Errorf("device.kind cuda: %w; set device.kind to auto or cpu", err)
		case o.Kind == "cuda":
			return nil, c, config.Mistakef("device.kind cuda: %w; set device.kind to auto or cpu", err)
		case errors.As(err, &none) && o.Index > 0:
			return nil, c, config.Mistakef("device.kind auto: %w", err)
		case errors.Is(err, driver.ErrNone):
			warn("a CUDA driver is here and not used, so the CPU computes: %w", err)
		case errors.As(err, &unusable):
			warn("a GPU is there and cannot be used, so the CPU computes: %w; mend this, or set device.kind to cpu",
				err)
		}
		c.Reason = "device.kind auto chose the CPU: " + err.Error()
	}
	precision := o.Precision
	if precision == device.PrecisionAuto {
		precision = cpu.FP32
	}
	if precision == "tf32" { // a product precision of NVIDIA GPUs; the CPU has nothing between fp32 and bf16
		precision = cpu.FP32
	}
	d, err := cpu.New(cpu.Options{Threads: o.Threads, Precision: precision, BLAS: blas})
	if e, ok := d.(interface{ EmulatesBF16() bool }); ok && e.EmulatesBF16() {
		c.Emulated = true
		warn("this processor has no bf16 instructions: device.precision bf16 rounds in software " +
			"and is slower than fp32, the default")
	}
	return d, c, err
}

// Open is Choose. It passes the warnings to warn, which may be nil.
func Open(o device.Options, blas string, warn func(error)) (device.Device, error) {
	d, c, err := Choose(o, blas)
	for _, w := range c.Warnings {
		if warn != nil {
			warn(w)
		}
	}
	return d, err
}

// openCUDA starts the GPU and returns the cuBLAS library that was found.
func openCUDA(o device.Options) (device.Device, driver.Library, error) {
	lib, blas := driver.Search("/", os.Getenv)
	if o.Kind == "auto" && lib.Path == "" {
		return nil, blas, errors.New("no CUDA driver was found")
	}
	if driver.ErrNone != nil {
		return nil, blas, driver.ErrNone
	}
	if o.Precision == cpu.FP64 {
		return nil, blas, errors.New("device.precision fp64 is for the CPU; expected fp32, tf32 or bf16 on cuda")
	}
	d, err := OpenGPU(lib, cuda.Options{BLAS: blas.Paths(), Precision: o.Precision, Index: o.Index,
		NVML: driver.SearchNVML("/", os.Getenv).Paths(), NCCL: driver.SearchNCCL("/", os.Getenv).Paths(),
		Fast: !o.Deterministic, Timeout: time.Duration(o.Timeout) * time.Second})
	return d, blas, err
}

// OpenGPU starts the GPU with the first of the found files that is a driver.
func OpenGPU(lib driver.Library, o cuda.Options) (device.Device, error) {
	if lib.Path == "" {
		return nil, errors.New(lib.Missing())
	}
	var first error
	for _, o.Driver = range lib.Paths() {
		d, err := cuda.Open(o)
		if err == nil {
			return d, nil
		}
		first = cmp.Or(first, err)
		if !driver.NoDriver(err) {
			break
		}
	}
	return nil, first
}

// Explain adds to an error of the device what the user can do about it. saved says which part of the run is safe.
func Explain(err error, o device.Options, saved string) error {
	var full *device.OutOfMemoryError
	var failed *device.Error
	switch {
	case errors.As(err, &full):
		resident := ""
		if o.Resident != "never" {
			resident = ", set device.resident to never (the features of the data set stay on the GPU otherwise)"
		}
		return fmt.Errorf("%w; lower train.batch (--batch)%s, or end other programs that use the GPU (nvidia-smi)", err,
			resident)
	case errors.Is(err, syscall.ENOMEM):
		return fmt.Errorf("%w; end other programs, or take less memory: a smaller train.batch (--batch), "+
			"train.micro_batch, which keeps the batch, or a smaller network (model.embed_dim, model.word_dim); "+
			"docs/faq.md has more", err)
	case errors.As(err, &failed):
		return fmt.Errorf("%w; the GPU or its driver failed, and this process can compute nothing more; %s", err, saved)
	}
	return err
}
