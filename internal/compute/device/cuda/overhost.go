package cuda

import (
	"math"
	"unsafe"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda/driver"
	"vsetrain/internal/compute/gemm"
)

// HostJob is the ranks of a job that send memory of the host, slices of float32 (package ranks).
type HostJob interface {
	device.Job
	// AllReduce sets x to the sum of x of all ranks.
	AllReduce(x any) error
	// AllGather sets piece r of dst, as long as src, to src of rank r.
	AllGather(dst, src any) error
	// Broadcast sets x to that of rank root.
	Broadcast(x any, root int) error
}

// overHost makes the device a rank of a job that sends memory of the host.
func (j *job) overHost(w HostJob) {
	rank, ranks := w.Rank()
	j.on.run(func() error {
		j.comm = &hostCommunicator{w, j.on.drv}
		return j.side.open(j.on)
	})
	j.rank, j.ranks, j.meets = rank, ranks, w
}

// hostCommunicator implements driver.Communicator. Each call waits for the stream, and then for the other ranks.
type hostCommunicator struct {
	HostJob
	drv driver.Driver
}

// exchange sets out values of dst to those that do puts there, given in values of src.
func (c *hostCommunicator) exchange(dst driver.Ptr, out int, src driver.Ptr, in int, half bool, s driver.Stream,
	do func(dst, src []float32) error) error {
	to, from := make([]float32, out), make([]float32, in)
	halves, size := make([]uint16, max(in, out)), 4
	raw := func(x []float32) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(x)) }
	if half {
		size = 2
		raw = func([]float32) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(halves)) }
	}
	if err := c.drv.Download(raw(from), src, size*in, s); err != nil {
		return err
	}
	if err := c.drv.Synchronize(s); err != nil {
		return err
	}
	for i := range from {
		if half {
			from[i] = math.Float32frombits(uint32(halves[i]) << 16)
		}
	}
	if err := do(to, from); err != nil || out == 0 {
		return err
	}
	for i, v := range to {
		if half {
			halves[i] = uint16(math.Float32bits(gemm.RoundBF16(v)) >> 16)
		}
	}
	if err := c.drv.Upload(dst, raw(to), size*out, s); err != nil {
		return err
	}
	return c.drv.Synchronize(s)
}

func (c *hostCommunicator) AllReduce(x driver.Ptr, n int, s driver.Stream) error {
	return c.Reduce(x, x, n, -1, false, s)
}

func (c *hostCommunicator) Broadcast(x driver.Ptr, n, root int, s driver.Stream) error {
	return c.exchange(x, n, x, n, false, s, func(dst, src []float32) error {
		copy(dst, src)
		return c.HostJob.Broadcast(dst, root)
	})
}

// Reduce is AllReduce with a root of -1.
func (c *hostCommunicator) Reduce(dst, src driver.Ptr, n, root int, half bool, s driver.Stream) error {
	out := n
	if rank, _ := c.Rank(); root >= 0 && rank != root {
		out = 0
	}
	return c.exchange(dst, out, src, n, half, s, func(dst, src []float32) error {
		err := c.HostJob.AllReduce(src)
		copy(dst, src)
		return err
	})
}

func (c *hostCommunicator) AllGather(dst, src driver.Ptr, n int, s driver.Stream) error {
	_, ranks := c.Rank()
	return c.exchange(dst, n*ranks, src, n, false, s, func(dst, src []float32) error {
		return c.HostJob.AllGather(dst, src)
	})
}

func (c *hostCommunicator) ReduceScatter(dst, src driver.Ptr, n int, half bool, s driver.Stream) error {
	rank, ranks := c.Rank()
	return c.exchange(dst, n, src, n*ranks, half, s, func(dst, src []float32) error {
		err := c.HostJob.AllReduce(src)
		copy(dst, src[rank*n:])
		return err
	})
}

func (c *hostCommunicator) Failure() error { return nil }
func (c *hostCommunicator) Abort() error   { return nil }
func (c *hostCommunicator) Aborted() bool  { return false }
func (c *hostCommunicator) Close() error   { return nil }
