//go:build !linux

package process

// Machine returns "": it is unknown here.
func Machine() string { return "" }
