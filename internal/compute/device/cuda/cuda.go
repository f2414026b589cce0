// Package cuda is the device of an NVIDIA GPU: the kernels of device.Device in CUDA C (kernels/*.cu), and a driver that
// is found at run time (driver).
//
// Kernels run asynchronously in one stream; streamed features are copied in another (staging.go). A call of a kernel
// writes a command. A goroutine locked to its thread, the owner of the context, hands commands to the driver in batches
// (queue.go), so the caller runs ahead of the GPU. Sync returns the driver's errors with the name of the kernel; after
// one, the device computes nothing more. Every run gives the same bits: there are no float atomics, and reductions have
// a fixed order.
package cuda

import (
	"cmp"
	"errors"
	"fmt"
	"os"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda/driver"
)

// dev implements device.Device.
type dev struct {
	checker   device.Checker
	kernels   device.KernelTable
	drv       driver.Driver
	blas      driver.BLAS // nil: vsetrain's kernel computes products
	blasSpace driver.Ptr  // memory that blas uses
	biased    bool        // blas adds a bias to a product in the same kernel
	unbiased  bool        // the device has warned that blas failed to
	info      driver.Info
	index     int
	precision string
	tensor    tensor // operands of the kernels in *_sm80.cu
	limits    Limits
	warnings  []string
	monitor   driver.Monitor // nil without NVML
	context   driver.Context
	stream    driver.Stream // of the kernels
	copies    driver.Stream // of streamed values
	modules   []*module
	functions map[string]*function // by name
	residents map[resident]int
	apart     bool // no kernels whose blocks wait for each other: StepByStep, or the driver refused them

	queue
	barred
	job            // of which the device is a rank
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

	recording  bool // during Record
	together   bool // the recording has a kernel whose blocks run at once
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

// oldest is the oldest CUDA version that is supported.
const oldest = 11040

// Open starts the GPU. If the GPU exists but cannot be used, the error is an *UnusableError.
func Open(o Options) (device.Device, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	switch v := os.Getenv("VSETRAIN_KERNELS"); v {
	case "":
	case "base":
		o.BaseKernels = true
	default:
		return nil, fmt.Errorf("device: cuda: VSETRAIN_KERNELS=%s: expected base, or no value", v)
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

// start loads the driver and checks that it has the GPU.
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

// opened returns the error of a driver that does not start. It is an *UnusableError unless there is no driver or no
// GPU.
func opened(err error) error {
	_, failed := errors.AsType[*driver.Error](err)
	_, silent := errors.AsType[*driver.Silence](err)
	_, unusable := errors.AsType[*UnusableError](err)
	unusable = unusable || silent || failed && !driver.NoDevice(err) && !driver.NoDriver(err)
	if err = fmt.Errorf("device: cuda: %w", err); unusable {
		return &UnusableError{err}
	}
	return err
}

// version formats a number of cuDriverGetVersion: 12.8 for 12080.
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
	others := d.others(o.NVML) // before NVML lists this process
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
				d.bar(f.Name, "VSETRAIN_KERNELS=base turns it off")
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

// blasVersion formats the version of cuBLAS: 12.8 for 120805.
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
	if d.gone != nil { // nothing can be freed
		d.closed = true
		return nil
	}
	d.failure = nil // free what can be freed
	d.run(d.end)
	err := d.wait()
	d.closed = true
	d.queue.stop()
	return err
}

// drop releases a handle or memory that is not the zero value, and keeps the first error.
func drop[H comparable](first *error, release func(H) error, h H) {
	if h != *new(H) {
		*first = cmp.Or(*first, release(h))
	}
}

// end releases everything, on the thread of the context.
func (d *dev) end() (first error) {
	keep := func(err error) { first = cmp.Or(first, err) }
	free := func(p driver.Ptr) { drop(&first, d.drv.Free, p) }
	d.idle() // a failure of earlier work has been reported
	if d.comm != nil {
		keep(d.comm.Close())
	}
	keep(d.side.close(d.drv))
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
		drop(&first, d.drv.UnloadModule, m.handle)
	}
	keep(d.staging.close(d.drv))
	for i := range d.fetches {
		keep(d.fetches[i].close(d.drv))
	}
	drop(&first, d.drv.DestroyStream, d.copies)
	drop(&first, d.drv.DestroyStream, d.stream)
	if d.context != 0 {
		keep(d.drv.SetCurrent(0))
		keep(d.drv.Release(d.index))
	}
	return first
}
