// Package train trains a network: Step does one step on a batch (forward pass, loss, backward pass, clipping, update),
// and Loop repeats it over epochs, validates, and writes checkpoints. The state of a run is its parameters, the moments
// of the optimiser and a Position, from which it resumes to the same bits.
//
// Package train knows batches and scores, but no files: hooks write them (internal/run/training).
package train
