package cuda_test

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"testing"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda"
	"vsetrain/lab/definitions"
	"vsetrain/lab/devicetest"
	"vsetrain/lab/emulator"
	"vsetrain/lab/try"
)

// open starts a device on the emulated driver.
func open(t testing.TB, o cuda.Options) device.Device {
	t.Helper()
	o.Driver = emulator.Library(t)
	if slices.Equal(o.BLAS, []string{"emulated"}) {
		o.BLAS = []string{o.Driver}
	}
	return try.Get(cuda.Open(o))(t)
}

func variant(t *testing.T, o cuda.Options, order, deferred int) func(t *testing.T) device.Device {
	emulator.Library(t)
	// The suite counts allocations on one processor. With more processors before, the runtime would allocate again what
	// it needs to block on a channel.
	processors := runtime.GOMAXPROCS(1)
	t.Cleanup(func() { runtime.GOMAXPROCS(processors) })
	emulator.Set(t, "order", order, 0)
	emulator.Set(t, "defer", deferred, 0)
	return func(t *testing.T) device.Device { return open(t, o) }
}

// The suite that every device passes, on the emulated driver: threads in random order, unless EMULATED_CUDA_ORDER names
// another (make test-orders), and work done only when something waits for it.
func TestConformance(t *testing.T) {
	v := cmp.Or(os.Getenv("EMULATED_CUDA_ORDER"), "2")
	order, err := strconv.Atoi(v)
	if err != nil || order < 0 || order > 2 {
		t.Fatalf("EMULATED_CUDA_ORDER=%s: expected 0 (forward), 1 (reverse) or 2 (random)", v)
	}
	o := cuda.Options{BLAS: []string{"emulated"}, Limits: cuda.Limits{PanelFloats: 16_384}}
	devicetest.Run(t, variant(t, o, order, 1))
}

// Every kind of product, with threads forward and in reverse, and work done at once and late.
func TestConformanceOfProducts(t *testing.T) {
	for _, c := range []struct {
		name            string
		options         cuda.Options
		order, deferred int
		families        []string
	}{
		{"own", cuda.Options{}, 0, 0, []string{"Gemm", "Factored"}},
		{"own bf16", cuda.Options{Precision: cuda.BF16}, 1, 1, []string{"Gemm", "Similarities", "GraphReason",
			"SelfAttention"}},
		{"cuBLAS bf16", cuda.Options{Precision: cuda.BF16, BLAS: []string{"emulated"}}, 0, 1,
			[]string{"Gemm", "GRU", "GRUGrad", "BiGRU", "Factored"}},
		{"own bf16 copies", cuda.Options{Precision: cuda.BF16, RoundFrom: 1}, 0, 0, []string{"Gemm"}},
		{"cuBLAS bf16 copies", cuda.Options{Precision: cuda.BF16, BLAS: []string{"emulated"}, RoundFrom: 1}, 2, 1,
			[]string{"Gemm", "BiGRUGrad", "BlockMatch", "Similarities", "GraphReason", "SelfAttention", "Factored"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			devicetest.Run(t, variant(t, c.options, c.order, c.deferred), c.families...)
		})
	}
}

// What does not fit into scratch memory is computed in parts, with the same results; threads and blocks in reverse.
func TestConformanceInParts(t *testing.T) {
	o := cuda.Options{Limits: cuda.Limits{MatchBytes: 20_000, SelfWeights: 100}}
	devicetest.Run(t, variant(t, o, 1, 0), "BlockMatch", "SelfAttention", "Embed", "LayerNorm", "PolarWeights",
		"ScaleBlocks", "MixNodes", "MeanNodes", "WordGraph")
}

// Composed kernels need nothing else of a device with its own memory.
func TestConformanceOfComposedKernels(t *testing.T) {
	open := variant(t, cuda.Options{BLAS: []string{"emulated"}}, 2, 1)
	alone := func(t *testing.T) device.Device { return definitions.Alone(open(t)) }
	devicetest.Run(t, alone, "Cells", "Segments", "PoolWeights", "WordGraph")
}

// TF32 keeps 10 bits of mantissa, except in exact products.
func TestTF32(t *testing.T) {
	b := newBench(t, cuda.Options{Precision: cuda.TF32, BLAS: []string{"emulated"}})
	for _, c := range []struct {
		x, want float32
		exact   bool
	}{{1 + 1./1024, 1 + 1./1024, false}, {1 + 1./4096, 1, false}, {1 + 1./4096, 1 + 1./4096, true}} {
		out := b.floats(0)
		device.Do(b.Device, device.Gemm{M: 1, N: 1, K: 1, Alpha: 1, A: b.floats(c.x), B: b.floats(1), C: out,
			Exact: c.exact})
		b.want(fmt.Sprintf("product of %v and 1, exact %v", c.x, c.exact), out, c.want)
	}
}
