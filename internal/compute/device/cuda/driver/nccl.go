package driver

import "fmt"

// NCCL is NVIDIA's library of collectives between GPUs, of version 2.14 or later.
//
// Reference: NVIDIA, "NCCL Documentation", https://docs.nvidia.com/deeplearning/nccl.
type NCCL interface {
	// Version is 22105 for 2.21.5.
	Version() int
	// NewID makes the id by which the ranks of a job find each other. It opens a port of this machine.
	NewID() (NCCLID, error)
	// Join makes this process a rank of a job, with the GPU whose context is current, and waits for the other ranks.
	Join(id NCCLID, rank, ranks int) (Communicator, error)
}

// NCCLID is ncclUniqueId.
type NCCLID struct{ Internal [128]byte }

// Communicator is a job of several ranks. All ranks call the same collectives in the same order, on the thread of the
// context; a collective is work of a stream. x, src and dst are float32, or with half bfloat16: every addition of NCCL
// then rounds to bfloat16.
type Communicator interface {
	// AllReduce sets x to the sum of x of all ranks.
	AllReduce(x Ptr, n int, s Stream) error
	// Broadcast sets x to the value of rank root.
	Broadcast(x Ptr, n, root int, s Stream) error
	// Reduce sets dst of rank root to the sum of src of all ranks.
	Reduce(dst, src Ptr, n, root int, half bool, s Stream) error
	// AllGather sets piece r of dst to the n values src of rank r.
	AllGather(dst, src Ptr, n int, s Stream) error
	// ReduceScatter sums src of all ranks and sets dst, n values, to this rank's piece of the sum.
	ReduceScatter(dst, src Ptr, n int, half bool, s Stream) error
	// Failure is an error that NCCL found after a call: another rank is gone. Any thread may call it.
	Failure() error
	// Abort ends the collectives that wait for other ranks. Their results are undefined, and later collectives fail.
	// Any thread may call it.
	Abort() error
	Aborted() bool
	// Close releases the communicator.
	Close() error
}

// oldestNCCL is the oldest version that is supported.
const oldestNCCL = 21400

// VersionOfNCCL formats the version of NCCL: 2.21.5 for 22105.
func VersionOfNCCL(v int) string { return fmt.Sprintf("%d.%d.%d", v/10000, v/100%100, v%100) }

// ncclVariables are environment variables that the library reads when it is loaded. NCCL_RUNTIME_CONNECT=0 makes all
// connections when ranks join, and NCCL_GRAPH_REGISTER=0 exchanges no addresses: neither is possible in a recording,
// because other ranks may not be recording. The others are for equal bits: sums in NVLink switches differ from call to
// call, and the fastest algorithm depends on the size.
var ncclVariables = []struct {
	name, value string
	fixed       bool // only for sums in a fixed order
}{{"NCCL_RUNTIME_CONNECT", "0", false}, {"NCCL_GRAPH_REGISTER", "0", false}, {"NCCL_NVLS_ENABLE", "0", true},
	{"NCCL_ALGO", "Ring", true}, {"NCCL_PROTO", "Simple", true}}

// setNCCL sets the variables that the user has not set. With fast, the library chooses its algorithms.
func setNCCL(fast bool, lookup func(string) (string, bool), setenv func(name, value string) error) error {
	for _, v := range ncclVariables {
		if _, set := lookup(v.name); set || v.fixed && fast {
			continue
		}
		if err := setenv(v.name, v.value); err != nil {
			return err
		}
	}
	return nil
}
