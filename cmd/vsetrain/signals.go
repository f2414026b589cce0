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

// stopSignals are the signals at which a command saves its state and stops: Ctrl-C and SIGTERM; on Unix also SIGUSR1,
// which batch systems send before they end a job, and SIGHUP, when the terminal closes, unless it is ignored (nohup).
func stopSignals() []os.Signal {
	all := append([]os.Signal{syscall.SIGINT, syscall.SIGTERM}, batchSignals...)
	if hangup != nil && !signal.Ignored(hangup) {
		all = append(all, hangup)
	}
	return all
}

// interruptible returns a context that a signal to stop cancels. A second signal ends the program at once; files stay
// whole.
func interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(ctx, stopSignals()...)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// saving is interruptible for a command that saves its state. A closed pipe at its output, as in train | head, counts
// as a signal. A further Ctrl-C calls abandon, which reports what is not saved, and ends the program. Other further
// signals, such as a second SIGHUP from a closed terminal, are ignored.
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

// pipeWriter calls closed when the reader of the pipe has gone.
type pipeWriter struct {
	io.Writer
	closed func()
}

func (w *pipeWriter) Write(b []byte) (int, error) {
	n, err := w.Writer.Write(b)
	if slices.ContainsFunc(errClosedPipe, func(e error) bool { return errors.Is(err, e) }) {
		w.closed()
	}
	return n, err
}
