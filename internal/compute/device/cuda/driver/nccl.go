package driver

import "fmt"

// NCCL is NVIDIA's library of collectives between GPUs, of version 2.14 or later.
//
// Reference: NVIDIA, "NCCL Documentation", https://docs.nvidia.com/deeplearning/nccl.
type NCCL interface {
	Path() string
	// Version is 22105 for 2.21.5.
	Version() int
	// NewID makes what the ranks of a job find each other by. It opens a port of this machine.
	NewID() (NCCLID, error)
	// Join makes this process a rank of a job, with the GPU whose context is current, and waits for the others.
	Join(id NCCLID, rank, ranks int) (Communicator, error)
}

// NCCLID is ncclUniqueId.
type NCCLID struct{ Internal [128]byte }

// Communicator is a job of several ranks. All of them call the same collectives in the same order, which take their
// turn in a stream, on the thread of the context. x, src and dst are float32, and with half bfloat16, which sums are
// rounded to as often as NCCL adds.
type Communicator interface {
	// AllReduce sets x to the sum of x of all ranks.
	AllReduce(x Ptr, n int, s Stream) error
	// Broadcast sets x to the value of rank root.
	Broadcast(x Ptr, n, root int, s Stream) error
	// Reduce sets dst of rank root to the sum of src of all ranks.
	Reduce(dst, src Ptr, n, root int, half bool, s Stream) error
	// AllGather sets piece r of dst to src, of n values, of rank r.
	AllGather(dst, src Ptr, n int, s Stream) error
	// ReduceScatter sets dst, of n values, to piece r of the sum of src of all ranks, r being this one.
	ReduceScatter(dst, src Ptr, n int, half bool, s Stream) error
	// Failure is what went wrong after the calls so far: another rank is gone. Any thread may ask.
	Failure() error
	// Abort ends the collectives that wait for other ranks, on any thread. What they were to write is anything, and
	// all that follow are errors.
	Abort() error
	Aborted() bool
	// Close releases the communicator.
	Close() error
}

// oldestNCCL is the version that a library has at least.
const oldestNCCL = 21400

// VersionOfNCCL writes the version of NCCL: 2.21.5 for 22105.
func VersionOfNCCL(v int) string { return fmt.Sprintf("%d.%d.%d", v/10000, v/100%100, v%100) }

// ncclVariables are variables of the environment that the library reads when it is loaded. Without
// NCCL_RUNTIME_CONNECT=0 some connections are made by the first collective that needs them, and without
// NCCL_GRAPH_REGISTER=0 a recording tells the other ranks where its memory is, though they may not record: neither is
// possible in a recording. The others are for equal bits: NVLink's sums in the switch differ from call to call, and the
// fastest algorithm is another one for every size.
var ncclVariables = []struct {
	name, value string
	fixed       bool // it serves fixed sums alone
}{{"NCCL_RUNTIME_CONNECT", "0", false}, {"NCCL_GRAPH_REGISTER", "0", false}, {"NCCL_NVLS_ENABLE", "0", true},
	{"NCCL_ALGO", "Ring", true}, {"NCCL_PROTO", "Simple", true}}

// setNCCL sets what the library reads of the environment, where the user has not. fast leaves the choice of algorithms
// to the library.
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
