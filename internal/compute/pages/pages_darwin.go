package pages

// preferHugePages does nothing: macOS chooses its page sizes itself.
func preferHugePages([]byte) {}
