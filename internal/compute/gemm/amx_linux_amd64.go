package gemm

import (
	"sync"

	"golang.org/x/sys/unix"
)

// permitAMX asks the kernel for the tile registers (once per process; all threads share the answer).
var permitAMX = sync.OnceValue(func() bool {
	const (
		reqXCompPerm = 0x1023
		xTileData    = 18
	)
	_, _, errno := unix.RawSyscall(unix.SYS_ARCH_PRCTL, reqXCompPerm, xTileData, 0)
	return errno == 0
})
