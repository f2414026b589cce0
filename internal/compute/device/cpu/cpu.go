// Package cpu is the device of the processor. It computes kernels on all cores of the machine.
//
// Work is cut into pieces that depend on the sizes alone, and par.Pool hands them out, so results have the same bits
// for any number of threads. A kernel allocates nothing once its scratch memory has grown to the sizes in use. Matrix
// products come from internal/compute/gemm, vector arithmetic from internal/compute/vec. In precision fp64 everything
// is plain Go in float64.
package cpu

import (
	"cmp"
	"fmt"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/par"
	"vsetrain/internal/compute/vec"
)

// Precision names the arithmetic of a device.
const (
	// float32 throughout; the error of even products (device.Gemm) may be relative to the largest values of a row and
	// column
	FP32 = "fp32"
	BF16 = "bf16" // products of operands rounded to bfloat16, accumulated in float32; float32 elsewhere
	FP64 = "fp64" // float64 in plain Go, for tests
)

// Options configure a device. The zero value is float32 on all cores with the fastest matrix product.
type Options struct {
	Threads   int    // 0: all processors that the process may use
	Precision string // "fp32" (also ""), "bf16" or "fp64"
	BLAS      string // kernel of the float32 products, as in gemm.Options; "" chooses the fastest; not used in fp64
}

// New starts a device.
func New(o Options) (device.Device, error) {
	if o.Threads < 0 {
		return nil, fmt.Errorf("device: %d threads: expected 0 (all cores) or a positive number", o.Threads)
	}
	if o.Precision = cmp.Or(o.Precision, FP32); o.Precision != FP32 && o.Precision != BF16 && o.Precision != FP64 {
		return nil, fmt.Errorf("device: precision %q on the cpu: expected fp32, bf16 or fp64", o.Precision)
	}
	pool := par.New(o.Threads)
	if o.Precision == FP64 {
		return newDev(pool, vec.Go64(), products[float64](&products64{pool: pool}), o.Precision), nil
	}
	products, err := newProducts32(pool, o)
	if err != nil {
		pool.Close()
		return nil, fmt.Errorf("device: cpu: %w", err)
	}
	return newDev(pool, vec.Best(), products, o.Precision), nil
}

// dev implements device.Device. The loop bodies and the scratch memory of each kernel family are its fields, so that
// calling a kernel allocates nothing.
type dev[T vec.Float] struct {
	pool      *par.Pool
	ops       *vec.Ops[T]
	products  products[T]
	precision string
	closed    bool
	checker   device.Checker
	kernels   device.KernelTable
	buffers   map[*buffer[T]]struct{}
	held      map[*buffer[T]]struct{} // see Hold

	memory       memoryLoops[T]
	product      product[T] // of multiply and Gemm
	single       []single[T]
	elements     elementLoop[T]
	biasActivate biasActivateLoop[T]
	columns      columnLoop[T]
	norms        normLoop[T]
	batchNorms   batchNormLoop[T]
	poolWeight   poolWeights[T]
	sortPools    sortPool[T]
	gather       gatherLoop[T]
	factored     factoredLoop[T]
	fewTerms     fewTerms[T]
	grams        []T // of SumSquaresFactored
	scatter      scatterLoop[T]
	orders       orderLoop[T]
	orderGrads   orderGradLoop[T]
	gru          recurrence[T]
	directions   directions[T]
	words        distinct[T] // of the last GRU whose weights are held
	gruBias      []T         // [4H]: column sums of the gate gradients
	cell         cellLoop[T]
	attention    attentionLoop[T]
	match        blockMatch[T]
	polar        polarLoop[T]
	scales       scaleLoop[T]
	mix          mixLoop[T]
	wordGraph    wordGraphLoop[T]
	embed        embedLoop[T]
	layerNorm    layerNormLoop[T]
	selfAttend   selfAttentionLoop[T]
	dropout      dropoutLoop[T]

	spaces        []workspace[T]
	pairAttention pairAttention[T]
	similarities  similarities[T]
	cross         crossScores[T]
	reasoning     reasoning[T]
	filtration    filtration[T]
	segments      segmentLoop[T]
	maps          mapLoop[T]
	reductions    reduceLoop[T]
	swap          swapLoop[T]
	entropy       entropyLoop[T]
	hinge         hingeState[T]
	margins       marginLoop[T]
	universal     universalState[T]
	squares       squareLoop[T]
	adam          adamLoop[T]
}

func newDev[T vec.Float](pool *par.Pool, ops *vec.Ops[T], p products[T], precision string) *dev[T] {
	d := &dev[T]{pool: pool, ops: ops, products: p, precision: precision, buffers: map[*buffer[T]]struct{}{},
		held: map[*buffer[T]]struct{}{}, gru: recurrence[T]{ops: ops, pool: pool, products: p}}
	d.checker, d.kernels = device.Checker{Device: "cpu", Memory: d}, device.NewKernelTable(d)
	return d
}

func (d *dev[T]) Do(k device.Kernel) bool {
	d.checker.Check(k)
	return d.kernels.Do(k)
}

// Name says threads, vector kernels, matrix products and precision.
func (d *dev[T]) Name() string {
	threads := "1 thread"
	if n := d.pool.Threads(); n > 1 {
		threads = fmt.Sprintf("%d threads", n)
	}
	return fmt.Sprintf("cpu, %s, %s vectors, %s products, %s", threads, d.ops.Name, d.products.name(), d.precision)
}

// EmulatesBF16 reports whether products are rounded to bfloat16 in software, because the processor has no instructions
// for them.
func (d *dev[T]) EmulatesBF16() bool { return d.precision == BF16 && d.products.name() == "emulated" }

func (d *dev[T]) Float64() bool { return d.precision == FP64 }

// Sync implements device.Device; kernels have finished when they return.
func (d *dev[T]) Sync() error { return nil }

func (d *dev[T]) Close() error {
	if d.closed {
		return nil
	}
	d.closed = true
	for b := range d.buffers {
		b.release()
	}
	clear(d.buffers)
	clear(d.held)
	d.directions.close()
	d.pool.Close()
	return nil
}
