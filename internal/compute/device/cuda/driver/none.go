//go:build !linux || !(amd64 || arm64) || nodl

package driver

// Binding names how libcuda is called; this system has none.
const Binding = "none"

// Open returns ErrNone.
func Open(string) (Driver, error) { return nil, ErrNone }

// OpenBLAS returns ErrNone.
func OpenBLAS(string, Stream) (BLAS, error) { return nil, ErrNone }

// OpenMonitor returns ErrNone.
func OpenMonitor(string, Info) (Monitor, error) { return nil, ErrNone }

// OpenNCCL returns ErrNone.
func OpenNCCL(string, bool) (NCCL, error) { return nil, ErrNone }

// CacheFolder returns no folder.
func CacheFolder(func(string) string) string { return "" }
