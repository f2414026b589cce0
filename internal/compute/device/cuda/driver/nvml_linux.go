//go:build (amd64 || arm64) && !nodl

package driver

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/ebitengine/purego"
)

// nvml is NVML by dlopen, for one GPU.
type nvml struct {
	fn nvmlSymbols
	// symbols that some versions lack
	utilization, temperature, power, processes entry

	gpu  uintptr
	text *[96]byte // NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE is 80
	out  *nvmlOutputs
}

// nvmlOutputs receives results, on the heap, which does not move.
type nvmlOutputs struct {
	handle      uintptr
	memory      struct{ total, free, used uint64 } // nvmlMemory_t
	utilization struct{ gpu, memory uint32 }       // nvmlUtilization_t
	number      uint32
	processes   [64]nvmlProcess
}

// nvmlProcess is nvmlProcessInfo_t.
type nvmlProcess struct {
	pid                  uint32
	used                 uint64
	instance, subdivided uint32
}

type nvmlSymbols struct {
	nvmlInit_v2, nvmlShutdown, nvmlSystemGetDriverVersion, nvmlDeviceGetHandleByUUID,
	nvmlDeviceGetHandleByPciBusId_v2, nvmlDeviceGetMemoryInfo entry
}

// OpenMonitor loads NVML from a path and finds the GPU by its UUID or its bus: NVML numbers GPUs in another order than
// libcuda, and ignores CUDA_VISIBLE_DEVICES.
func OpenMonitor(path string, gpu Info) (Monitor, error) {
	lib, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, fmt.Errorf("load NVML: %w", err)
	}
	n := &nvml{text: new([96]byte), out: new(nvmlOutputs)}
	if name, err := find(lib, &n.fn); err != nil {
		return nil, fmt.Errorf("%s has no %s: %w", path, name, err)
	}
	optional := func(e *entry, name string) bool {
		addr, err := purego.Dlsym(lib, name)
		if err == nil {
			*e = entry{name, addr}
		}
		return err == nil
	}
	optional(&n.utilization, "nvmlDeviceGetUtilizationRates")
	optional(&n.temperature, "nvmlDeviceGetTemperature") // deprecated in NVML 13
	optional(&n.power, "nvmlDeviceGetPowerUsage")
	// Drivers 535.43 to 535.86 write larger entries for processes than all others. Their exports identify them
	// (XuehaiPan/nvitop#89), and they are not asked.
	var other entry
	larger := optional(&other, "nvmlDeviceGetConfComputeMemSizeInfo") &&
		!optional(&other, "nvmlDeviceGetRunningProcessDetailList")
	if !larger && !optional(&n.processes, "nvmlDeviceGetComputeRunningProcesses_v3") {
		optional(&n.processes, "nvmlDeviceGetComputeRunningProcesses_v2")
	}
	if err := n.call(&n.fn.nvmlInit_v2); err != nil {
		return nil, err
	}
	if err := n.find(gpu); err != nil {
		n.Close()
		return nil, fmt.Errorf("NVML knows no GPU %s at %s: %w", gpu.UUID, gpu.Bus, err)
	}
	return n, nil
}

// find asks for the GPU by its UUID, as a whole GPU or a part of one, and then by its bus.
func (n *nvml) find(gpu Info) (err error) {
	ask := func(e *entry, name string) bool {
		if len(name) >= len(n.text) {
			err = fmt.Errorf("name of %d bytes", len(name))
			return false
		}
		n.text[copy(n.text[:], name)] = 0
		err = n.call(e, uintptr(unsafe.Pointer(n.text)), uintptr(unsafe.Pointer(&n.out.handle)))
		n.gpu = n.out.handle
		return err == nil
	}
	for _, kind := range []string{"GPU-", "MIG-"} {
		if gpu.UUID != "" && ask(&n.fn.nvmlDeviceGetHandleByUUID, kind+gpu.UUID) {
			return nil
		}
	}
	if gpu.Bus != "" && !gpu.MIG() && ask(&n.fn.nvmlDeviceGetHandleByPciBusId_v2, gpu.Bus) {
		return nil
	}
	if err == nil {
		err = errors.New("libcuda gives it no name")
	}
	return err
}

func (n *nvml) call(e *entry, args ...uintptr) error {
	if r, _, _ := purego.SyscallN(e.addr, args...); int32(r) != 0 {
		return &Error{Call: e.name, Code: int(int32(r)), Name: nvmlError(int(int32(r)))}
	}
	return nil
}

// State implements Monitor. Not every GPU reports more than its memory.
func (n *nvml) State() (State, error) {
	s := State{Busy: -1, Celsius: -1, Milliwatts: -1}
	if err := n.call(&n.fn.nvmlDeviceGetMemoryInfo, n.gpu, uintptr(unsafe.Pointer(&n.out.memory))); err != nil {
		return s, err
	}
	s.Used, s.Total = int64(n.out.memory.used), int64(n.out.memory.total)
	for _, q := range []struct {
		e    *entry
		args []uintptr
		take func()
	}{
		{&n.utilization, []uintptr{uintptr(unsafe.Pointer(&n.out.utilization))},
			func() { s.Busy = int(n.out.utilization.gpu) }},
		{&n.temperature, []uintptr{0, uintptr(unsafe.Pointer(&n.out.number))}, // 0: NVML_TEMPERATURE_GPU
			func() { s.Celsius = int(n.out.number) }},
		{&n.power, []uintptr{uintptr(unsafe.Pointer(&n.out.number))}, func() { s.Milliwatts = int(n.out.number) }},
	} {
		if q.e.addr == 0 {
			continue
		}
		switch err := n.call(q.e, append([]uintptr{n.gpu}, q.args...)...); {
		case err == nil:
			q.take()
		case err.(*Error).Code == codeNVMLLost:
			return s, err
		}
	}
	return s, nil
}

// Processes implements Monitor.
func (n *nvml) Processes() ([]Process, error) {
	if n.processes.addr == 0 {
		return nil, errors.New("this NVML does not list processes; drivers from 450 on do, but for 535.43 to 535.86")
	}
	n.out.number = uint32(len(n.out.processes))
	err := n.call(&n.processes, n.gpu, uintptr(unsafe.Pointer(&n.out.number)),
		uintptr(unsafe.Pointer(&n.out.processes[0])))
	if err != nil && !coded(err, codeNVMLTooSmall) {
		return nil, err
	}
	var all []Process
	for _, p := range n.out.processes[:min(int(n.out.number), len(n.out.processes))] {
		all = append(all, Process{int(p.pid), int64(p.used)}) // 2⁶⁴-1, which becomes -1, if unknown
	}
	return all, nil
}

// Driver implements Monitor.
func (n *nvml) Driver() (string, error) {
	err := n.call(&n.fn.nvmlSystemGetDriverVersion, uintptr(unsafe.Pointer(n.text)), uintptr(len(n.text)))
	if err != nil {
		return "", err
	}
	return cString(uintptr(unsafe.Pointer(n.text))), nil
}

// Close implements Monitor.
func (n *nvml) Close() error { return n.call(&n.fn.nvmlShutdown) }
