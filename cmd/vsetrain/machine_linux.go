package main

import (
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// cpuModel returns the model name of the first processor.
func cpuModel() string {
	b, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	return modelIn(string(b), runtime.GOARCH)
}

// armCores are names of arm64 cores by implementer and part, which are all that Linux tells.
var armCores = map[string]string{
	"0x41 0xd08": "Cortex-A72", "0x41 0xd0b": "Cortex-A76", "0x41 0xd0c": "Neoverse N1", "0x41 0xd40": "Neoverse V1",
	"0x41 0xd49": "Neoverse N2", "0x41 0xd4f": "Neoverse V2", "0xc0 0xac3": "AmpereOne",
}

// modelIn returns the model name of the first processor in a /proc/cpuinfo. On arm64 it is the name of the core, or its
// numbers. other is the result if the text has neither.
func modelIn(cpuinfo, other string) string {
	first := map[string]string{}
	for line := range strings.Lines(cpuinfo) {
		key, value, _ := strings.Cut(line, ":")
		if key = strings.TrimSpace(key); first[key] == "" {
			first[key] = strings.TrimSpace(value)
		}
	}
	implementer, part := first["CPU implementer"], first["CPU part"]
	switch name := armCores[implementer+" "+part]; {
	case first["model name"] != "":
		return first["model name"]
	case name != "":
		return name
	case part != "":
		return other + " core " + part + " of implementer " + implementer
	}
	return other
}

// memoryBytes returns the size of main memory, 0 if unknown.
func memoryBytes() uint64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	return uint64(info.Totalram) * uint64(info.Unit)
}

// peakMemory returns the peak resident memory of the process in bytes, 0 if unknown.
func peakMemory() int64 {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return int64(u.Maxrss) << 10 // kibibytes on Linux
}
