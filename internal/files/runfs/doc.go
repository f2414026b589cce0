// Package runfs keeps a run directory safe.
//
//	config.yaml          resolved configuration
//	env.json             versions, machine and command line of every session
//	metrics.jsonl        one object per logged step and per validation
//	checkpoints/         last and best
//	.lock                held by the process that writes here
//
// Whole files are replaced all or nothing (package atomicfile). Lines are appended (Log) and a torn last line is cut
// off when the log is opened again. One process at a time may write (Dir); the lock is the kernel's and falls with its
// owner.
package runfs
