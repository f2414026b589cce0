//go:build (amd64 || arm64) && !nodl

package driver

import (
	"strings"
	"sync"
	"testing"
)

// The message of the loader reaches the error from whichever thread the library was asked for.
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
