//go:build !amd64

package philox

func (k Key) fill([]uint32, uint64, uint64) int { return 0 }
