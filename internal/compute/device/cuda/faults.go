package cuda

import (
	"cmp"
	"fmt"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda/driver"
)

// faultRange is the range of work that contains a fault. A GPU reports a fault at the next call, which may come long
// after the launch. The range begins with the first work since the host last saw all work done, and ends with the last
// work.
type faultRange struct {
	first, last origin
	after       [device.FetchSlots]origin // the first work after the results of a slot
}

// origin is a piece of work of the GPU.
type origin struct {
	kind     commandKind
	function *function
	at       string
	known    bool
}

// begin notes a command that the GPU gets now.
func (t *faultRange) begin(c *command) {
	if c.kind != commandLaunch && c.kind != commandProduct && c.kind != commandReplay && c.kind < commandAllReduce {
		return
	}
	t.last = origin{c.kind, c.function, c.at, true}
	if !t.first.known {
		t.first = t.last
	}
	for i := range t.after {
		if !t.after[i].known {
			t.after[i] = t.last
		}
	}
}

// end notes which earlier work is done after a command without an error.
func (t *faultRange) end(c *command) {
	switch c.kind {
	case commandSync, commandDownload:
		*t = faultRange{}
	case commandSignal:
		t.after[c.slot] = origin{}
	case commandAwait:
		t.first = t.after[c.slot]
	}
}

// where names the work that the GPU may be doing.
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

func recorded(at string) string { return "recorded " + cmp.Or(at, "kernels") }

// describe names what failed: a kernel with its grid or a product with its sizes, and the node with the shapes of its
// tensors. For a fault of earlier work, it names the work in question.
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
		what = "the GPU failed at earlier work"
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
		hint += "; with device.capture: never and CUDA_LAUNCH_BLOCKING=1 in the environment, the error names the " +
			"kernel and its node"
	case hint != "":
		hint += "; with CUDA_LAUNCH_BLOCKING=1 in the environment, the error names the kernel"
	}
	return fmt.Errorf("%s: %w%s", what, err, hint)
}
