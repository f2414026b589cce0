package ranks

import (
	"fmt"

	"vsetrain/internal/system/mpi"
)

// OverMPI is the world of MPI. The goroutine that started it makes all calls.
func OverMPI(w *mpi.World) World { return overMPI{w} }

type overMPI struct{ world *mpi.World }

func (w overMPI) Rank() (rank, ranks int) { return w.world.Rank, w.world.Ranks }

func (w overMPI) AllReduce(x any) error {
	switch x := x.(type) {
	case []float32:
		return mpi.AllReduce(w.world, x)
	case []float64:
		return mpi.AllReduce(w.world, x)
	}
	return unknown(x)
}

func (w overMPI) AllGather(dst, src any) error {
	switch src := src.(type) {
	case []float32:
		return mpi.AllGather(w.world, dst.([]float32), src)
	case []float64:
		return mpi.AllGather(w.world, dst.([]float64), src)
	}
	return unknown(src)
}

func (w overMPI) ReduceScatter(dst, src any) error {
	switch src := src.(type) {
	case []float32:
		return mpi.ReduceScatter(w.world, dst.([]float32), src)
	case []float64:
		return mpi.ReduceScatter(w.world, dst.([]float64), src)
	}
	return unknown(src)
}

func (w overMPI) AllToAll(dst, src []float32) error { return mpi.AllToAll(w.world, dst, src) }

func (w overMPI) Broadcast(x any, root int) error {
	switch x := x.(type) {
	case []float32:
		return mpi.Broadcast(w.world, x, root)
	case []float64:
		return mpi.Broadcast(w.world, x, root)
	}
	return unknown(x)
}

func (w overMPI) Wait() error { return w.world.Wait() }

func unknown(x any) error { return fmt.Errorf("collectives of %T", x) }
