//go:build (amd64 || arm64) && !nodl && !(vsecu && cgo)

package driver_test

import (
	"testing"

	"vsetrain/internal/compute/device/cuda/driver"
	"vsetrain/lab/emulator"
	"vsetrain/lab/try"
)

// gpus are the GPUs of the emulated driver, as libcuda describes them.
func gpus(t *testing.T) (both [2]driver.Info) {
	t.Helper()
	d, err := driver.Open(emulator.Library(t))
	try.Do(t, err)
	emulator.Set(t, "devices", 2, 1)
	for i := range both {
		if both[i], err = d.Info(i); err != nil {
			t.Fatal(err)
		}
	}
	return both
}

// A GPU is found by its UUID, or by its bus if NVML does not know the UUID; the indices of NVML do not matter.
func TestMonitorFindsTheGPU(t *testing.T) {
	both, path := gpus(t), emulator.NVML(t)
	t.Setenv("EMULATED_NVML_USED", "123456789")
	for i, gpu := range both {
		for _, only := range []string{"both", "UUID", "bus"} {
			switch only {
			case "UUID":
				gpu.UUID, gpu.Bus = both[i].UUID, ""
			case "bus":
				gpu.UUID, gpu.Bus = "00000000", both[i].Bus
			}
			m := try.Get(driver.OpenMonitor(path, gpu))(t)
			s := try.Get(m.State())(t)
			want := [2]int64{123456789, 5}[i]
			if s.Used != want || s.Total != 4<<30 || s.Busy != 87 || s.Celsius != 41 ||
				s.Milliwatts != 312000 {
				t.Errorf("GPU %d by %s: %+v", i, only, s)
			}
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	unknown := driver.Info{UUID: "00000000", Bus: "ffff:00:00.0"}
	try.Refuses(driver.OpenMonitor(path, unknown))(t, "00000000")
	try.Refuses(driver.OpenMonitor(emulator.Library(t), both[0]))(t, "has no nvml")
}

// A part of a divided GPU is found by its own UUID and reports less. A lost GPU is an error.
func TestMonitorOfAPart(t *testing.T) {
	both, path := gpus(t), emulator.NVML(t)
	t.Setenv("EMULATED_NVML_MIG", "1")
	part := both[0]
	part.Name += " MIG 1g.5gb"
	m := try.Get(driver.OpenMonitor(path, part))(t)
	defer m.Close()
	s, err := m.State()
	if err != nil || s.Total != 4<<30 || s.Busy != -1 || s.Celsius != -1 || s.Milliwatts != -1 {
		t.Errorf("a part: %+v, %v", s, err)
	}
	if p, err := m.Processes(); err != nil || len(p) != 1 || p[0] != (driver.Process{ID: 4242, Used: 700000000}) {
		t.Errorf("processes %+v, %v", p, err)
	}
	if v, err := m.Driver(); err != nil || v != "580.00 emulated" {
		t.Errorf("driver %q, %v", v, err)
	}
	t.Setenv("EMULATED_NVML_LOST", "1")
	try.Refuses(m.State())(t, "the GPU is lost")
}

// A driver with other entries in its lists of processes is not asked for one, and a value that NVML lacks is unknown.
func TestMonitorOfAnotherNVML(t *testing.T) {
	both, path := gpus(t), emulator.NVML(t, "-DLARGER_PROCESSES")
	m := try.Get(driver.OpenMonitor(path, both[0]))(t)
	defer m.Close()
	if s, err := m.State(); err != nil || s.Celsius != -1 || s.Busy != 87 {
		t.Errorf("%+v, %v", s, err)
	}
	if p, err := m.Processes(); err == nil {
		t.Errorf("processes %+v", p)
	}
}
