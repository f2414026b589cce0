package driver

import (
	"fmt"
	"time"
)

// Timeout is how long a call of the driver may take where nothing else was chosen. The longest that are right compile
// all kernels, in some tens of seconds.
const Timeout = 10 * time.Minute

// Silence is the error of a GPU that has not answered for so long: a call of its driver has not come back, and may
// never do.
type Silence struct {
	For time.Duration
	At  string // what the GPU was at: the kernels that it was given since it last answered
}

func (e *Silence) Error() string {
	return fmt.Sprintf("the GPU has not answered for %v: it is at %s; if it may take so long, set device.timeout to "+
		"more seconds; if not, see what the driver says (dmesg, Xid), and VSETRAIN_KERNELS=base in the environment "+
		"leaves out the kernels whose blocks wait for each other", e.For, e.At)
}

// Within returns what f returns, which calls the driver, or a Silence where f has not ended in time. f runs in its own
// goroutine, which is left behind then: it must touch nothing that anybody still uses.
func Within[T any](limit time.Duration, at string, f func() (T, error)) (result T, err error) {
	type answer struct {
		result T
		err    error
	}
	ended := make(chan answer, 1)
	go func() {
		var a answer
		a.result, a.err = f()
		ended <- a
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case a := <-ended:
		return a.result, a.err
	case <-timer.C:
		return result, &Silence{limit, at}
	}
}
