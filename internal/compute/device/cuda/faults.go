package cuda

import (
	"cmp"
	"fmt"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda/driver"
)

// A GPU tells of a fault when it is spoken to next, which may be long after the kernel was started. A faultRange says
// between which two pieces of work the fault lies: the first one since the host last saw all work done, and the last
// one.
type faultRange struct {
	first, last origin
	behind      [device.FetchSlots]origin // the first work after the results that a slot waits for
}

// origin is a piece of work that was given to the GPU.
type origin struct {
	kind     commandKind
	function *function
	at       string
	known    bool
}

// begin notes a command that is given to the GPU now.
func (t *faultRange) begin(c *command) {
	if c.kind != commandLaunch && c.kind != commandProduct && c.kind != commandReplay && c.kind < commandAllReduce {
		return
	}
	t.last = origin{c.kind, c.function, c.at, true}
	if !t.first.known {
		t.first = t.last
	}
	for i := range t.behind {
		if !t.behind[i].known {
			t.behind[i] = t.last
		}
	}
}

// end notes what a command that came back without an error says of the work before.
func (t *faultRange) end(c *command) {
	switch c.kind {
	case commandSync, commandDownload:
		*t = faultRange{}
	case commandSignal:
		t.behind[c.slot] = origin{}
	case commandAwait:
		t.first = t.behind[c.slot]
	}
}

// where says what the GPU may be working on.
func (t *faultRange) where() string {
	switch {
	case !t.first.known:
		return "no kernel: the driver may be compiling some"
	case t.first == t.last:
		return t.last.String()
	}
	return fmt.Sprintf("work from %v to %v", &t.first, &t.last)
}

func (o *origin) name() string {
	switch {
	case o.kind == commandLaunch:
		return "kernel " + o.function.Name
	case o.kind >= commandAllReduce:
		return collectiveNames[o.kind-commandAllReduce] + " of all ranks"
	}
	return "a product of cuBLAS"
}

func (o *origin) String() string {
	if o.kind == commandReplay {
		return recorded(o.at)
	}
	return o.name() + in(o.at)
}

// in is the part of a message that names a node.
func in(at string) string {
	if at == "" {
		return ""
	}
	return " in " + at
}

func recorded(at string) string {
	at = cmp.Or(at, "kernels")
	return "recorded " + at
}

// describe names what failed: a kernel with its grid, a product with its sizes, the node with the shapes of its
// tensors; and where a GPU reports the fault of earlier work, which work that may have been.
func (q *queue) describe(c *command, err error) error {
	var what string
	switch c.kind {
	case commandLaunch:
		what = fmt.Sprintf("kernel %s on a grid of %d blocks of %d threads%s", c.function.Name, c.launch.Grid,
			c.launch.Threads, in(c.at))
	case commandProduct:
		what = fmt.Sprintf("product of %d x %d x %d%s", c.product.M, c.product.N, c.product.K, in(c.at))
	case commandReplay:
		what = recorded(c.at)
	case commandAllReduce, commandBroadcast, commandReduce, commandAllGather, commandReduceScatter:
		what = fmt.Sprintf("%s of %d values%s", collectiveNames[c.kind-commandAllReduce], c.bytes/4, in(c.at))
	default:
		if !driver.Fault(err) {
			return err
		}
		what = "the GPU failed at work given to it before"
	}
	t := &q.faults
	hint, replayed := "", t.first.kind == commandReplay || t.last.kind == commandReplay
	switch {
	case !driver.Fault(err) || !t.first.known:
	case t.first == t.last && c.kind != commandLaunch && c.kind != commandProduct && c.kind != commandReplay:
		what = fmt.Sprintf("the GPU failed at %v", &t.last)
	case t.first == t.last:
	case t.first.at == t.last.at && t.first.at != "":
		hint = fmt.Sprintf("; a GPU reports faults late: it was work in %s, from %s to %s", t.first.at, t.first.name(),
			t.last.name())
	default:
		hint = fmt.Sprintf("; a GPU reports faults late: it was work from %v to %v", &t.first, &t.last)
	}
	switch {
	case replayed && driver.Fault(err):
		hint += "; device.capture: never starts every kernel by itself, and with CUDA_LAUNCH_BLOCKING=1 in the " +
			"environment the error names the kernel and its node"
	case hint != "":
		hint += "; CUDA_LAUNCH_BLOCKING=1 in the environment has the kernel named for certain"
	}
	return fmt.Errorf("%s: %w%s", what, err, hint)
}
