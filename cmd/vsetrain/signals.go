package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// interruptible returns a context that ends with the signals after which a command saves what it can and stops: Ctrl-C, SIGTERM and, where there
// is one, SIGUSR1, which batch systems send some time before they end a job. A second one ends the program at once; what is on disk stays whole.
func interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(ctx, append([]os.Signal{syscall.SIGINT, syscall.SIGTERM}, batchSignals...)...)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}
