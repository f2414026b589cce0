//go:build (amd64 || arm64) && !nodl

package driver

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"github.com/ebitengine/purego"

	"vsetrain/lab/try"
)

// at calls f below that many frames.
//
//go:noinline
func at(depth int, f func()) byte {
	var frame [96]byte
	frame[depth%96] = byte(depth)
	if depth == 0 {
		f()
		return frame[0]
	}
	return at(depth-1, f) + frame[3]
}

// A stack that grows moves, so the driver must not get a name on the stack: the address is the same from every depth.
func TestNamesDoNotMove(t *testing.T) {
	d := &libcuda{out: new(outputs)}
	var names []uintptr
	var read []string
	d.fn.cuModuleGetFunction.addr = purego.NewCallback(func(f, _, name uintptr) uintptr {
		names, read = append(names, name), append(read, cString(name))
		*(*uintptr)(*(*unsafe.Pointer)(unsafe.Pointer(&f))) = 7
		return 0
	})
	for depth := range 20 {
		done := make(chan error)
		go func() {
			var err error
			at(depth, func() { _, err = d.Function(1, "gemm") })
			done <- err
		}()
		try.Do(t, <-done)
	}
	for i, p := range names {
		if p != names[0] || read[i] != "gemm" {
			t.Fatalf("at depth %d the name %q is at %#x, at depth 0 at %#x", i, read[i], p, names[0])
		}
	}
	if _, err := d.Function(1, strings.Repeat("x", 256)); err == nil {
		t.Error("a name that does not fit is accepted")
	}
}

// An error with a known cause says what helps.
func TestErrorsSayWhatHelps(t *testing.T) {
	for code, says := range map[int]string{34: "stubs", 46: "nvidia-smi -c DEFAULT",
		802: "nvidia-fabricmanager",
		803: "different driver versions", 804: "compatibility package", 999: "nvidia-uvm"} {
		if e := (&Error{Call: "cuInit", Code: code, Name: "X"}).Error(); !strings.Contains(e, says) {
			t.Errorf("%d: %s, expected %q", code, e, says)
		}
		if e := (&Error{Call: "cublasCreate_v2", Code: code, Name: "X"}).Error(); strings.Contains(e, says) {
			t.Errorf("a status of cuBLAS: %s", e)
		}
	}
	if e := (&Error{Call: "cuLaunchKernel", Code: 999, Name: "X"}).Error(); strings.Contains(e, "nvidia-uvm") {
		t.Errorf("an unknown error of a kernel: %s", e)
	}
}

// If HOME is not writable, the driver gets another folder for compiled kernels, to which only this user can write.
func TestKernelCache(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	set := ""
	choose := func(variables map[string]string) string {
		t.Helper()
		set = ""
		try.Do(t, cacheKernels(env(variables), func(name, value string) error {
			set = name + "=" + value
			return nil
		}))
		return set
	}
	home := t.TempDir()
	for _, v := range []map[string]string{{"HOME": home}, {"CUDA_CACHE_PATH": "/own"}, {"CUDA_CACHE_DISABLE": "1"}} {
		if got := choose(v); got != "" {
			t.Errorf("%v: %s", v, got)
		}
	}
	const none = "/proc/self/nowhere"
	below := func(dir string) bool { return strings.HasPrefix(set, "CUDA_CACHE_PATH="+dir+"/") }
	if choose(map[string]string{"HOME": none, "XDG_CACHE_HOME": home}); !below(home) {
		t.Errorf("with a cache folder: %s", set)
	}
	choose(map[string]string{"HOME": none})
	if !below(tmp) {
		t.Fatalf("without any: %s", set)
	}
	folder := strings.TrimPrefix(set, "CUDA_CACHE_PATH=")
	if info, err := os.Stat(folder); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder: %v, %v", info, err)
	}
	try.Do(t, os.Chmod(folder, 0o777))
	if got := choose(map[string]string{"HOME": none}); got != "" {
		t.Errorf("a folder that others can write to is used: %s", got)
	}
	os.RemoveAll(folder)
	try.Do(t, os.Symlink(home, folder))
	if got := choose(map[string]string{"HOME": none}); got != "" {
		t.Errorf("a link is used: %s", got)
	}
}

// The driver reads the environment of libc, which os.Setenv has to reach.
func TestLibcSeesTheEnvironment(t *testing.T) {
	p := try.Get(purego.Dlsym(purego.RTLD_DEFAULT, "getenv"))(t)
	want := filepath.Join(t.TempDir(), "cache")
	t.Setenv("VSETRAIN_TEST_CACHE", want)
	var name [32]byte
	copy(name[:], "VSETRAIN_TEST_CACHE")
	if r, _, _ := purego.SyscallN(p, uintptr(unsafe.Pointer(&name[0]))); r == 0 || cString(r) != want {
		t.Errorf("libc does not see what was set")
	}
}
