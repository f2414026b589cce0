package driver

import "fmt"

// State is what NVIDIA's management library says of a GPU at this moment. A number that the GPU does not tell, as parts
// of a divided one do not, is -1.
type State struct {
	Used, Total int64 // bytes of memory, of all processes
	Busy        int   // per cent of the last moment, up to a second, in which a kernel ran
	Celsius     int
	Milliwatts  int
}

// Process is one that computes on a GPU.
type Process struct {
	ID   int
	Used int64 // bytes of memory; -1 where it is not known
}

// Monitor reads the state of one GPU through NVIDIA's management library (NVML). It needs no context, and may be used
// on any thread, by one goroutine at a time.
//
// Reference: NVIDIA, "NVML API Reference", https://docs.nvidia.com/deploy/nvml-api.
type Monitor interface {
	State() (State, error)
	// Processes are those with a context on the GPU that the caller may see, this one too where it has one. Their
	// numbers are the numbers of the host, also in a container, so a process cannot tell which of them is itself.
	Processes() ([]Process, error)
	// Driver is the version of the driver: 580.159.03.
	Driver() (string, error)
	Close() error
}

// nvmlError names the error codes of NVML that a monitor meets.
func nvmlError(code int) string {
	names := map[int]string{1: "not initialised", 2: "invalid argument", 4: "no permission", 6: "not found",
		9: "the driver is not loaded", 12: "the library is missing", 13: "it needs a newer driver",
		18: "library and driver are of different versions", 999: "unknown"}
	names[codeNVMLNotSupported], names[codeNVMLLost] = "not supported by this GPU", "the GPU is lost"
	if n := names[code]; n != "" {
		return n
	}
	return fmt.Sprintf("status %d", code)
}

// The values of nvmlReturn_t that a monitor tells apart.
const (
	codeNVMLNotSupported = 3
	codeNVMLNotFound     = 6
	codeNVMLTooSmall     = 7
	codeNVMLLost         = 15
)
