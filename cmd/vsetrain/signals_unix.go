//go:build unix

package main

import (
	"os"
	"syscall"
)

var batchSignals = []os.Signal{syscall.SIGUSR1}
