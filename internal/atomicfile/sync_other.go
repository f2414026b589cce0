//go:build !unix

package atomicfile

// syncDir does nothing where folders cannot be synced.
func syncDir(string) error { return nil }
