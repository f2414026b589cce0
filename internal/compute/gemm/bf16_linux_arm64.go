package gemm

import (
	"sync"

	"golang.org/x/sys/unix"
)

// HasBF16 reports whether the processor multiplies bf16 (FEAT_BF16).
var HasBF16 = sync.OnceValue(func() bool {
	const (
		atHWCAP2   = 26
		hwcap2BF16 = 1 << 14
	)
	auxv, err := unix.Auxv()
	if err != nil {
		return false
	}
	for _, v := range auxv {
		if v[0] == atHWCAP2 {
			return v[1]&hwcap2BF16 != 0
		}
	}
	return false
})
