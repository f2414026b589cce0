package device

import (
	"reflect"
	"strconv"

	"vsetrain/internal/system/options"
)

// Options chooses the device a graph runs on.
type Options struct {
	Kind string `yaml:"kind" enum:"auto|cpu|cuda" doc:"auto takes a GPU when there is one"`
	// Index is which GPU, counted from 0.
	Index int `yaml:"index" min:"0" max:"1023" doc:"which GPU (cuda), counted from 0"`
	// Resident: auto keeps features, word ids, boxes and semantic vectors of the training split and features of the
	// validation split on the GPU as far as they fit, and streams the rest; the results are the same.
	Resident string `yaml:"resident" enum:"auto|always|never" doc:"data set on the GPU: auto keeps what fits, always keeps all or fails, never streams it with the batches"`
	// Capture: auto records training steps as CUDA graphs; the results are the same.
	Capture string `yaml:"capture" enum:"auto|never" doc:"record training steps as CUDA graphs; never launches every kernel separately"`
	// Deterministic: several GPUs add in one order. NCCL is faster where it may choose another one in every call.
	Deterministic bool `yaml:"deterministic" doc:"several GPUs give the same bits in every run; false lets NCCL choose the fastest reduction"`
	// Timeout is in seconds.
	Timeout int `yaml:"timeout" min:"1" max:"86400" doc:"seconds to wait for a GPU before an error that names its kernels"`
	// Threads is the number of CPU threads; 0 uses all processors. Results do not depend on it.
	Threads int `yaml:"threads" min:"0" max:"4096" doc:"CPU threads; 0 uses all processors; results do not depend on it"`
	// Precision: fp32; auto (bf16 on a GPU that has units for it, elsewhere fp32); tf32 (CUDA products with 10-bit
	// mantissa); bf16 (bfloat16 products, float32 sums and master weights); fp64 (generic kernels, for checking).
	Precision string `yaml:"precision" enum:"fp32|auto|tf32|bf16|fp64" doc:"fp32; auto takes bf16 on a GPU with units for it and fp32 elsewhere, once for a run; tf32 (cuda); bf16 products with fp32 sums and weights; fp64 for checking"`
}

// PrecisionAuto is the precision that the device chooses.
const PrecisionAuto = "auto"

// Precise is implemented by devices that choose a precision for PrecisionAuto; others compute in fp32 then.
type Precise interface {
	// Precision is the one it computes in.
	Precision() string
}

// DefaultOptions returns fp32 on the best device there is.
func DefaultOptions() Options {
	return Options{Kind: "auto", Precision: "fp32", Resident: "auto", Capture: "auto", Deterministic: true,
		Timeout: 600}
}

// Validate returns an *options.Error for the first option that cannot be used.
func (o *Options) Validate() error {
	if err := options.Check(o); err != nil {
		return err
	}
	if o.Precision == "tf32" && o.Kind == "cpu" {
		return &options.Error{Key: "precision", Found: `"tf32"`, Expected: "fp32, bf16 or fp64 on the cpu",
			Remedy: "tf32 exists on NVIDIA GPUs only"}
	}
	if o.Kind == "cpu" && o.Index > 0 {
		return &options.Error{Key: "index", Found: strconv.Itoa(o.Index), Expected: "0 on the cpu",
			Remedy: "set device.kind to cuda to choose a GPU"}
	}
	if o.Kind == "cpu" && o.Resident == "always" {
		return &options.Error{Key: "resident", Found: `"always"`, Expected: "auto or never on the cpu",
			Remedy: "the cpu reads features where they are"}
	}
	return nil
}

// FixedTags are tags of keys, before the tags of their fields, for what is measured.
func (o *Options) FixedTags(key string) reflect.StructTag {
	if key == "precision" {
		return `enum:"fp32|tf32|bf16|fp64" doc:"tf32 is for cuda, fp64 for checking"`
	}
	return ""
}

// ValidateFixed is Validate for what is measured: its precision is named with the results, so it cannot be auto.
func (o *Options) ValidateFixed() error {
	if o.Precision == PrecisionAuto {
		return &options.Error{Key: "precision", Found: `"auto"`, Expected: "fp32, tf32, bf16 or fp64",
			Remedy: "auto is for training, whose run keeps what it chose"}
	}
	return o.Validate()
}
