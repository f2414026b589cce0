//go:build !linux || !(amd64 || arm64) || nodl

package mpi

import "errors"

// World is a library and the processes of a job; here there is none.
type World struct {
	Kind    Kind
	Version string
}

var errNone = errors.New("this build calls no MPI; use the one for Linux with glibc (docs/faq.md)")

// Load fails here, as does every other call.
func Load(string) (*World, error) { return nil, errNone }

// Bootstrap fails here.
func Bootstrap(int, []string, func([]byte) ([][]byte, error)) error { return errNone }

// Rank is 0 of 0.
func (*World) Rank() (rank, ranks int) { return 0, 0 }

// Init, AllReduce, Broadcast, AllGather, ReduceScatter, AllToAll, Wait and Finalize fail here.
func (*World) Init() error { return errNone }

func (*World) AllReduce(any) error { return errNone }

func (*World) Broadcast(any, int) error { return errNone }

func (*World) AllGather(_, _ any) error { return errNone }

func (*World) ReduceScatter(_, _ any) error { return errNone }

func (*World) AllToAll(_, _ []float32) error { return errNone }

func (*World) Wait() error { return errNone }

func (*World) Finalize() error { return errNone }
