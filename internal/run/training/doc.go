// Package training runs the training that a configuration describes. It puts the data, the network and the loop of
// package train on a device, and connects them with the run directory. A session is one process that works on a run.
// Commands call this package; it prints nothing.
package training
