// Package inputs opens the files that a configuration names: the data set, its vocabulary and its semantic vectors. It
// also finds the files of an earlier run whose relative paths were written in another working directory.
package inputs
