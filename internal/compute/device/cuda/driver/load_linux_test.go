//go:build (amd64 || arm64) && !nodl

package driver

import (
	"os"
	"strings"
	"sync"
	"testing"

	"vsetrain/lab/try"
)

// The error has the loader's message, whichever thread loads the library.
func TestLoadSaysWhatWasMissing(t *testing.T) {
	const path = "/nowhere/libcuda.so.1"
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			for range 300 {
				if _, err := load(path); err == nil || !strings.Contains(err.Error(), path) {
					t.Errorf("error %v does not name %s", err, path)
					return
				}
			}
		})
	}
	all.Wait()
}

// After a file that is not a library for this machine, another may be the driver.
func TestLoadOfAnotherFile(t *testing.T) {
	path := t.TempDir() + "/libcuda.so.1"
	try.Do(t, os.WriteFile(path, []byte("\x7fELF\x01 of 32 bits"), 0o644))
	if _, err := load(path); !NoDriver(err) {
		t.Errorf("%v", err)
	}
}
