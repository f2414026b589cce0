package cuda

import (
	"cmp"
	"fmt"
	"time"

	"vsetrain/internal/compute/device"
)

// Precisions of products; everything else is float32.
const (
	FP32 = "fp32"
	TF32 = "tf32" // cuBLAS and the kernels for tensor cores round operands to 10 bits of mantissa
	BF16 = "bf16" // operands rounded to bfloat16
)

// Options configure a device.
type Options struct {
	Driver string // path of libcuda (driver.Search)
	// BLAS are paths of cuBLAS, the best first; the first that starts is used. Without any, vsetrain's kernel computes
	// products. The same happens if none starts, and the device warns (device.Warner).
	BLAS []string
	// NVML are paths of NVML, which reports how the GPU is used (device.UsageReporter); the first that starts is used.
	NVML []string
	// NCCL are paths of NCCL, which connects the GPUs of ranks (device.Joiner), the best first.
	NCCL []string
	// Host, if not nil, is a job that the device joins instead: its ranks may share a GPU, which NCCL refuses. For
	// tests.
	Host HostJob
	// Fast lets NCCL add in a different order in every call.
	Fast  bool
	Index int // which GPU
	// Precision is fp32 (also ""), tf32, bf16 or device.PrecisionAuto: bf16 if the GPU has units for it, else fp32.
	Precision string
	// RoundFrom is the number of multiplications from which a product of precision bf16 reads operands that a kernel
	// has rounded to bfloat16; smaller products round float32 operands themselves. 0 means 2²⁹
	// (docs/cuda-internals.md). The rule depends only on sizes, so every step computes a product in the same way. For
	// tests.
	RoundFrom int
	// BaseKernels turns off the kernels for tensor cores (kernels/*_sm80.cu), as the environment variable
	// VSETRAIN_KERNELS=base does.
	BaseKernels bool
	// StepByStep turns off the kernels whose blocks wait for each other, which compute all steps of a recurrence. For
	// tests.
	StepByStep bool
	// Timeout is how long a call of the driver may take; 0 means ten minutes. After that the GPU has failed, with an
	// error that names its kernels (driver.Silence).
	Timeout time.Duration
	Limits  Limits
}

// Limits bound the work of one call; 0 means the usual bound. Results do not depend on them. For tests.
type Limits struct {
	TileBytes   int // workspace of a tile of pairs; usually 512 MB
	MatchBytes  int // workspace of BlockMatch; usually 512 MB
	SelfWeights int // weights of self-attention; usually 2²⁶, 256 MB
	StepBlocks  int // blocks of a step of a GRU on tensor cores, but at least its units need; usually 132
	PanelFloats int // values of a factored gradient without product_adam; usually 2²², the L2 cache
}

// orUsual fills in the usual bounds.
func (l Limits) orUsual() Limits {
	return Limits{TileBytes: cmp.Or(l.TileBytes, 512<<20), MatchBytes: cmp.Or(l.MatchBytes, 512<<20),
		SelfWeights: cmp.Or(l.SelfWeights, 1<<26), StepBlocks: cmp.Or(l.StepBlocks, 132),
		PanelFloats: cmp.Or(l.PanelFloats, 1<<22)}
}

// Validate reports the first option that is out of range.
func (o Options) Validate() error {
	if o.RoundFrom < 0 {
		return fmt.Errorf("device: operands rounded from %d multiplications: expected 0 or a positive number",
			o.RoundFrom)
	}
	if o.Index < 0 {
		return fmt.Errorf("device: GPU %d: expected 0 or a positive number", o.Index)
	}
	switch o.Precision {
	case "", FP32, TF32, BF16, device.PrecisionAuto:
		return nil
	}
	return fmt.Errorf("device: precision %q on cuda: expected fp32, tf32 or bf16", o.Precision)
}

// NoSuchGPUError is the error of an Index out of range.
type NoSuchGPUError struct{ Index, Count int }

func (e *NoSuchGPUError) Error() string {
	return fmt.Sprintf("GPU %d does not exist: the driver lists %d, counted from 0; set device.index",
		e.Index, e.Count)
}

// UnusableError is the error of a GPU that exists but cannot be used.
type UnusableError struct{ Err error }

func (e *UnusableError) Error() string { return e.Err.Error() }

func (e *UnusableError) Unwrap() error { return e.Err }
