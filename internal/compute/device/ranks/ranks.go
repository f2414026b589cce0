// Package ranks makes a device that computes in host memory one device of a job with several ranks. It computes the
// collectives (device.AllReduce, …), and the statistics of batch norms over the batches of all ranks.
//
// Only memory of the device is sent to other ranks; its buffers keep the slices alive. Large values are sent in pieces.
// The sizes of the pieces depend only on the sizes of the values and the number of ranks, because sums of floats depend
// on them.
package ranks

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unsafe"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/gemm"
)

// World connects the ranks of a job that exchange host memory. x, dst and src are slices of float32 or float64, with
// the same length on all ranks. All calls come from the goroutine that uses the device.
type World interface {
	device.Job
	// AllReduce sets x to the sum of x over all ranks.
	AllReduce(x any) error
	// AllGather sets piece r of dst, which has the length of src, to src of rank r.
	AllGather(dst, src any) error
	// ReduceScatter sets dst to piece r of the sum of src over all ranks, where r is this rank.
	ReduceScatter(dst, src any) error
	// AllToAll sets piece r of dst to this rank's piece of src on rank r. It copies bits.
	AllToAll(dst, src []float32) error
	// Broadcast sets x to the value of rank root.
	Broadcast(x any, root int) error
}

// IsRank0 reports whether this process is rank 0. Without a job, which is nil, it is.
func IsRank0(j device.Job) bool {
	if j == nil {
		return true
	}
	rank, _ := j.Rank()
	return rank == 0
}

// Broadcast sets x on all ranks of a job to the value of rank 0.
func Broadcast(j device.Job, x []float32) error {
	rendezvous, ok := j.(device.Rendezvous)
	if !ok {
		return j.(World).Broadcast(x, 0)
	}
	var text []byte
	for _, v := range x {
		text = binary.LittleEndian.AppendUint32(text, math.Float32bits(v))
	}
	text, err := rendezvous.Broadcast(text)
	for i := range min(len(x), len(text)/4) {
		x[i] = math.Float32frombits(binary.LittleEndian.Uint32(text[4*i:]))
	}
	return err
}

// Join makes a device the device of a rank of a job. The device must send values itself (device.Joiner), or compute in
// host memory. Without a job, which is nil, there is one rank.
func Join(d device.Device, j device.Job) (device.Device, error) {
	if j == nil {
		return d, nil
	}
	rendezvous, devices := j.(device.Rendezvous)
	joiner, joins := device.As[device.Joiner](d)
	switch world, hosts := j.(World); {
	case devices && joins:
		return d, joiner.Join(rendezvous)
	case hosts && !joins:
		return New(d, world)
	case devices:
		return nil, fmt.Errorf("%s sends nothing to the GPUs of other ranks: all ranks compute on GPUs (--gpus), or "+
			"all on processors (device.kind cpu)", d.Name())
	}
	return nil, fmt.Errorf("%s is a GPU, but the ranks send memory of the host: start them with --gpus, or set "+
		"device.kind to cpu", d.Name())
}

// Device is a device of one of several ranks.
type Device struct {
	device.Device
	world       World
	rank, ranks int
	checker     device.Checker
	room        [rooms]device.View // scratch memory
	failed      error              // of the world, the first
}

// buffer is implemented by buffers in memory of the host.
type buffer interface {
	// Values are the elements of a Float buffer: []float32 or []float64.
	Values() any
}

// piece is how many bytes of all ranks a gather or scatter sends at a time; larger pieces do not fit in the cache.
const piece = 1 << 20

// The scratch memory.
const (
	sent = iota
	received
	statistics
	gathered
	running
	values
	rooms
)

// New returns the device of a rank of the world. The given device must compute in host memory.
func New(d device.Device, w World) (*Device, error) {
	own := &Device{Device: d, world: w}
	own.rank, own.ranks = w.Rank()
	b, err := d.Alloc(device.Float, 1)
	if err != nil {
		return nil, err
	}
	defer d.Free(b)
	memory, ok := device.As[device.Inspector](d)
	if _, host := b.(buffer); !host || !ok {
		return nil, fmt.Errorf("%s has no memory that other ranks can be sent; several ranks compute on the CPU: set "+
			"device.kind to cpu", d.Name())
	}
	own.checker = device.Checker{Device: d.Name(), Memory: memory}
	return own, nil
}

func (d *Device) Unwrap() device.Device { return d.Device }

func (d *Device) Rank() (rank, ranks int) { return d.rank, d.ranks }

func (d *Device) Wait() { d.try(d.world.Wait) }

// Sync also returns the first failure of a collective.
func (d *Device) Sync() error { return errors.Join(d.failed, d.Device.Sync()) }

// try calls the world unless an earlier call failed: ranks would then wait for each other in different calls.
func (d *Device) try(call func() error) {
	if d.failed != nil {
		return
	}
	if err := call(); err != nil {
		d.failed = fmt.Errorf("rank %d of %d: %w", d.rank, d.ranks, err)
	}
}

func (d *Device) Do(k device.Kernel) (has bool) {
	has = true
	defer d.lacking()
	if d.Float64() {
		return do[float64](d, k)
	}
	return do[float32](d, k)
}

func do[T float](d *Device, k device.Kernel) bool {
	switch a := k.(type) {
	case *device.AllReduce:
		d.checker.Check(a)
		d.try(func() error { return d.world.AllReduce(floats[T](a.X)) })
	case *device.Broadcast:
		d.checker.Check(a)
		d.try(func() error { return d.world.Broadcast(floats[T](a.X), a.Root) })
	case *device.AllGather:
		d.checker.Check(a)
		if a.Grad {
			pick(a.Shard, floats[T](a.DX), floats[T](a.DY))
		} else {
			gather(d, a.Shard, floats[T](a.Y), floats[T](a.X))
		}
	case *device.ReduceScatter:
		d.checker.Check(a)
		if a.BF16 && !d.Float64() && d.ranks > 1 {
			scatterHalves(d, a.Shard, floats[float32](a.Y), floats[float32](a.X))
		} else {
			scatter(d, a.Shard, floats[T](a.Y), floats[T](a.X))
		}
	case *device.Wait: // no processor is free beside the kernels: what is Async has run at once
	case *device.BatchNorm:
		if !a.Train || d.ranks == 1 {
			return d.Device.Do(k)
		}
		if a.Grad {
			normal[T]{d}.grad(*a)
		} else {
			normal[T]{d}.forward(*a)
		}
	case *device.Filtrate:
		if !a.Train || d.ranks == 1 {
			return d.Device.Do(k)
		}
		if a.Grad {
			filtered[T]{d}.grad(*a)
		} else {
			filtered[T]{d}.forward(*a)
		}
	default:
		return d.Device.Do(k)
	}
	return true
}

type float interface{ float32 | float64 }

// floats are the values of a view, nil of an absent one.
func floats[T float](v device.View) []T {
	if !v.Present() {
		return nil
	}
	return v.Buf.(buffer).Values().([]T)[v.Off:][:v.N:v.N]
}

// lack is what scratch panics with where there is no memory.
type lack struct{ error }

// lacking keeps the error of a kernel that had no scratch memory.
func (d *Device) lacking() {
	switch e := recover().(type) {
	case nil:
	case lack:
		d.failed = errors.Join(d.failed, e.error)
	default:
		panic(e)
	}
}

// scratch returns memory for n values, whatever they are.
func (d *Device) scratch(which, n int) device.View {
	if d.room[which].N < n {
		b, err := d.Alloc(device.Float, n)
		if err != nil {
			panic(lack{err})
		}
		if d.room[which].Present() {
			d.Free(d.room[which].Buf)
		}
		d.room[which] = device.ViewOf(b)
	}
	return d.room[which].Slice(0, n)
}

// pick copies the values of one rank out of the values of all.
func pick[T float](shard device.Shard, own, all []T) {
	shard.Each(func(rank, n int) {
		if rank == shard.Rank {
			copy(own, all[:n])
			own = own[n:]
		}
		all = all[n:]
	})
}

// streams are the values of all ranks, each rank's read or written one after the other.
type streams[T float] struct {
	parts [][][]T // of each rank, its items that are left
	most  int     // values of the rank that has most
}

func streamsOf[T float](shard device.Shard, all []T) *streams[T] {
	s := &streams[T]{parts: make([][][]T, shard.Ranks)}
	count := make([]int, shard.Ranks)
	shard.Each(func(rank, n int) {
		s.parts[rank] = append(s.parts[rank], all[:n])
		count[rank] += n
		s.most = max(s.most, count[rank])
		all = all[n:]
	})
	return s
}

// next calls f with the next values of a rank, in order, until they are n or there are no more.
func (s *streams[T]) next(rank, n int, f func(at int, x []T)) {
	for at := 0; at < n && len(s.parts[rank]) > 0; {
		x := s.parts[rank][0]
		x = x[:min(len(x), n-at)]
		f(at, x)
		at += len(x)
		if s.parts[rank][0] = s.parts[rank][0][len(x):]; len(s.parts[rank][0]) == 0 {
			s.parts[rank] = s.parts[rank][1:]
		}
	}
}

// pieces calls f for [from, from + n) of what the rank with most values has.
func (s *streams[T]) pieces(wide bool, f func(from, n int)) {
	size := piece / 4 / len(s.parts)
	if wide {
		size /= 2
	}
	for from := 0; from < s.most; from += size {
		f(from, min(size, s.most-from))
	}
}

func gather[T float](d *Device, shard device.Shard, all, own []T) {
	s := streamsOf(shard, all)
	s.pieces(d.Float64(), func(from, n int) {
		src, dst := floats[T](d.scratch(sent, n)), floats[T](d.scratch(received, n*d.ranks))
		clear(src[copy(src, own[min(from, len(own)):]):])
		d.try(func() error { return d.world.AllGather(dst, src) })
		for rank := range d.ranks {
			s.next(rank, n, func(at int, x []T) { copy(x, dst[rank*n+at:]) })
		}
	})
}

func scatter[T float](d *Device, shard device.Shard, own, all []T) {
	s := streamsOf(shard, all)
	s.pieces(d.Float64(), func(from, n int) {
		src, dst := floats[T](d.scratch(sent, n*d.ranks)), floats[T](d.scratch(received, n))
		clear(src)
		for rank := range d.ranks {
			s.next(rank, n, func(at int, x []T) { copy(src[rank*n+at:], x) })
		}
		d.try(func() error { return d.world.ReduceScatter(dst, src) })
		copy(own[min(from, len(own)):], dst)
	})
}

// scatterHalves is scatter of values that are rounded to bfloat16, of which two are sent as one float32. Every rank
// adds the values of all in their order, in float32.
func scatterHalves(d *Device, shard device.Shard, own, all []float32) {
	s := streamsOf(shard, all)
	s.pieces(false, func(from, n int) {
		words := (n + 1) / 2
		src, dst := floats[float32](d.scratch(sent, words*d.ranks)), floats[float32](d.scratch(received, words*d.ranks))
		clear(src)
		send, got := halves(src), halves(dst)
		for rank := range d.ranks {
			s.next(rank, n, func(at int, x []float32) {
				for i, v := range x {
					send[2*words*rank+at+i] = uint16(math.Float32bits(gemm.RoundBF16(v)) >> 16)
				}
			})
		}
		d.try(func() error { return d.world.AllToAll(dst, src) })
		to := own[min(from, len(own)):min(from+n, len(own))]
		clear(to)
		for rank := range d.ranks {
			for i := range to {
				to[i] += math.Float32frombits(uint32(got[2*words*rank+i]) << 16)
			}
		}
	})
}

// halves are the same memory as numbers of 16 bits.
func halves(x []float32) []uint16 {
	return unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(x))), 2*len(x))
}
