//go:build (linux || darwin) && (amd64 || arm64) && !nodl

package gemm

import (
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"vsetrain/lab/try"
)

// A library lies in the system, in an active environment or where its setting says, and not in the working folder,
// where the loader would look for a bare name.
func TestFindLibrary(t *testing.T) {
	root := try.Files(t, map[string]string{"w/libopenblas.so.0": "", "w/.venv/lib/libopenblas.so.0": "",
		"v/lib/libmkl_rt.so.2": ""})
	env := map[string]string{"PWD": "/w", "LD_LIBRARY_PATH": ":.:w", "VIRTUAL_ENV": "/v"}
	getenv := func(name string) string { return env[name] }
	if files, err := find("openblas", root, getenv); !errors.Is(err, ErrNoLibrary) ||
		!strings.Contains(err.Error(), "VSETRAIN_OPENBLAS") {
		t.Errorf("found %q: %v", files, err)
	}
	if files, err := find("mkl", root, getenv); err != nil || !slices.Equal(files, []string{"/v/lib/libmkl_rt.so.2"}) {
		t.Errorf("found %q: %v", files, err)
	}
	env["VSETRAIN_OPENBLAS"] = "/own.so"
	if files, err := find("openblas", root, getenv); err != nil || !slices.Equal(files, []string{"/own.so"}) {
		t.Errorf("found %q: %v", files, err)
	}
}

// A text of C ends before its first zero, and after that many bytes where there is none.
func TestCString(t *testing.T) {
	long := []byte(strings.Repeat("x", 2000))
	for text, want := range map[string]string{"a\x01b\x00c\x01": "a\x01b", "\x00a\x01": "",
		string(long): string(long[:1024])} {
		b := []byte(text)
		if got := cString(uintptr(unsafe.Pointer(&b[0]))); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
		runtime.KeepAlive(b)
	}
	if got := cString(0); got != "" {
		t.Errorf("nothing is %q", got)
	}
}
