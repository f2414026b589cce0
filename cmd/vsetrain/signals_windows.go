package main

import (
	"os"

	"golang.org/x/sys/windows"
)

// Go reports Ctrl-C and Ctrl-Break as SIGINT, and a closed window, the end of a session and a shutdown as SIGTERM.
var (
	batchSignals []os.Signal

	hangup, brokenPipe os.Signal

	errClosedPipe = []error{windows.ERROR_BROKEN_PIPE, windows.ERROR_NO_DATA}
)

func checkLimits() error { return nil }
