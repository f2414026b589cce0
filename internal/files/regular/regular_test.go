package regular

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"vsetrain/lab/try"
)

func TestReadFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	for _, text := range []string{"", "text", strings.Repeat("x", 4096)} {
		try.Do(t, os.WriteFile(path, []byte(text), 0o666))
		if b := try.Get(ReadFile(path, 4096, "a test file"))(t); string(b) != text {
			t.Errorf("%d bytes", len(b))
		}
	}
	_, err := ReadFile(path, 4000, "a test file")
	try.Fails(t, err, path+": too large: 4096 bytes; expected a test file of at most 4000")
	if !errors.Is(err, ErrLarge) {
		t.Errorf("got %v", err)
	}
	if runtime.GOOS == "linux" { // a file that has no bytes until it is read, as one that grows meanwhile
		try.Refuses(ReadFile("/proc/self/status", 10, "a test file"))(t, "too large: 11 bytes")
	}
	try.Do(t, errors.Join(Check(path), Check(path+".not")))
	if err := Check(filepath.Dir(path)); !errors.Is(err, ErrNot) {
		t.Errorf("got %v", err)
	}
	if _, err := ReadFile(path+".not", 1, ""); !os.IsNotExist(err) {
		t.Errorf("got %v", err)
	}
	try.Refuses(ReadFile(filepath.Dir(path), 1, ""))(t, ErrNot.Error(), "a folder")
}
