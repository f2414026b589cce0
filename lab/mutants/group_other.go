//go:build !unix

package main

import "os/exec"

// group returns what kills a command; its children are left alone.
func group(cmd *exec.Cmd) func() error { return func() error { return cmd.Process.Kill() } }
