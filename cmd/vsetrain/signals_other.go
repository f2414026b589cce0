//go:build !unix

package main

import "os"

var (
	batchSignals []os.Signal

	hangup, brokenPipe os.Signal
)

func checkLimits() error { return nil }
