// Package cuda is the device of an NVIDIA GPU: the kernels of device.Device in CUDA C (kernels/*.cu), started through
// the driver that is found at run time (driver).
//
// Kernels run asynchronously in one stream; features that come with every step travel in another (staging.go). A call
// of a kernel writes a command; a goroutine that keeps one operating system thread, the owner of the context, hands
// commands to the driver in batches (queue.go), so that the caller runs ahead of the GPU. What the driver finds wrong
// comes back from Sync, with the name of the kernel; after that the device does nothing more. Results are the same bits
// in every run: no float atomics, reductions in fixed order.
package cuda

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"time"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda/driver"
)

// Precisions of the products; everything else is float32.
const (
	FP32 = "fp32"
	TF32 = "tf32" // operands rounded to 10 bits of mantissa, by cuBLAS and by the kernels for tensor cores
	BF16 = "bf16" // operands rounded to bfloat16
)

// Options configure a device.
type Options struct {
	Driver string // path of libcuda (driver.Search)
	// BLAS are paths of cuBLAS, the best first, of which the first that starts is taken. Without any, products are
	// computed by the kernel of this package; where none starts too, and the device warns (device.Warner).
	BLAS []string
	// NVML are paths of NVML, which tells how the GPU is used (device.UsageReporter); the first that starts is taken.
	NVML []string
	// NCCL are paths of NCCL, which sends values to the GPUs of other ranks (device.Joiner), the best first.
	NCCL []string
	// Host, where it is not nil, is a job that the device is a rank of, and that brings what joins its ranks: for tests
	// where there is one GPU, which NCCL refuses to two ranks.
	Host HostJob
	// Fast lets NCCL add in another order in every call.
	Fast  bool
	Index int // which GPU
	// Precision is fp32 (also ""), tf32, bf16 or device.PrecisionAuto: bf16 where the GPU has units for it, else fp32.
	Precision string
	// RoundFrom is the number of multiplications from which a product of precision bf16 reads its operands as bfloat16,
	// and does not round float32 itself; 0 means 2²⁹, from which its own kernel that rounds an operand should pay
	// (docs/cuda-internals.md). The rule knows the sizes alone, so a product is computed in the same way in every step.
	// For tests.
	RoundFrom int
	// BaseKernels refuses the kernels that multiply on tensor cores themselves (kernels/*_sm80.cu), as the environment
	// variable VSETRAIN_KERNELS=base does.
	BaseKernels bool
	// StepByStep refuses the kernels whose blocks wait for each other, which compute all steps of a recurrence. For
	// tests.
	StepByStep bool
	// Timeout is how long a call of the driver may take, 0 ten minutes: a GPU that has not answered by then has failed,
	// with an error that names its kernels (driver.Silence).
	Timeout time.Duration
	Limits  Limits
}

// Limits bound what a call works on at once; 0 is the usual bound. Results do not depend on them. For tests.
type Limits struct {
	TileBytes   int // workspace of a tile of pairs; usually 512 MB
	MatchBytes  int // workspace of BlockMatch; usually 512 MB
	SelfWeights int // weights of self-attention; usually 2²⁶, 256 MB
	StepBlocks  int // blocks of a step of a GRU on tensor cores, where its units are no more; usually 132
	PanelFloats int // values of a factored gradient where product_adam does not make it; usually 2²², the second cache
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

// dev implements device.Device.
type dev struct {
	checker   device.Checker
	kernels   device.KernelTable
	drv       driver.Driver
	blas      driver.BLAS // nil: products by the own kernel
	blasSpace driver.Ptr  // memory that blas uses
	biased    bool        // blas adds a bias to a product in the same kernel
	unbiased  bool        // it was warned that blas failed to
	info      driver.Info
	index     int
	precision string
	tensor    tensor // what kernels of *_sm80.cu multiply
	limits    Limits
	warnings  []string
	monitor   driver.Monitor // nil without NVML
	context   driver.Context
	stream    driver.Stream // of the kernels
	copies    driver.Stream // of values that are streamed
	modules   []*module
	functions map[string]*function // by the names that calls use
	residents map[resident]int
	apart     bool // blocks do not wait for each other: StepByStep, or a recording of such kernels was refused

	queue
	barred
	job            // that the device is a rank of
	bf16    copies // of operands
	match   blockMatch
	gru     layer
	buffers map[*buffer]struct{}
	scratch [scratchSlots]region
	uploads uploads
	small   smallCopies
	lengths lengthTables
	pack    *device.Packing // of the call
	narrow  []float32
	halves  []byte
	closed  bool

	recording  bool // between the beginning and the end of Record
	together   bool // and a kernel whose blocks run at once is in it
	refused    error
	recordings map[*recording]struct{}
	tables     map[*table]struct{}
	stages     map[*stage]struct{}
	moves      int // of scratch memory
}

var (
	_ device.Recorder       = (*dev)(nil)
	_ device.Resident       = (*dev)(nil)
	_ device.ScratchChecker = (*dev)(nil)
	_ device.Streamer       = (*dev)(nil)
	_ device.Namer          = (*dev)(nil)
	_ device.Warner         = (*dev)(nil)
	_ device.UsageReporter  = (*dev)(nil)
	_ device.Precise        = (*dev)(nil)
	_ device.Ranked         = (*dev)(nil)
	_ device.Joiner         = (*dev)(nil)
	_ device.Profiler       = (*dev)(nil)
	_ Compiler              = (*dev)(nil)
)

// NoSuchGPUError is the error of an Index that is out of range.
type NoSuchGPUError struct{ Index, Count int }

func (e *NoSuchGPUError) Error() string {
	return fmt.Sprintf("GPU %d does not exist: the driver lists %d, counted from 0; set device.index",
		e.Index, e.Count)
}

// UnusableError is the error of a GPU that is there, but that cannot be used.
type UnusableError struct{ Err error }

func (e *UnusableError) Error() string { return e.Err.Error() }

func (e *UnusableError) Unwrap() error { return e.Err }

// oldest is the CUDA version that a driver has to support at least.
const oldest = 11040

// Open starts the GPU. Where there is one that cannot be used the error is an *UnusableError.
func Open(o Options) (device.Device, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	switch v := os.Getenv("VSETRAIN_KERNELS"); v {
	case "":
	case "base":
		o.BaseKernels = true
	default:
		return nil, fmt.Errorf("device: cuda: VSETRAIN_KERNELS=%s: expected base, or nothing", v)
	}
	o.Timeout = cmp.Or(o.Timeout, driver.Timeout)
	drv, err := driver.Within(o.Timeout, "its start", o.start)
	if err != nil {
		return nil, opened(err)
	}
	d := &dev{drv: drv, index: o.Index, precision: cmp.Or(o.Precision, FP32), apart: o.StepByStep,
		limits: o.Limits.orUsual(), residents: map[resident]int{}, barred: barred{}, buffers: map[*buffer]struct{}{},
		recordings: map[*recording]struct{}{}, tables: map[*table]struct{}{}, stages: map[*stage]struct{}{}}
	d.checker, d.kernels = device.Checker{Device: "cuda", Memory: d}, device.NewKernelTable(d)
	d.job = job{on: d, ranks: 1, libraries: o.NCCL, fast: o.Fast}
	d.bf16.on, d.bf16.from = d.precision == BF16, cmp.Or(o.RoundFrom, roundFrom)
	d.timeout = o.Timeout
	d.queue.start(d)
	d.run(func() error { return d.begin(o) })
	if o.Host != nil {
		d.job.overHost(o.Host)
	}
	if err := d.Sync(); err != nil {
		d.Close()
		return nil, &UnusableError{fmt.Errorf("device: cuda: %w", err)}
	}
	return d, nil
}

// start loads the driver and looks whether it has the GPU.
func (o *Options) start() (drv driver.Driver, err error) {
	if drv, err = driver.Open(o.Driver); err != nil {
		return nil, err
	}
	n, err := drv.Devices()
	if err != nil {
		return nil, err
	}
	if o.Index >= n {
		return nil, &NoSuchGPUError{o.Index, n}
	}
	if v, err := drv.Version(); err != nil {
		return nil, err
	} else if v < oldest {
		return nil, &UnusableError{fmt.Errorf("the driver %s is for CUDA %s; install one for CUDA %s or "+
			"later (version 470)", drv.Path(), version(v), version(oldest))}
	}
	return drv, nil
}

// opened is the error of a driver that does not start: of a GPU only where the driver says something else than that
// there is none.
func opened(err error) error {
	var said *driver.Error
	var silent *driver.Silence
	var unusable *UnusableError
	usable := !errors.As(err, &said) || driver.NoDevice(err) || driver.NoDriver(err)
	usable = usable && !errors.As(err, &silent) && !errors.As(err, &unusable)
	if err = fmt.Errorf("device: cuda: %w", err); !usable {
		return &UnusableError{err}
	}
	return err
}

// version writes a number of cuDriverGetVersion: 12.8 for 12080.
func version(v int) string { return fmt.Sprintf("%d.%d", v/1000, v%1000/10) }

// begin makes the context and finds the kernels, on the thread that owns the context.
func (d *dev) begin(o Options) (err error) {
	if d.info, err = d.drv.Info(o.Index); err != nil {
		return err
	}
	if 10*d.info.Major+d.info.Minor < 75 {
		return fmt.Errorf("%s has compute capability %d.%d, the kernels need 7.5 (Turing) or later", d.info.Name,
			d.info.Major, d.info.Minor)
	}
	if d.precision == device.PrecisionAuto {
		d.precision = FP32
		if d.info.Major >= 8 {
			d.precision = BF16
		}
		d.bf16.on = d.precision == BF16
	}
	if d.info.Major >= 8 && !o.BaseKernels {
		d.tensor = tensorOf(d.precision)
	}
	others := d.others(o.NVML) // before this process is one of those that NVML lists
	if d.context, err = d.drv.Retain(o.Index); err != nil {
		return err
	}
	if err = d.drv.SetCurrent(d.context); err != nil {
		return err
	}
	if d.stream, err = d.drv.NewStream(); err != nil {
		return err
	}
	if d.copies, err = d.drv.NewStream(); err != nil {
		return err
	}
	if err = d.staging.open(d.drv); err != nil {
		return err
	}
	if d.uploads.packed, err = d.drv.Alloc(smallBytes); err != nil {
		return err
	}
	if err = d.share(others); err != nil {
		return err
	}
	if err = d.find(); err != nil {
		return err
	}
	for _, m := range d.modules {
		for _, f := range m.functions {
			if o.BaseKernels && m.target() >= 80 {
				d.bar(f.Name, "VSETRAIN_KERNELS=base leaves it out")
			}
		}
	}
	d.barContexts()
	if err = d.openBLAS(o.BLAS); err != nil {
		return err
	}
	return d.checkPrecision()
}

// Precision implements device.Precise.
func (d *dev) Precision() string { return d.precision }

// Warnings implements device.Warner.
func (d *dev) Warnings() []string {
	if !d.closed {
		d.wait()
	}
	return d.warnings
}

// Do implements device.Device.
func (d *dev) Do(k device.Kernel) bool {
	d.checker.Check(k)
	d.bf16.first = d.bf16.seen
	return d.kernels.Do(k) || d.collective(k)
}

// Name implements device.Device: the GPU, its memory, the products, the precision.
func (d *dev) Name() string {
	products := "own products"
	if d.blas != nil {
		products = "cuBLAS " + d.blasVersion() + " products"
	}
	return fmt.Sprintf("cuda, %s, %d GB, %s, %s", d.info.Name, d.info.Memory>>30, products, d.precision)
}

// blasVersion writes the version of cuBLAS: 12.8 for 120805.
func (d *dev) blasVersion() string {
	return fmt.Sprintf("%d.%d", d.blas.Version()/10000, d.blas.Version()/100%100)
}

// Float64 implements device.Device.
func (d *dev) Float64() bool { return false }

// Sync implements device.Device.
func (d *dev) Sync() error {
	if d.closed || d.refuse("Sync") {
		return nil
	}
	if err := d.full; err != nil {
		d.full = nil
		return err
	}
	d.next().kind = commandSync
	return d.wait()
}

// Close implements device.Device.
func (d *dev) Close() error {
	if d.closed {
		return nil
	}
	d.full = nil
	d.uploads.drop()
	d.small.parts = nil
	d.wait()
	d.job.end()
	if d.gone != nil { // nothing can be released
		d.closed = true
		return nil
	}
	d.failure = nil // what can be released is released also after a failure
	d.run(d.end)
	err := d.wait()
	d.closed = true
	d.queue.stop()
	return err
}

func (d *dev) end() (first error) {
	keep := func(err error) {
		first = cmp.Or(first, err)
	}
	free := func(p driver.Ptr) {
		if p != 0 {
			keep(d.drv.Free(p))
		}
	}
	for _, s := range [3]driver.Stream{d.copies, d.side.stream, d.stream} {
		if s != 0 {
			d.drv.Synchronize(s) // a failure of work given to the GPU before has been reported
		}
	}
	d.job.close(keep)
	for _, m := range d.bf16.memory {
		free(m.half)
	}
	for b := range d.buffers {
		b.freed = true
		free(b.ptr)
		keep(b.back.close(d.drv))
	}
	clear(d.buffers)
	for r := range d.recordings {
		keep(r.destroy(d))
	}
	for t := range d.tables {
		free(t.ptr)
	}
	for s := range d.stages {
		keep(d.drv.FreeHost(s.memory))
	}
	for _, t := range d.lengths {
		free(t.region.ptr)
	}
	for _, r := range d.scratch {
		free(r.ptr)
	}
	free(d.uploads.packed)
	if d.monitor != nil {
		keep(d.monitor.Close())
	}
	if d.blas != nil {
		keep(d.blas.Close())
	}
	free(d.blasSpace)
	for _, m := range d.modules {
		if m.handle != 0 {
			keep(d.drv.UnloadModule(m.handle))
		}
	}
	keep(d.staging.close(d.drv))
	for i := range d.fetches {
		keep(d.fetches[i].close(d.drv))
	}
	for _, s := range [2]driver.Stream{d.copies, d.stream} {
		if s != 0 {
			keep(d.drv.DestroyStream(s))
		}
	}
	if d.context != 0 {
		keep(d.drv.SetCurrent(0))
		keep(d.drv.Release(d.index))
	}
	return first
}
