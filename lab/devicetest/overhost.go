package devicetest

import (
	"math"
	"unsafe"

	"vsetrain/internal/compute/device/cuda/driver"
	products "vsetrain/internal/compute/gemm"
)

// Communicator lets ranks that share a GPU, which NCCL refuses, send its values through memory of the host
// (cuda.HostJob).
func (w *World) Communicator(d driver.Driver) driver.Communicator { return &hostCommunicator{w, d} }

// hostCommunicator implements driver.Communicator. Each call waits for the stream, and then for the other ranks.
type hostCommunicator struct {
	*World
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
			halves[i] = uint16(math.Float32bits(products.RoundBF16(v)) >> 16)
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
		return c.World.Broadcast(dst, root)
	})
}

// Reduce is AllReduce with a root of -1.
func (c *hostCommunicator) Reduce(dst, src driver.Ptr, n, root int, half bool, s driver.Stream) error {
	out := n
	if rank, _ := c.Rank(); root >= 0 && rank != root {
		out = 0
	}
	return c.exchange(dst, out, src, n, half, s, func(dst, src []float32) error {
		err := c.World.AllReduce(src)
		copy(dst, src)
		return err
	})
}

func (c *hostCommunicator) AllGather(dst, src driver.Ptr, n int, s driver.Stream) error {
	_, ranks := c.Rank()
	return c.exchange(dst, n*ranks, src, n, false, s, func(dst, src []float32) error {
		return c.World.AllGather(dst, src)
	})
}

func (c *hostCommunicator) ReduceScatter(dst, src driver.Ptr, n int, half bool, s driver.Stream) error {
	rank, ranks := c.Rank()
	return c.exchange(dst, n, src, n*ranks, half, s, func(dst, src []float32) error {
		err := c.World.AllReduce(src)
		copy(dst, src[rank*n:])
		return err
	})
}

func (c *hostCommunicator) Failure() error { return nil }
func (c *hostCommunicator) Abort() error   { return nil }
func (c *hostCommunicator) Aborted() bool  { return false }
func (c *hostCommunicator) Close() error   { return nil }
