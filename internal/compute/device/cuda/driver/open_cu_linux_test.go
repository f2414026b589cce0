//go:build vsecu && cgo && amd64

package driver

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vsetrain/lab/emulator"
)

// The binding with gorgonia.org/cu opens the library that the program is linked with, and no other.
func TestLinked(t *testing.T) {
	path := emulator.Library(t)
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := d.(*linked); !ok || Binding != "gorgonia.org/cu" {
		t.Errorf("the driver is a %T, the binding %s", d, Binding)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "libcuda.so.1")
	if err := os.WriteFile(copied, b, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(copied); err == nil || !strings.Contains(err.Error(), "is not the CUDA driver that this "+
		"program was started with") {
		t.Errorf("a second library: %v", err)
	}
}

// A number that the package returns becomes the error of the driver, with its name.
func TestLinkedErrors(t *testing.T) {
	d, err := Open(emulator.Library(t))
	if err != nil {
		t.Fatal(err)
	}
	_, err = d.Info(7)
	e, ok := err.(*Error)
	if !ok || e.Call != "cuDeviceGet" || e.Code != 101 || e.Name != "CUDA_ERROR_INVALID_DEVICE" {
		t.Errorf("device 7: %#v", err)
	}
}
