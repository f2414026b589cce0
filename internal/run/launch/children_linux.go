package launch

import (
	"os/exec"
	"syscall"
)

// dieWithParent has the system kill a process when the thread that starts it ends.
func dieWithParent(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
