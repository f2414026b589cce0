package cpu

// preferHugePages does nothing: macOS chooses its page sizes itself.
func preferHugePages([]byte) {}
