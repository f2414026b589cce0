// Package runfs keeps a run directory safe.
//
//	config.yaml          resolved configuration
//	env.json             versions, machine and command line of every session
//	metrics.jsonl        one object per logged step and per validation
//	checkpoints/         last and best
//	.lock                held by the process that writes here
//
// Whole files are replaced all or nothing (package atomicfile). Lines are appended (Log), and opening the log again
// cuts off a torn last line. One process at a time may write (Dir): it holds a lock, which the kernel releases when the
// process ends.
package runfs
