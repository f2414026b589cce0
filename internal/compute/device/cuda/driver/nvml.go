package driver

import "fmt"

// State is the state of a GPU according to NVML. A value that the GPU does not report, as parts of a divided GPU do
// not, is -1.
type State struct {
	Used, Total int64 // bytes of memory, of all processes
	Busy        int   // per cent of the last period, up to a second, in which a kernel ran
	Celsius     int
	Milliwatts  int
}

// Process is a process that computes on a GPU.
type Process struct {
	ID   int
	Used int64 // bytes of memory; -1 if unknown
}

// Monitor reads the state of one GPU through NVIDIA's management library (NVML). It needs no context. One goroutine at
// a time may use it, on any thread.
//
// Reference: NVIDIA, "NVML API Reference", https://docs.nvidia.com/deploy/nvml-api.
type Monitor interface {
	State() (State, error)
	// Processes returns the processes with a context on the GPU that the caller may see, itself included. Their ids are
	// the host's, also in a container, so a process cannot tell which one it is.
	Processes() ([]Process, error)
	// Driver returns the version of the driver: 580.159.03.
	Driver() (string, error)
	Close() error
}

// nvmlError names the error codes of NVML that a monitor may get.
func nvmlError(code int) string {
	names := map[int]string{1: "not initialised", 2: "invalid argument", 3: "not supported by this GPU",
		4: "no permission", 6: "not found", 9: "the driver is not loaded", 12: "the library is missing",
		13: "it needs a newer driver", codeNVMLLost: "the GPU is lost",
		18: "library and driver are of different versions", 999: "unknown"}
	if n := names[code]; n != "" {
		return n
	}
	return fmt.Sprintf("status %d", code)
}

// The values of nvmlReturn_t that a monitor distinguishes.
const (
	codeNVMLTooSmall = 7
	codeNVMLLost     = 15
)
