// Package experiment turns a configuration into running work: it opens the device, the data set, the vocabulary and the
// model, and connects the training loop with its run directory. Commands call it; it prints nothing.
// It stands between package train, which knows batches and scores but no folders, and the commands, which print.
package experiment
