package sweep

import (
	"bytes"
	"fmt"
	"os"
)

// alive reports whether a process of this machine exists and is no zombie, which nobody has asked about since it ended.
func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if os.IsNotExist(err) {
		return false
	}
	i := bytes.LastIndexByte(b, ')') // "12 (name) S ..."
	return i < 0 || i+2 >= len(b) || b[i+2] != 'Z' && b[i+2] != 'X'
}
