//go:build !linux

package process

// Machine is not known here and returns "".
func Machine() string { return "" }
