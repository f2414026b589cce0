//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// group begins a group of processes with a command, and returns what kills all of them.
func group(cmd *exec.Cmd) func() error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
