//go:build !unix

package atomicfile

// SyncDir does nothing where folders cannot be synced.
func SyncDir(string) error { return nil }
