//go:build !linux || !(amd64 || arm64) || nodl

package mpi

import "errors"

// World is a library and the processes of a job; here there is none.
type World struct {
	Kind        Kind
	Version     string
	Rank, Ranks int
}

// Float is a value that MPI adds.
type Float interface{ float32 | float64 }

var errNone = errors.New("this build calls no MPI; use the one for Linux with glibc (docs/faq.md)")

// Load fails here, as does every other call.
func Load(string) (*World, error) { return nil, errNone }

// Init fails here.
func (*World) Init() error { return errNone }

// AllReduce fails here.
func AllReduce[T Float](*World, []T) error { return errNone }

// Broadcast fails here.
func Broadcast[T Float](*World, []T, int) error { return errNone }

// AllGather fails here.
func AllGather[T Float](*World, []T, []T) error { return errNone }

// ReduceScatter fails here.
func ReduceScatter[T Float](*World, []T, []T) error { return errNone }

// AllToAll fails here.
func AllToAll[T Float](*World, []T, []T) error { return errNone }

// Wait fails here.
func (*World) Wait() error { return errNone }

// Finalize fails here.
func (*World) Finalize() error { return errNone }

// Bootstrap fails here.
func Bootstrap(int, []string, func([]byte) ([][]byte, error)) error { return errNone }
