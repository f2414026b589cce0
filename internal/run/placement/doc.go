// Package placement chooses the device of a run and puts on it what the run computes with: the network, the state of
// its optimiser, and of the data set what memory has room for.
package placement
