package runfs

import (
	"errors"
	"fmt"

	"vsetrain/internal/files/atomicfile"
)

// ErrLocked is the kind of the error for a directory that another process holds.
var ErrLocked = errors.New("in use")

// wrap adds to err the operation, the path and, if the cause is known, the remedy for a run directory.
func wrap(op, path string, err error) error {
	err = atomicfile.Explain(op, path, err)
	if e, ok := errors.AsType[*atomicfile.Error](err); ok {
		switch e.Kind {
		case atomicfile.ErrDiskFull:
			e.Remedy = "free space and resume"
		case atomicfile.ErrReadOnly:
			e.Remedy = "choose another run directory with --run DIR or make this one writable"
		}
	}
	return err
}

// lockedError returns an error that names the process that holds the lock.
func lockedError(path, instead string, holder Owner) *atomicfile.Error {
	who := "another process"
	if holder.PID > 0 {
		who = fmt.Sprintf("process %d on %s, since %s", holder.PID, holder.Host,
			holder.Since.Format("2006-01-02 15:04:05"))
	}
	return &atomicfile.Error{Op: "lock", Path: path, Kind: ErrLocked,
		Remedy: fmt.Sprintf("it is held by %s: end that process or %s", who, instead)}
}
