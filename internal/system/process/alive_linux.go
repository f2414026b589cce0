package process

import (
	"bytes"
	"fmt"
	"os"
)

// Alive reports whether a process of this machine runs: it exists and is not a zombie.
func Alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if os.IsNotExist(err) {
		return false
	}
	i := bytes.LastIndexByte(b, ')') // "12 (name) S ..."
	return i < 0 || i+2 >= len(b) || b[i+2] != 'Z' && b[i+2] != 'X'
}
