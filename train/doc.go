// Package train trains a network. Step does one step on a batch: forward pass, loss, backward pass, clipping and
// update. Loop repeats it over epochs, validates, and writes checkpoints. The state of a run consists of the
// parameters, the moments of the optimiser and a Position. A run that resumes from its state continues to the same
// bits.
//
// Package train writes no files; hooks do (internal/run/training).
package train
