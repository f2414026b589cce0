//go:build !unix

package disk

// SyncDir does nothing where folders cannot be synced.
func (Host) SyncDir(string) error { return nil }
