//go:build unix

package view

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"vsetrain/internal/files/regular"
	"vsetrain/lab/try"
)

// A pipe that stands for the metrics of a run is not waited for.
func TestFollowPipe(t *testing.T) {
	f := follower{path: filepath.Join(t.TempDir(), "metrics.jsonl")}
	try.Do(t, unix.Mkfifo(f.path, 0o600))
	ended := make(chan error, 1)
	go func() { ended <- f.read() }()
	select {
	case err := <-ended:
		if !errors.Is(err, regular.ErrNot) {
			t.Errorf("got %v", err)
		}
	case <-time.After(5 * time.Second):
		t.Error("blocked")
	}
}
