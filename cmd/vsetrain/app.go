package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"vsetrain/cmd/vsetrain/internal/flags"
	"vsetrain/cmd/vsetrain/internal/ui"
	"vsetrain/internal/apps/sweep"
	"vsetrain/internal/files/regular"
	"vsetrain/internal/files/runfs"
	"vsetrain/internal/run/config"
)

// Exit codes.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2 // wrong command line or configuration
	// A signal or a closed pipe ended the command, which saved its state; the same command continues.
	exitInterrupted = sweep.ExitInterrupted
	// A signal ended a command that saves no state, or a second Ctrl-C one that does: the shell's code for SIGINT.
	exitCtrlC = 130
)

// app gives commands access to the outside world.
type app struct {
	*ui.Streams
	Environ []string // "NAME=value"
	started bool     // a command accepted its arguments and runs

	unlocked sync.Once // the warning of noLocks

	// runF, if set, receives the options of a command instead of running it.
	runF func(command) error
}

// run executes a command line, prints its error once, and returns the exit code.
func (a *app) run(args []string) int {
	out := ui.NewOutput(a.Out)
	a.Out = out
	root := a.root(args)
	cmd, err := misspelt(root, args)
	if err == nil {
		cmd, err = root.ExecuteC()
	}
	if err == nil {
		a.started = true
		err = out.Err("standard output")
	}
	text, code := messageOf(err), exitFailure
	var usage *usageError
	var bad *config.Error
	var mistake *config.Mistake
	var coded *codedError
	var logged *loggedError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &logged):
		return exitFailure
	case errors.As(err, &coded):
		code = coded.code
	case errors.Is(err, context.Canceled): // only signals cancel contexts
		text, code = "interrupted", exitCtrlC
	case errors.As(err, &bad), errors.As(err, &mistake):
		code = exitUsage
	case errors.As(err, &usage), !a.started:
		text, code = text+"\nsee "+cmd.CommandPath()+" --help", exitUsage
	}
	a.Errorf("%s", text)
	return code
}

// messageOf returns the message of an error. For a path that does not exist it says where the path was looked for and
// which path may be meant, without the name of a system call.
func messageOf(err error) string {
	if err == nil {
		return ""
	}
	text := err.Error()
	if e, ok := errors.AsType[*fs.PathError](err); ok && errors.Is(e.Err, fs.ErrNotExist) &&
		slices.Contains([]string{"open", "stat", "lstat", "CreateFile", "GetFileAttributesEx"}, e.Op) {
		text = strings.Replace(text, e.Error(), regular.Missing{Path: e.Path}.Error(), 1)
	}
	return text
}

// root returns the program for a command line.
func (a *app) root(args []string) *cobra.Command {
	root := newCmdRoot(a)
	root.SetArgs(args)
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	return root
}

// loggedError is an error that is in the log already.
type loggedError struct{ error }

// usageError is an error of the command line.
type usageError struct{ error }

func usagef(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// asUsage makes an error a usageError, and keeps nil.
func asUsage(err error) error {
	if err == nil {
		return nil
	}
	return &usageError{err}
}

// command is the options of a command, with the values of its arguments and flags.
type command interface {
	run(ctx context.Context, a *app) error
}

// command returns a command whose flags and arguments are declared by the tags of its options (package flags).
func (a *app) command(o command, c *cobra.Command, words ...flags.Words) *cobra.Command {
	set := flags.Add(c, o, words...)
	switch x := o.(type) {
	case interface{ extend(*cobra.Command) }:
		x.extend(c)
	case interface {
		arguments(*cobra.Command, []string) error
	}:
		c.Args = x.arguments
	default:
		c.Args = set.Args(noArgs)
	}
	c.PreRunE = func(*cobra.Command, []string) error { return asUsage(set.Check()) }
	c.RunE = func(c *cobra.Command, _ []string) error {
		if o, ok := o.(interface{ check(*app) error }); ok {
			if err := o.check(a); err != nil {
				return err
			}
		}
		if a.runF != nil {
			return a.runF(o)
		}
		if p, ok := o.(interface {
			profiled(run func() error) error
		}); ok {
			return p.profiled(func() error { return o.run(c.Context(), a) })
		}
		return o.run(c.Context(), a)
	}
	return c
}

// watch makes every command below c record that its arguments were accepted: errors before are usage errors.
func (a *app) watch(c *cobra.Command) {
	for _, sub := range c.Commands() {
		a.watch(sub)
	}
	if run := c.RunE; run != nil {
		c.RunE = func(cmd *cobra.Command, args []string) error {
			a.started = true
			if a.Quiet && a.Verbose {
				return usagef("--quiet and --verbose cannot be used together; leave one out")
			}
			switch v := a.getenv(runfs.LockVariable); v {
			case "", runfs.LockOn:
			case runfs.LockOff:
				a.noLocks()
			default:
				return usagef("%s: expected %s or %s, found %q", runfs.LockVariable, runfs.LockOn, runfs.LockOff, v)
			}
			return run(cmd, args)
		}
	}
}

// noLocks makes runs write without locks (run.lock), with one warning.
func (a *app) noLocks() {
	runfs.NoLocks(func(path string) {
		a.unlocked.Do(func() {
			a.warn(fmt.Errorf("%s is written without a lock (run.lock is off): a second process that writes there at "+
				"the same time would damage it unnoticed", path))
		})
	})
}

// group makes c a command that only has subcommands: alone it prints its help.
func group(c *cobra.Command, subs ...*cobra.Command) *cobra.Command {
	c.AddCommand(subs...)
	c.Args = cobra.ArbitraryArgs
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return c.Help()
		}
		return unknownCommand(c, args[0])
	}
	return c
}

// getenv returns a variable of the environment, "" if it is not set.
func (a *app) getenv(name string) string {
	for _, e := range a.Environ {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			return v
		}
	}
	return ""
}

func (a *app) warn(err error) { a.Warnf("%v", err) }

// phases shows a progress bar for each phase of a job.
type phases struct {
	app  *app
	name string
	bar  *ui.Progress
}

// show reports that done of total parts of a phase are finished.
func (s *phases) show(phase string, done, total int) {
	if s.bar == nil || phase != s.name {
		s.close()
		// The parts that are finished at the first call do not count for the speed.
		s.name, s.bar = phase, s.app.NewProgress(phase, int64(done), int64(total))
	}
	s.bar.Set(int64(done), "")
}

func (s *phases) close() {
	s.bar.Close()
	s.bar = nil
}
