//go:build (amd64 || arm64) && !nodl

package driver

import (
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"github.com/ebitengine/purego"
)

// nccl is NCCL by dlopen.
type nccl struct {
	version int
	fn      ncclSymbols
	// ncclCommInitRank takes the 128 bytes of the id by value.
	initRank func(comm *uintptr, ranks int32, id NCCLID, rank int32) int32
}

type ncclSymbols struct {
	ncclGetVersion, ncclGetUniqueId, ncclCommInitRank, ncclGetErrorString, ncclGetLastError, ncclAllReduce,
	ncclBroadcast, ncclReduce, ncclAllGather, ncclReduceScatter, ncclCommGetAsyncError, ncclCommAbort,
	ncclCommDestroy entry
}

// OpenNCCL loads NCCL from a path. With fast it may add in a different order in every call, which can be faster.
func OpenNCCL(path string, fast bool) (NCCL, error) {
	if err := setNCCL(fast, os.LookupEnv, os.Setenv); err != nil {
		return nil, err
	}
	lib, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, fmt.Errorf("load NCCL: %w", err)
	}
	n := &nccl{}
	version := new(int32)
	e := &n.fn.ncclGetVersion
	if e.addr, err = purego.Dlsym(lib, "ncclGetVersion"); err == nil {
		purego.SyscallN(e.addr, uintptr(unsafe.Pointer(version)))
	}
	if n.version = int(*version); n.version < oldestNCCL {
		return nil, fmt.Errorf("%s is not NCCL %s or later (it reports %s); install one: pip install "+
			"nvidia-nccl-cu12", path, VersionOfNCCL(oldestNCCL), VersionOfNCCL(n.version))
	}
	if name, err := find(lib, &n.fn); err != nil {
		return nil, fmt.Errorf("%s has no %s: %w", path, name, err)
	}
	purego.RegisterFunc(&n.initRank, n.fn.ncclCommInitRank.addr)
	return n, nil
}

func (n *nccl) Version() int { return n.version }

// said is the error of a call that returned a code, nil if the call succeeded.
func (n *nccl) said(call string, code int32) error {
	const inProgress = 7 // ncclInProgress: a call that has not ended
	if code == 0 || code == inProgress {
		return nil
	}
	e := &Error{Call: call, Code: int(code)}
	if p, _, _ := purego.SyscallN(n.fn.ncclGetErrorString.addr, uintptr(code)); p != 0 {
		e.Name = cString(p)
	}
	if p, _, _ := purego.SyscallN(n.fn.ncclGetLastError.addr, 0); p != 0 {
		e.Text = cString(p)
	}
	return e
}

func (n *nccl) NewID() (NCCLID, error) {
	id := new(NCCLID)
	r, _, _ := purego.SyscallN(n.fn.ncclGetUniqueId.addr, uintptr(unsafe.Pointer(id)))
	return *id, n.said(n.fn.ncclGetUniqueId.name, int32(r))
}

func (n *nccl) Join(id NCCLID, rank, ranks int) (Communicator, error) {
	c := &communicator{nccl: n, out: new(int32), handle: new(uintptr)}
	if err := n.said(n.fn.ncclCommInitRank.name, n.initRank(c.handle, int32(ranks), id, int32(rank))); err != nil {
		return nil, err
	}
	return c, nil
}

// communicator implements Communicator.
type communicator struct {
	*nccl

	handle  *uintptr   // ncclComm_t; on the heap, which does not move
	args    [8]uintptr // of a collective, which then allocates nothing
	out     *int32
	aborted atomic.Bool
}

const ncclFloat, ncclSum = 7, 0 // ncclFloat32, ncclSum

// typeOf is the ncclDataType_t of values.
func typeOf(half bool) uintptr {
	if half {
		return 9 // ncclBfloat16
	}
	return ncclFloat
}

func (c *communicator) call(e *entry, args ...uintptr) error {
	if c.Aborted() { // the handle is freed
		return fmt.Errorf("%s: the job was aborted", e.name)
	}
	n := copy(c.args[:], args)
	r, _, _ := purego.SyscallN(e.addr, c.args[:n]...)
	return c.said(e.name, int32(r))
}

func (c *communicator) AllReduce(x Ptr, n int, s Stream) error {
	return c.call(&c.fn.ncclAllReduce, uintptr(x), uintptr(x), uintptr(n), ncclFloat, ncclSum, *c.handle, uintptr(s))
}

func (c *communicator) Broadcast(x Ptr, n, root int, s Stream) error {
	return c.call(&c.fn.ncclBroadcast, uintptr(x), uintptr(x), uintptr(n), ncclFloat, uintptr(root), *c.handle,
		uintptr(s))
}

func (c *communicator) Reduce(dst, src Ptr, n, root int, half bool, s Stream) error {
	return c.call(&c.fn.ncclReduce, uintptr(src), uintptr(dst), uintptr(n), typeOf(half), ncclSum, uintptr(root),
		*c.handle, uintptr(s))
}

func (c *communicator) AllGather(dst, src Ptr, n int, s Stream) error {
	return c.call(&c.fn.ncclAllGather, uintptr(src), uintptr(dst), uintptr(n), ncclFloat, *c.handle, uintptr(s))
}

func (c *communicator) ReduceScatter(dst, src Ptr, n int, half bool, s Stream) error {
	return c.call(&c.fn.ncclReduceScatter, uintptr(src), uintptr(dst), uintptr(n), typeOf(half), ncclSum, *c.handle,
		uintptr(s))
}

func (c *communicator) Failure() error {
	if c.Aborted() {
		return nil
	}
	r, _, _ := purego.SyscallN(c.fn.ncclCommGetAsyncError.addr, *c.handle, uintptr(unsafe.Pointer(c.out)))
	if err := c.said(c.fn.ncclCommGetAsyncError.name, int32(r)); err != nil {
		return err
	}
	return c.said("NCCL", *c.out)
}

func (c *communicator) Abort() error {
	if c.aborted.Swap(true) {
		return nil
	}
	r, _, _ := purego.SyscallN(c.fn.ncclCommAbort.addr, *c.handle)
	return c.said(c.fn.ncclCommAbort.name, int32(r))
}

func (c *communicator) Aborted() bool { return c.aborted.Load() }

func (c *communicator) Close() error {
	if c.Aborted() {
		return nil
	}
	return c.call(&c.fn.ncclCommDestroy, *c.handle)
}
