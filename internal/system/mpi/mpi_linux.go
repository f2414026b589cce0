//go:build (amd64 || arm64) && !nodl

package mpi

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"github.com/ebitengine/purego"
)

// handles are the values that differ between the interfaces.
type handles struct {
	world, float, double, errorsReturn uintptr
	funneled                           int32 // MPI_THREAD_FUNNELED
}

// World is a library and, after Init, the processes of a job. The goroutine that calls Init must make all calls; it is
// locked to its thread (MPI_THREAD_FUNNELED).
type World struct {
	Kind    Kind
	Version string // as the library reports it

	rank, ranks int // after Init
	handles
	fn    map[string]uintptr
	out   *[4]int32 // results of calls
	state *pending
	room  any // buffer for sums, []float32 or []float64
}

// pending is a collective that has begun. A request is an int or an address; a status has at most 64 bytes in all
// libraries.
type pending struct {
	request [1]uintptr
	done    [1]int32
	status  [16]int32
}

var functions = strings.Fields("Init_thread Finalize Comm_rank Comm_size Comm_set_errhandler Ibcast Iallgather " +
	"Ialltoall Ibarrier Test Error_string Get_library_version")

// Load loads a library and tells its kind and version. It restores the signal handlers that the library replaces:
// otherwise a nil pointer would not be a Go panic, and the program would miss hangups.
//
// SIGABRT gets the default action. UCX, through which MPICH sends, sometimes aborts a process after another one was
// killed. With the default action the process ends as if killed, with Go's handler as if its arguments were wrong.
func Load(path string) (*World, error) {
	before := handlers()
	defer func() { // loading the library replaces some, MPI_Init others
		restore(before)
		action(int(syscall.SIGABRT), new(sigaction), nil)
	}()
	// Open MPI's plug-ins look the symbols of the library up.
	lib, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err != nil {
		return nil, fmt.Errorf("load MPI: %w", err)
	}
	w := &World{fn: map[string]uintptr{}, out: new([4]int32), state: new(pending)}
	for _, n := range functions {
		if w.fn[n], err = purego.Dlsym(lib, "MPI_"+n); err != nil {
			return nil, fmt.Errorf("load MPI: %s lacks MPI_%s; name another library in VSETRAIN_MPI", path, n)
		}
	}
	text := make([]byte, 8192)
	onHeap(text)
	purego.SyscallN(w.fn["Get_library_version"], address(text), address(w.out[:]))
	w.Version, _, _ = strings.Cut(string(text[:max(0, min(int(w.out[0]), len(text)))]), "\n")
	w.Version = strings.TrimRight(w.Version, "\x00")
	if err := w.table(lib, path); err != nil {
		return nil, fmt.Errorf("load MPI: %w", err)
	}
	return w, nil
}

// Init starts MPI. It locks the goroutine to its thread, reduces the thread's timer slack from 50 microseconds to one,
// and restores signal handlers like Load.
func (w *World) Init() error {
	defer restore(handlers())
	runtime.LockOSThread()
	syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_TIMERSLACK, uintptr(time.Microsecond), 0)
	if err := w.call("Init_thread", nil, 0, 0, uintptr(w.funneled), address(w.out[:])); err != nil {
		return err
	}
	if w.out[0] < w.funneled {
		return fmt.Errorf("MPI (%s) has thread level %d, expected at least MPI_THREAD_FUNNELED, %d", w.Version,
			w.out[0], w.funneled)
	}
	err := errors.Join(w.call("Comm_set_errhandler", nil, w.world, w.errorsReturn),
		w.call("Comm_rank", nil, w.world, address(w.out[1:])), w.call("Comm_size", nil, w.world, address(w.out[2:])))
	w.rank, w.ranks = int(w.out[1]), int(w.out[2])
	return err
}

// Rank returns the rank of this process and the number of ranks, after Init.
func (w *World) Rank() (rank, ranks int) { return w.rank, w.ranks }

// table sets the kind and handles of the library.
func (w *World) table(lib uintptr, path string) (err error) {
	switch w.Kind, err = KindOf(path); w.Kind {
	case OpenMPI:
		w.handles = handles{funneled: 1}
		for name, to := range map[string]*uintptr{"comm_world": &w.world, "float": &w.float, "double": &w.double,
			"errors_return": &w.errorsReturn} {
			if *to, err = purego.Dlsym(lib, "ompi_mpi_"+name); err != nil {
				return err
			}
		}
	case ABI:
		w.handles = handles{world: 0x101, float: 0x210, double: 0x214, errorsReturn: 0x143, funneled: 1024}
	case MPICH:
		w.handles = handles{world: 0x44000000, float: 0x4c00040a, double: 0x4c00080b, errorsReturn: 0x54000001,
			funneled: 1}
	}
	return err
}

func address[T any](x []T) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(x))) }

// onHeap makes the compiler put memory on the heap, where its address does not change: a stack moves when it grows or
// shrinks.
func onHeap(x any) {
	if never {
		sink = x
	}
}

var never bool

//lint:ignore U1000 What is assigned to a variable of a package lies on the heap; nothing reads it.
var sink any

// call calls a function. alive is the memory whose addresses are arguments; an address does not keep it alive.
func (w *World) call(name string, alive any, args ...uintptr) error {
	onHeap(alive)
	code, _, _ := purego.SyscallN(w.fn[name], args...)
	runtime.KeepAlive(alive)
	if int32(code) == 0 {
		return nil
	}
	text := make([]byte, 8192)
	purego.SyscallN(w.fn["Error_string"], code, address(text), address(w.out[3:]))
	return &CallError{"MPI_" + name, string(text[:max(0, min(int(w.out[3]), len(text)))])}
}

// looking is how long a rank polls for the others without a pause: long enough for equally fast ranks with a processor
// each. longest is the longest pause afterwards.
const (
	looking = 200 * time.Microsecond
	longest = 2 * time.Millisecond
)

// collective starts a non-blocking collective and waits for its end. After 200 microseconds a waiting rank pauses
// between polls, because a blocking collective of MPI would keep the processor that another rank may need. A pause is a
// sixteenth of the time waited so far, so pauses delay the end by at most that fraction.
func (w *World) collective(name string, alive any, args ...uintptr) error {
	s := w.state
	if err := w.call(name, alive, append(args, w.world, address(s.request[:]))...); err != nil {
		return err
	}
	for began := time.Now(); ; {
		err := w.call("Test", alive, address(s.request[:]), address(s.done[:]), address(s.status[:]))
		if err != nil || s.done[0] != 0 {
			return err
		}
		if waited := time.Since(began); waited > looking {
			pause := syscall.NsecToTimespec(int64(min(waited/16, longest)))
			syscall.Nanosleep(&pause, nil) // the thread's own: the goroutine is locked to it
		}
	}
}

// values returns address, number and MPI type of floats. Slices of all collectives are []float32 or []float64.
func (w *World) values(x any) (at, n, mpi uintptr) {
	switch x := x.(type) {
	case []float32:
		return address(x), uintptr(len(x)), w.float
	case []float64:
		return address(x), uintptr(len(x)), w.double
	}
	panic(fmt.Sprintf("MPI sends no %T", x))
}

type float interface{ float32 | float64 }

// piece is how many values of all ranks a collective takes at a time: larger pieces do not fit in the cache.
const piece = 1 << 18

// AllReduce sets x to the sum of x of all ranks, added in their order.
func (w *World) AllReduce(x any) error {
	if x, ok := x.([]float32); ok {
		return allReduce(w, x)
	}
	return allReduce(w, x.([]float64))
}

func allReduce[T float](w *World, x []T) (err error) {
	for part := range slices.Chunk(x, max(1, piece/w.ranks)) {
		all := room[T](w, len(part)*w.ranks)
		err = cmp.Or(err, w.AllGather(all, part))
		add(part, all)
	}
	return err
}

// room returns the buffer, with n values.
func room[T float](w *World, n int) []T {
	got, _ := w.room.([]T)
	got = slices.Grow(got[:0], n)[:n]
	w.room = got
	return got
}

// add sets dst to the sum of the pieces of all, each as long as dst, in their order. So sums do not depend on the
// library: sums by MPI of more than two ranks have other orders, and MPI_Ireduce_scatter_block of MPICH takes ten times
// as long.
func add[T float](dst, all []T) {
	for copy(dst, all); len(all) > len(dst); {
		all = all[len(dst):]
		for i, v := range all[:len(dst)] {
			dst[i] += v
		}
	}
}

// Broadcast sets x to the value of the root.
func (w *World) Broadcast(x any, root int) error {
	at, n, mpi := w.values(x)
	bytes := map[uintptr]uintptr{w.float: 4, w.double: 8}[mpi]
	for lo := uintptr(0); lo < n; lo += piece {
		if err := w.collective("Ibcast", x, at+lo*bytes, min(piece, n-lo), mpi, uintptr(root)); err != nil {
			return err
		}
	}
	return nil
}

// AllGather sets piece r of dst, as long as src, to src of rank r.
func (w *World) AllGather(dst, src any) error {
	to, all, mpi := w.values(dst)
	from, n, _ := w.values(src)
	if int(all) != w.ranks*int(n) {
		return fmt.Errorf("gather %d values of each of %d ranks into %d", n, w.ranks, all)
	}
	return w.collective("Iallgather", [2]any{dst, src}, from, n, mpi, to, n, mpi)
}

// ReduceScatter sets dst to piece r of the sum of src of all ranks, where r is this rank.
func (w *World) ReduceScatter(dst, src any) error {
	if dst, ok := dst.([]float32); ok {
		return reduceScatter(w, dst, src.([]float32))
	}
	return reduceScatter(w, dst.([]float64), src.([]float64))
}

func reduceScatter[T float](w *World, dst, src []T) error {
	if len(src) != w.ranks*len(dst) {
		return fmt.Errorf("scatter %d values in pieces of %d to %d ranks", len(src), len(dst), w.ranks)
	}
	all := room[T](w, len(src))
	err := w.exchange(all, src)
	add(dst, all)
	return err
}

// AllToAll sets piece r of dst, for each rank r, to the piece for this rank in src of rank r.
func (w *World) AllToAll(dst, src []float32) error { return w.exchange(dst, src) }

func (w *World) exchange(dst, src any) error {
	to, all, mpi := w.values(dst)
	from, n, _ := w.values(src)
	if n != all || int(n)%w.ranks != 0 {
		return fmt.Errorf("send %d values in equal pieces to %d ranks, and receive %d", n, w.ranks, all)
	}
	n /= uintptr(w.ranks)
	return w.collective("Ialltoall", [2]any{dst, src}, from, n, mpi, to, n, mpi)
}

// Wait waits until all ranks call it.
func (w *World) Wait() error { return w.collective("Ibarrier", nil) }

// Finalize ends MPI and unlocks the goroutine from its thread. The launcher of MPICH 5 may kill ranks as they end, if
// there are three or more.
func (w *World) Finalize() error {
	defer runtime.UnlockOSThread()
	return w.call("Finalize", nil)
}

// sigaction is the kernel's structure: handler, flags, restorer, mask.
type sigaction [4]uintptr

const signals = 31

// handlers returns the handlers of all signals.
func handlers() (all [signals + 1]sigaction) {
	for s := 1; s <= signals; s++ {
		action(s, nil, &all[s])
	}
	return all
}

// restore restores handlers that have changed.
func restore(before [signals + 1]sigaction) {
	for s := 1; s <= signals; s++ {
		var now sigaction
		if action(s, nil, &now); now != before[s] {
			action(s, &before[s], nil)
		}
	}
}

func action(signal int, set, get *sigaction) {
	// This fails only for SIGKILL and SIGSTOP, which nobody can replace.
	syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(signal), uintptr(unsafe.Pointer(set)),
		uintptr(unsafe.Pointer(get)), 8, 0, 0)
}
