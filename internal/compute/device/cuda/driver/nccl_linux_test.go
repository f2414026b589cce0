//go:build (amd64 || arm64) && !nodl && !(vsecu && cgo)

package driver_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"vsetrain/internal/compute/device/cuda/driver"
	"vsetrain/lab/emulator"
	"vsetrain/lab/try"
)

// NCCL reports its version and makes ids; an old version, or another library, is refused. If a real NCCL is installed,
// it is tested too: without a GPU it fails to join.
func TestNCCL(t *testing.T) {
	emulated := emulator.Library(t)
	lib := try.Get(driver.OpenNCCL(emulated, false))(t)
	a, err := lib.NewID()
	if err != nil || a == (driver.NCCLID{}) || driver.VersionOfNCCL(lib.Version()) != "2.21.5" {
		t.Errorf("NCCL %d makes the id %x: %v", lib.Version(), a, err)
	}
	var said *driver.Error
	if _, err := lib.Join(a, 0, 1); !errors.As(err, &said) || said.Code != 1 || !strings.Contains(err.Error(),
		"ncclCommInitRank: unhandled cuda error (1): the context is not current on this thread") {
		t.Errorf("without a context: %v", err)
	}
	for name, value := range map[string]string{"NCCL_ALGO": "Ring", "NCCL_RUNTIME_CONNECT": "0",
		"NCCL_NVLS_ENABLE": "0"} {
		if got := os.Getenv(name); got != value {
			t.Errorf("%s is %q, expected %q", name, got, value)
		}
	}
	emulator.Set(t, "nccl", 21304, 22105)
	if _, err := driver.OpenNCCL(emulated, false); err == nil || !strings.Contains(err.Error(),
		" is not NCCL 2.14.0 or later (it reports 2.13.4); install one: pip install nvidia-nccl-cu12") {
		t.Errorf("an old one: %v", err)
	}
	try.Refuses(driver.OpenNCCL("/nowhere/libnccl.so.2", false))(t, "/nowhere/libnccl.so.2")
	path := driver.SearchNCCL("/", os.Getenv).Path
	if path == "" {
		t.Log("no real NCCL here")
		return
	}
	if lib, err = driver.OpenNCCL(path, false); err != nil {
		t.Fatal(err)
	}
	if a, err = lib.NewID(); err != nil || a == (driver.NCCLID{}) {
		t.Errorf("%s makes the id %x: %v", path, a, err)
	}
	if _, err = lib.Join(a, 0, 1); err != nil && !errors.As(err, &said) {
		t.Errorf("%s: %v", path, err)
	}
	t.Logf("%s %s: %v", path, driver.VersionOfNCCL(lib.Version()), err)
}
