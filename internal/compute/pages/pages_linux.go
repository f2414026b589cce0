package pages

import "golang.org/x/sys/unix"

// preferHugePages saves most of the address translation of large streams: Adam gained a tenth, reading up to half.
// Where huge pages are not available the advice has no effect.
func preferHugePages(p []byte) { _ = unix.Madvise(p, unix.MADV_HUGEPAGE) }
