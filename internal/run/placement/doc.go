// Package placement chooses the device of a run and decides what stays in its memory: the network, the state of the
// optimizer, and as much of the data set as fits.
package placement
