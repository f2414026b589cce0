// Package training turns a configuration into a training that runs: it puts the data, the network and the loop of
// package train on a device, and connects them with the directory that the run is kept in. A session of a run is one
// process that works on it. Commands call it; it prints nothing.
package training
