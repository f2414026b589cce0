//go:build (linux || darwin) && (amd64 || arm64) && !nodl

package gemm

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"unsafe"

	"github.com/ebitengine/purego"

	"vsetrain/internal/system/libraries"
)

// accelerate is part of macOS: it is in the loader's cache, not in a file.
const accelerate = "/System/Library/Frameworks/Accelerate.framework/Accelerate"

// wanted are the libraries that are looked for.
var wanted = map[string]libraries.Wanted{
	"openblas": {Name: "OpenBLAS", Setting: "VSETRAIN_OPENBLAS", Files: []string{"libopenblas.so.0", "libopenblas.so",
		"libopenblasp.so.0", "libopenblas.dylib"},
		Install: "install it (Debian: libopenblas0) or choose another kernel"},
	"mkl": {Name: "MKL", Setting: "VSETRAIN_MKL", Files: []string{"libmkl_rt.so.2", "libmkl_rt.so.1", "libmkl_rt.so",
		"libmkl_rt.2.dylib", "libmkl_rt.dylib"}, Install: "install it (pip install mkl) or choose another kernel"},
}

// find returns the files of a library, the best first. root is "/" except in tests.
func find(kind, root string, getenv func(string) string) ([]string, error) {
	if kind == "accelerate" {
		return []string{accelerate}, nil
	}
	f := libraries.NewFolders(root, getenv)
	f.AddLoaderPath()
	f.Add("loader path", "/usr/local/lib", "/opt/homebrew/opt/openblas/lib", "/usr/local/opt/openblas/lib",
		"/opt/intel/oneapi/mkl/latest/lib")
	f.AddConda("lib")
	f.AddEnv("pip", "VIRTUAL_ENV", "lib")
	lib := libraries.Find(root, getenv, wanted[kind], f)
	if lib.Path == "" {
		return nil, fmt.Errorf("gemm: %w: %s", ErrNoLibrary, lib.Missing())
	}
	return lib.Paths(), nil
}

// Libraries returns the libraries that Options.Kernel may name in this program.
func Libraries() []string {
	if runtime.GOOS == "darwin" {
		return []string{"openblas", "mkl", "accelerate"}
	}
	return []string{"openblas", "mkl"}
}

// blasLibrary calls the Fortran sgemm_ of a shared library. Fortran passes every argument by address, so the
// call needs integer registers only. It is column major: C' = op(B)' op(A)'.
type blasLibrary struct {
	label string
	sgemm uintptr
	args  *fortranArgs
}

// fortranArgs lives on the heap: its addresses are passed to the library.
type fortranArgs struct {
	transA, transB byte
	m, n, k        int32
	lda, ldb, ldc  int32
	alpha, beta    float32
}

// load opens a shared library.
func load(file string) (uintptr, error) {
	runtime.LockOSThread() // the loader keeps what went wrong for each thread
	defer runtime.UnlockOSThread()
	return purego.Dlopen(file, purego.RTLD_NOW|purego.RTLD_GLOBAL)
}

// setThreads are the functions that limit the threads of a library. Accelerate has none.
var setThreads = map[string]string{"openblas": "openblas_set_num_threads", "mkl": "MKL_Set_Num_Threads"}

// openLibrary loads a library and limits it to the given number of threads where it lets itself be limited.
func openLibrary(kind string, threads int) (library, error) {
	files, err := find(kind, "/", os.Getenv)
	if err != nil {
		return nil, err
	}
	var handle uintptr
	var failed []error
	var file string
	for _, file = range files {
		if handle, err = load(file); err == nil {
			break
		}
		failed = append(failed, err)
	}
	if handle == 0 {
		return nil, fmt.Errorf("gemm: %s: %w that can be loaded: %w; choose another kernel", kind, ErrNoLibrary,
			errors.Join(failed...))
	}
	sgemm, err := purego.Dlsym(handle, "sgemm_")
	if err != nil {
		return nil, fmt.Errorf("gemm: %s has no sgemm_: %w", file, err)
	}
	b := &blasLibrary{sgemm: sgemm, args: new(fortranArgs)}
	version := ""
	if set := setThreads[kind]; set != "" {
		fn, err := purego.Dlsym(handle, set)
		if err != nil {
			return nil, fmt.Errorf("gemm: %s has no %s: %w", file, set, err)
		}
		purego.SyscallN(fn, uintptr(threads))
	}
	if fn, err := purego.Dlsym(handle, "openblas_get_config"); err == nil {
		r, _, _ := purego.SyscallN(fn)
		if words := strings.Fields(cString(r)); len(words) > 1 {
			version = " " + words[1]
		}
	}
	b.label = fmt.Sprintf("%s%s (%s)", kind, version, filepath.Base(file))
	return b, nil
}

// cString copies a C string that the library owns.
func cString(p uintptr) string {
	if p == 0 {
		return ""
	}
	base := *(*unsafe.Pointer)(unsafe.Pointer(&p))
	n := 0
	for n < 1024 && *(*byte)(unsafe.Add(base, n)) != 0 {
		n++
	}
	return string(unsafe.Slice((*byte)(base), n))
}

func (b *blasLibrary) name() string { return b.label }

func (b *blasLibrary) gemm(_ *Engine, a *Args) {
	letter := func(t bool) byte {
		if t {
			return 'T'
		}
		return 'N'
	}
	f := b.args
	*f = fortranArgs{letter(a.TransA), letter(a.TransB), int32(a.M), int32(a.N), int32(a.K),
		int32(a.LDA), int32(a.LDB), int32(a.LDC), a.Alpha, a.Beta}
	at := func(p unsafe.Pointer) uintptr { return uintptr(p) }
	purego.SyscallN(b.sgemm,
		at(unsafe.Pointer(&f.transB)), at(unsafe.Pointer(&f.transA)),
		at(unsafe.Pointer(&f.n)), at(unsafe.Pointer(&f.m)), at(unsafe.Pointer(&f.k)),
		at(unsafe.Pointer(&f.alpha)), uintptr(unsafe.Pointer(&a.B[0])), at(unsafe.Pointer(&f.ldb)),
		uintptr(unsafe.Pointer(&a.A[0])), at(unsafe.Pointer(&f.lda)),
		at(unsafe.Pointer(&f.beta)), uintptr(unsafe.Pointer(&a.C[0])), at(unsafe.Pointer(&f.ldc)))
	addBias(a.C, a.M, a)
}
