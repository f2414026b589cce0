package gemm

import (
	"sync"

	"golang.org/x/sys/unix"
)

// HasBF16 reports whether the processor multiplies bf16 (FEAT_BF16).
var HasBF16 = sync.OnceValue(func() bool {
	v, err := unix.SysctlUint32("hw.optional.arm.FEAT_BF16")
	return err == nil && v != 0
})
