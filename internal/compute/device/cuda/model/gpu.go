package model

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// GPU is what NVIDIA says of a GPU. Rates of tensor cores are without sparsity.
type GPU struct {
	Name            string
	Major, Minor    int // compute capability
	Multiprocessors int
	Shared          int     // bytes that a block may have (CUDA C++ programming guide)
	Memory          float64 // bytes
	Bandwidth       float64 // bytes a second of device memory
	L2              float64 // bytes
	Link            float64 // bytes a second from the host or to it: PCIe with 16 lanes
	FP32, FP64      float64 // operations a second of the units that all kernels use
	TF32, BF16      float64 // of tensor cores
	Source          string
}

// GPUs are those that a step can be predicted for, by the name that a person gives.
var GPUs = map[string]GPU{
	"h200": {Name: "H200 SXM", Major: 9, Multiprocessors: 132, Shared: 227 << 10,
		Memory: 141e9, Bandwidth: 4.8e12, L2: 50e6, Link: 64e9,
		FP32: 67e12, FP64: 34e12, TF32: 494.7e12, BF16: 989.4e12, Source: "NVIDIA H200 Tensor Core GPU data sheet; " +
			"H100 white paper (dies are the same)"},
	"h100": {Name: "H100 SXM", Major: 9, Multiprocessors: 132, Shared: 227 << 10,
		Memory: 80e9, Bandwidth: 3.35e12, L2: 50e6, Link: 64e9,
		FP32: 67e12, FP64: 34e12, TF32: 494.7e12, BF16: 989.4e12, Source: "NVIDIA H100 Tensor Core GPU data sheet " +
			"and white paper"},
	"a100": {Name: "A100 SXM 80 GB", Major: 8, Multiprocessors: 108, Shared: 163 << 10,
		Memory: 80e9, Bandwidth: 2.039e12, L2: 40e6, Link: 32e9,
		FP32: 19.5e12, FP64: 9.7e12, TF32: 156e12, BF16: 312e12, Source: "NVIDIA A100 Tensor Core GPU data sheet and " +
			"white paper"},
	"rtx4090": {Name: "GeForce RTX 4090", Major: 8, Minor: 9, Multiprocessors: 128, Shared: 99 << 10,
		Memory: 24e9, Bandwidth: 1.008e12, L2: 72e6, Link: 32e9,
		FP32: 82.6e12, FP64: 1.29e12, TF32: 82.6e12, BF16: 165.2e12, Source: "NVIDIA Ada GPU architecture white paper"},
}

// Names are those of GPUs, in order.
func Names() []string {
	return slices.Sorted(maps.Keys(GPUs))
}

// Find is the GPU of a name.
func Find(name string) (GPU, error) {
	g, ok := GPUs[strings.ToLower(name)]
	if !ok {
		return GPU{}, fmt.Errorf("no model of GPU %q: expected %s", name, strings.Join(Names(), ", "))
	}
	return g, nil
}

// Assumed are what a data sheet does not say. None was measured by itself; on an H100 (2026-11-27) steps of eight
// networks in bf16 took 1.1 to 1.9 times what follows from all of them. A measurement corrects them.
type Assumed struct {
	Value float64
	Unit  string
	What  string
	From  string
}

const engineering = "an assumption, of the size that is usual for such kernels"

// assumptions are those of the model. All of them are here.
var assumptions = map[string]Assumed{
	"start": {2.0e-6, "s", "from the end of a recorded kernel to the first work of the one behind it, and its end",
		engineering},
	"dram": {0.65e-6, "s", "until a value from device memory is there", "an assumption: the latency without load, " +
		"and something for load"},
	"cached": {0.27e-6, "s", "until a value from the L2 cache is there", "the same"},
	"bandwidth": {0.90, "of the data sheet", "the bandwidth of device memory that a kernel reaches at most",
		engineering},
	"l2": {1.5, "of device memory", "the bandwidth of the L2 cache, where what a kernel moves fits half of it",
		engineering},
	"units": {0.60, "of the data sheet", "the float32 and float64 rate of kernels that are no products",
		engineering},
	"fp32": {0.80, "of the data sheet", "the rate of cuBLAS in fp32", engineering},
	"tf32": {0.65, "of the data sheet", "the rate of cuBLAS in tf32", engineering},
	"tf32t": {0.40, "of the data sheet", "the same from compute capability 9.0 on where an operand is transposed",
		"wgmma takes tf32 operands of one layout alone (PTX ISA)"},
	"bf16": {0.70, "of the data sheet", "the rate of cuBLAS with bfloat16 operands", engineering},
	"mma": {0.30, "of the data sheet", "the rate of own kernels that multiply bfloat16 or TF32 by mma.sync",
		"an assumption: on Hopper mma.sync, unlike wgmma, reaches some 60 % at most, and these kernels load their " +
			"operands between products"},
	"product":  {2.2e-6, "s", "the beginning and the end of a product, beside its multiplications", engineering},
	"resident": {2048, "threads", "that a multiprocessor holds", "CUDA C++ programming guide; 1536 for 8.6 and 8.9"},
}

func assumed(name string) float64 { return assumptions[name].Value }
