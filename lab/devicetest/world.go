package devicetest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"

	"vsetrain/internal/compute/device"
	products "vsetrain/internal/compute/gemm"
)

// Late is a device of one of several ranks that computes async collectives as late as it may: when they are joined.
// Code that uses their results earlier, or overwrites what they send, gets other results than on a device that computes
// them at once.
type Late struct {
	device.Device
	// BesideSums and BesideGathers count the kernels that ran while sums or gathers waited.
	BesideSums, BesideGathers int

	waiting []late
}

// late is a collective that waits, and what it writes.
type late struct {
	device.Kernel
	to device.View
}

// Unwrap implements device.Wrapper.
func (d *Late) Unwrap() device.Device { return d.Device }

// Do implements device.Device.
func (d *Late) Do(k device.Kernel) bool {
	wait := func(async bool, k device.Kernel, to device.View) bool {
		if async {
			d.waiting = append(d.waiting, late{k, to})
		}
		return async
	}
	waits := false
	switch a := k.(type) {
	case *device.AllReduce:
		own := *a
		waits = wait(a.Async, &own, a.X)
	case *device.AllGather:
		own := *a
		waits = wait(a.Async, &own, a.Y)
	case *device.ReduceScatter:
		own := *a
		waits = wait(a.Async, &own, a.Y)
	case *device.Wait:
		for d.meets(a.X) {
			k := d.waiting[0]
			d.waiting = d.waiting[1:]
			d.Device.Do(k.Kernel)
		}
	}
	if waits {
		return true
	}
	sums, gathers := 0, 0
	for _, l := range d.waiting {
		if _, ok := l.Kernel.(*device.AllGather); ok {
			gathers = 1
		} else {
			sums = 1
		}
	}
	d.BesideSums, d.BesideGathers = d.BesideSums+sums, d.BesideGathers+gathers
	return d.Device.Do(k)
}

// meets reports whether a collective waits that writes to a view; absent is any.
func (d *Late) meets(v device.View) bool {
	return slices.ContainsFunc(d.waiting, func(l late) bool { return !v.Present() || v.Overlaps(l.to) })
}

// Sync implements device.Device.
func (d *Late) Sync() error {
	if len(d.waiting) > 0 {
		return fmt.Errorf("%d collectives were not joined", len(d.waiting))
	}
	return d.Device.Sync()
}

// World is a rank of a job whose ranks are goroutines, for tests (package ranks). Sums add in the order of the ranks.
type World struct {
	// Calls counts the collectives of this rank, without Wait, and Values the larger of the values that they read and
	// wrote.
	Calls, Values int

	rank int
	job  *job
}

// job is what ranks share: they meet, each with something, and part when all have seen everything.
type job struct {
	sync.Mutex
	met     *sync.Cond
	what    []string // what each does, "" of one that is not there
	with    []any
	there   int
	meeting int
	gone    bool // a rank has ended, or does something else: no rank can meet any more
}

// Ranks runs f as n ranks, and returns when all have ended.
func Ranks(n int, f func(w *World)) { together(Worlds(n), f) }

// Worlds returns the ranks of a job, for devices that are opened before MeasureTogether.
func Worlds(n int) (all []*World) {
	j := &job{what: make([]string, n), with: make([]any, n)}
	j.met = sync.NewCond(j)
	for rank := range n {
		all = append(all, &World{rank: rank, job: j})
	}
	return all
}

// together runs f as the ranks of a job, and returns when all have ended.
func together(ranks []*World, f func(w *World)) {
	var all sync.WaitGroup
	for _, w := range ranks {
		all.Go(func() {
			defer w.job.end()
			f(w)
		})
	}
	all.Wait()
}

func (j *job) end() {
	j.Lock()
	defer j.Unlock()
	j.gone = true
	j.met.Broadcast()
}

// meet waits until all ranks are there. All must do the same.
func (w *World) meet(what string, with any) error {
	j := w.job
	j.Lock()
	defer j.Unlock()
	j.what[w.rank], j.with[w.rank] = what, with
	for _, other := range j.what {
		if other != "" && other != what {
			j.gone = true
			j.met.Broadcast()
			return fmt.Errorf("rank %d does %s, another %s", w.rank, what, other)
		}
	}
	if j.there++; j.there == len(j.what) {
		j.there = 0
		j.meeting++
		clear(j.what)
		j.met.Broadcast()
		return nil
	}
	for at := j.meeting; at == j.meeting; {
		if j.gone {
			return errors.New("another rank has ended")
		}
		j.met.Wait()
	}
	return nil
}

// Rank returns the rank, of that many.
func (w *World) Rank() (rank, ranks int) { return w.rank, len(w.job.what) }

// Wait waits until all ranks call it.
func (w *World) Wait() error { return w.meet("Wait", nil) }

// AllReduce sets x to the sum of x of all ranks.
func (w *World) AllReduce(x any) error {
	if y, ok := x.([]float32); ok {
		return combine(w, "AllReduce", y, y, sumOf[float32])
	}
	return combine(w, "AllReduce", x.([]float64), x.([]float64), sumOf[float64])
}

// AllGather sets piece r of dst to src of rank r.
func (w *World) AllGather(dst, src any) error {
	if x, ok := src.([]float32); ok {
		return combine(w, "AllGather", dst.([]float32), x, joined[float32])
	}
	return combine(w, "AllGather", dst.([]float64), src.([]float64), joined[float64])
}

// ReduceScatter sets dst to piece r of the sum of src of all ranks, r being this one.
func (w *World) ReduceScatter(dst, src any) error {
	if x, ok := src.([]float32); ok {
		return combine(w, "ReduceScatter", dst.([]float32), x, func(all [][]float32) []float32 {
			return sumOf(all)[w.rank*len(dst.([]float32)):][:len(dst.([]float32))]
		})
	}
	return combine(w, "ReduceScatter", dst.([]float64), src.([]float64), func(all [][]float64) []float64 {
		return sumOf(all)[w.rank*len(dst.([]float64)):][:len(dst.([]float64))]
	})
}

// AllToAll sets piece r of dst to the piece of this rank of src of rank r.
func (w *World) AllToAll(dst, src []float32) error {
	return combine(w, "AllToAll", dst, src, func(all [][]float32) (mine []float32) {
		n := len(src) / len(all)
		for _, x := range all {
			mine = append(mine, x[w.rank*n:(w.rank+1)*n]...)
		}
		return mine
	})
}

// Broadcast sets x to the value of rank root.
func (w *World) Broadcast(x any, root int) error {
	if y, ok := x.([]float32); ok {
		return combine(w, "Broadcast", y, y, func(all [][]float32) []float32 { return all[root] })
	}
	return combine(w, "Broadcast", x.([]float64), x.([]float64), func(all [][]float64) []float64 { return all[root] })
}

// combine sets dst to what f makes of src of all ranks.
func combine[T float32 | float64](w *World, what string, dst, src []T, f func(all [][]T) []T) error {
	w.Calls, w.Values = w.Calls+1, w.Values+max(len(dst), len(src))
	if err := w.meet(fmt.Sprintf("%s of %d values", what, len(src)), src); err != nil {
		return err
	}
	var all [][]T
	w.job.Lock()
	for _, x := range w.job.with {
		all = append(all, x.([]T))
	}
	w.job.Unlock()
	result := append([]T(nil), f(all)...)
	err := w.meet(what+" seen", src)
	copy(dst, result)
	return err
}

func sumOf[T float32 | float64](all [][]T) []T {
	sum := append([]T(nil), all[0]...)
	for _, x := range all[1:] {
		for i, v := range x {
			sum[i] += v
		}
	}
	return sum
}

func joined[T float32 | float64](all [][]T) (y []T) {
	for _, x := range all {
		y = append(y, x...)
	}
	return y
}

// Collectives compares the collectives with their definition: value k is k, and k + 1000·rank for a sum. It calls all
// collectives even after a mistake, and returns the first.
func Collectives(d device.Device, shard device.Shard) (first error) {
	all, own := shard.Values()
	var want []float64 // of this rank
	at := 0
	shard.Each(func(rank, n int) {
		for k := at; k < at+n && rank == shard.Rank; k++ {
			want = append(want, float64(k))
		}
		at += n
	})
	count := func(n int, plus float64) []float64 {
		x := make([]float64, n)
		for k := range x {
			x[k] = float64(k) + plus
		}
		return x
	}
	view := func(x []float64) device.View {
		b, err := d.Alloc(device.Float, max(1, len(x)))
		if err != nil {
			panic(err)
		}
		v := device.ViewOf(b).Slice(0, len(x))
		d.UploadDoubles(v, x)
		return v
	}
	keep := func(err error) { first = cmp.Or(first, err) }
	equal := func(what string, v device.View, want []float64) {
		x := make([]float64, v.N)
		d.DownloadDoubles(x, v)
		if keep(d.Sync()); !slices.Equal(x, want) {
			keep(fmt.Errorf("%s: %d values, expected %d: %.20v, expected %.20v", what, len(x), len(want), x[:min(9,
				len(x))], want[:min(9, len(want))]))
		}
	}
	x, y := view(want), view(make([]float64, all))
	device.Do(d, device.AllGather{Shard: shard, X: x, Y: y})
	equal("AllGather", y, count(all, 0))
	dx := view(make([]float64, own))
	device.DoGrad(d, device.AllGather{Shard: shard, DX: dx, DY: y})
	equal("AllGatherGrad", dx, want)
	ranked := view(count(all, 1000*float64(shard.Rank)))
	device.Do(d, device.ReduceScatter{Shard: shard, X: ranked, Y: dx})
	r := float64(shard.Ranks)
	summed := make([]float64, own)
	for i, v := range want {
		summed[i] = r*v + 1000*r*(r-1)/2
	}
	equal("ReduceScatter", dx, summed)
	if !d.Float64() {
		summed = make([]float64, own)
		for i, v := range want {
			for rank := range shard.Ranks {
				summed[i] = float64(float32(summed[i]) + products.RoundBF16(float32(v+1000*float64(rank))))
			}
			if shard.Ranks == 1 {
				summed[i] = v
			}
		}
		for _, async := range []bool{false, true} {
			device.Do(d, device.Fill{Dst: dx})
			device.Do(d, device.ReduceScatter{Shard: shard, BF16: true, Async: async, X: ranked, Y: dx})
			device.Do(d, device.Wait{X: dx})
			if _, sends := device.As[device.Joiner](d); sends { // which may round sums or not
				x := make([]float64, own)
				d.DownloadDoubles(x, dx)
				if err := near(x, summed, r/256*magnitude(summed)); err != nil {
					keep(fmt.Errorf("ReduceScatter in bf16: %w", err))
				}
			} else {
				equal("ReduceScatter in bf16", dx, summed)
			}
		}
	}
	device.Do(d, device.Broadcast{Root: shard.Ranks - 1, X: ranked})
	equal("Broadcast", ranked, count(all, 1000*(r-1)))
	for _, async := range []bool{false, true} {
		same := view([]float64{1, float64(shard.Rank)})
		device.Do(d, device.Fill{Dst: y})
		device.Do(d, device.AllReduce{Async: async, X: same})
		device.Do(d, device.AllGather{Shard: shard, Async: async, X: x, Y: y})
		device.Do(d, device.Wait{})
		equal(fmt.Sprintf("AllReduce, async %v", async), same, []float64{r, r * (r - 1) / 2})
		equal(fmt.Sprintf("AllGather, async %v", async), y, count(all, 0))
	}
	job, _ := device.As[device.Ranked](d)
	job.Wait()
	keep(d.Sync())
	return first
}
