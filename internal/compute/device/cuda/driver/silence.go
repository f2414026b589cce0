package driver

import (
	"fmt"
	"time"
)

// Timeout is the default of how long a call of the driver may take. The longest calls compile all kernels, in some tens
// of seconds.
const Timeout = 10 * time.Minute

// Silence is the error of a GPU that does not answer: a call of its driver has not returned, and may never return.
type Silence struct {
	For time.Duration
	At  string // the work that the GPU got since it last answered
}

func (e *Silence) Error() string {
	return fmt.Sprintf("the GPU has not answered for %v: it is at %s; if it may take so long, set device.timeout to "+
		"more seconds; otherwise look for an Xid error of the driver in dmesg, and set VSETRAIN_KERNELS=base in the "+
		"environment to avoid kernels whose blocks wait for each other", e.For, e.At)
}

// Within calls f, which calls the driver, and returns its result, or a Silence if f does not return in time. f runs in
// its own goroutine, which then goes on: f must not use anything that the caller still uses.
func Within[T any](limit time.Duration, at string, f func() (T, error)) (result T, err error) {
	type answer struct {
		result T
		err    error
	}
	ended := make(chan answer, 1)
	go func() {
		result, err := f()
		ended <- answer{result, err}
	}()
	select {
	case a := <-ended:
		return a.result, a.err
	case <-time.After(limit):
		return result, &Silence{limit, at}
	}
}
