package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

// stopSignals are those after which a command saves what it can and stops: Ctrl-C, SIGTERM and, where there are such,
// SIGUSR1, which batch systems send some time before they end a job, and SIGHUP, of a terminal that is closed, unless
// nohup has it ignored.
func stopSignals() []os.Signal {
	all := append([]os.Signal{syscall.SIGINT, syscall.SIGTERM}, batchSignals...)
	if hangup != nil && !signal.Ignored(hangup) {
		all = append(all, hangup)
	}
	return all
}

// interruptible returns a context that ends with a signal to stop. A second one ends the program at once; what is on
// disk stays whole.
func interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(ctx, stopSignals()...)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// saving is interruptible for a command that saves its state. A closed pipe at its output, as in train | head, is like
// a signal. A further Ctrl-C calls abandon, which says what is not saved, and ends the program; other further signals,
// such as the second SIGHUP of a terminal that is closed, leave it time to save.
func (a *app) saving(ctx context.Context, abandon func()) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, stopSignals()...)
	go func() {
		<-signals
		cancel()
		for s := range signals {
			if s == os.Interrupt {
				abandon()
				os.Exit(exitCtrlC)
			}
		}
	}()
	if brokenPipe != nil { // otherwise the first write to a closed pipe ends the program
		signal.Notify(make(chan os.Signal, 1), brokenPipe)
	}
	a.Out, a.Err = &pipeWriter{Writer: a.Out, closed: cancel}, &pipeWriter{Writer: a.Err, closed: cancel}
	return ctx, func() {
		signal.Stop(signals)
		cancel()
	}
}

// pipeWriter calls closed when nobody reads any more.
type pipeWriter struct {
	io.Writer
	closed func()
}

// Write implements io.Writer.
func (w *pipeWriter) Write(b []byte) (int, error) {
	n, err := w.Writer.Write(b)
	if slices.ContainsFunc(errClosedPipe, func(e error) bool { return errors.Is(err, e) }) {
		w.closed()
	}
	return n, err
}
