//go:build !unix

package process

// Alive cannot tell here and returns true.
func Alive(int) bool { return true }
