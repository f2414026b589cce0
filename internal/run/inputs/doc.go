// Package inputs opens the files that a configuration names: the data set, its vocabulary and its semantic vectors. It
// finds the files of an earlier run again, whose relative paths are seen from elsewhere.
package inputs
