//go:build (linux || darwin) && (amd64 || arm64) && !nodl

package onnxruntime

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
)

// The indexes of functions in the struct OrtApi. Functions of version 1 never move.
const (
	fnGetErrorMessage           = 2
	fnCreateEnv                 = 3
	fnCreateSession             = 7
	fnRun                       = 9
	fnCreateSessionOptions      = 10
	fnSetLogSeverity            = 22
	fnSetIntraOpThreads         = 24
	fnSetInterOpThreads         = 25
	fnInputCount                = 30
	fnOutputCount               = 31
	fnInputTypeInfo             = 33
	fnOutputTypeInfo            = 34
	fnInputName                 = 36
	fnOutputName                = 37
	fnCreateTensorWithData      = 49
	fnTensorData                = 51
	fnCastTypeInfoToTensorInfo  = 55
	fnTensorElementType         = 60
	fnDimensionsCount           = 61
	fnDimensions                = 62
	fnTensorTypeAndShape        = 65
	fnCreateCPUMemoryInfo       = 69
	fnAllocatorFree             = 76
	fnAllocatorWithDefaults     = 78
	fnReleaseStatus             = 93
	fnReleaseSession            = 95
	fnReleaseValue              = 96
	fnReleaseTypeInfo           = 98
	fnReleaseTensorTypeAndShape = 99
	fnReleaseSessionOptions     = 100
	apiSize                     = 102
)

const (
	apiVersion   = 1
	elementFloat = 1 // ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT
	logFatal     = 4 // errors are returned, so they need not be printed
	maxRank      = 16
)

// library is the loaded library: its functions, one environment, and the description of host memory.
type library struct {
	path, version string
	api           *[apiSize]uintptr
	env           uintptr
	memory        uintptr
	allocator     uintptr
}

var (
	loadMu sync.Mutex
	loaded = map[string]*library{} // by path; a library stays loaded
)

type handle struct {
	lib     *library
	session uintptr
}

// Open loads a model from a file, with the first library of Search that can be loaded. threads is the number of threads
// of an operator, 0 for all processors. If no library can be loaded the error says what to do; it is ErrNone unless
// Setting names a file.
func Open(model string, getenv func(string) string, threads int) (*Session, error) {
	lib, err := open(getenv)
	if err != nil {
		return nil, err
	}
	s := &Session{Library: lib.path, Version: lib.version, handle: handle{lib: lib}}
	if err := s.open(model, threads); err != nil {
		s.Close()
		return nil, fmt.Errorf("%s: %w", model, err)
	}
	return s, nil
}

// open loads the library.
func open(getenv func(string) string) (*library, error) {
	paths, missing := Search("/", getenv)
	var failed []error
	for _, path := range paths {
		lib, err := load(path)
		if err == nil {
			return lib, nil
		}
		failed = append(failed, err)
	}
	switch {
	case len(failed) == 0:
		return nil, missing
	case getenv(Setting) != "":
		return nil, fmt.Errorf("ONNX Runtime cannot be loaded: %w; %s", errors.Join(failed...), remedy)
	}
	return nil, fmt.Errorf("%w that can be loaded: %w; %s", ErrNone, errors.Join(failed...), remedy)
}

func load(path string) (_ *library, err error) {
	loadMu.Lock()
	defer loadMu.Unlock()
	if lib := loaded[path]; lib != nil {
		return lib, nil
	}
	runtime.LockOSThread() // the loader keeps its error per thread
	defer runtime.UnlockOSThread()
	so, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", path, err)
	}
	base, err := purego.Dlsym(so, "OrtGetApiBase")
	if err != nil {
		return nil, fmt.Errorf("%s is not an ONNX Runtime: %w", path, err)
	}
	address, _, _ := purego.SyscallN(base)
	functions := (*[2]uintptr)(pointer(address)) // GetApi, GetVersionString
	version, _, _ := purego.SyscallN(functions[1])
	table, _, _ := purego.SyscallN(functions[0], apiVersion)
	lib := &library{path: path, version: text(version)}
	if table == 0 {
		return nil, fmt.Errorf("%s is ONNX Runtime %s, which has no API of version %d", path, lib.version, apiVersion)
	}
	lib.api = (*[apiSize]uintptr)(pointer(table))
	name := cstring("vsetrain")
	err = lib.call(fnCreateEnv, logFatal, uintptr(unsafe.Pointer(name)), uintptr(unsafe.Pointer(&lib.env)))
	runtime.KeepAlive(name)
	if err == nil {
		err = lib.call(fnCreateCPUMemoryInfo, 1, 0, uintptr(unsafe.Pointer(&lib.memory)))
	}
	if err == nil {
		err = lib.call(fnAllocatorWithDefaults, uintptr(unsafe.Pointer(&lib.allocator)))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	loaded[path] = lib
	return lib, nil
}

// call calls a function that returns a status. Values whose addresses are arguments are on the heap and stay there
// until it returns.
//
//go:uintptrescapes
func (l *library) call(fn int, args ...uintptr) error {
	status, _, _ := purego.SyscallN(l.api[fn], args...)
	if status == 0 {
		return nil
	}
	message, _, _ := purego.SyscallN(l.api[fnGetErrorMessage], status)
	err := errors.New("ONNX Runtime: " + strings.TrimSpace(text(message)))
	l.release(fnReleaseStatus, status)
	return err
}

func (l *library) release(fn int, object uintptr) {
	if object != 0 {
		purego.SyscallN(l.api[fn], object)
	}
}

// results is memory that functions write to. It must be on the heap, where addresses do not change.
type results struct {
	object uintptr
	count  uintptr
	kind   int32
	dims   [maxRank]int64
}

func (s *Session) open(model string, threads int) error {
	l, out, path := s.lib, new(results), cstring(model)
	if err := l.call(fnCreateSessionOptions, uintptr(unsafe.Pointer(&out.object))); err != nil {
		return err
	}
	options := out.object
	defer l.release(fnReleaseSessionOptions, options)
	for _, c := range [][2]int{{fnSetLogSeverity, logFatal}, {fnSetIntraOpThreads, threads}, {fnSetInterOpThreads, 1}} {
		if err := l.call(c[0], options, uintptr(c[1])); err != nil {
			return err
		}
	}
	err := l.call(fnCreateSession, l.env, uintptr(unsafe.Pointer(path)), options, uintptr(unsafe.Pointer(&out.object)))
	runtime.KeepAlive(path)
	if err != nil {
		return err
	}
	s.session = out.object
	if s.Inputs, err = s.ports(fnInputCount, fnInputName, fnInputTypeInfo); err != nil {
		return err
	}
	s.Outputs, err = s.ports(fnOutputCount, fnOutputName, fnOutputTypeInfo)
	return err
}

// ports describes the inputs or outputs of the model.
func (s *Session) ports(count, name, info int) (ports []Port, err error) {
	l, out := s.lib, new(results)
	if err := l.call(count, s.session, uintptr(unsafe.Pointer(&out.count))); err != nil {
		return nil, err
	}
	for i := range out.count {
		var p Port
		if err := l.call(name, s.session, i, l.allocator, uintptr(unsafe.Pointer(&out.object))); err != nil {
			return nil, err
		}
		p.Name = text(out.object)
		if err := l.call(fnAllocatorFree, l.allocator, out.object); err != nil {
			return nil, err
		}
		if err := l.call(info, s.session, i, uintptr(unsafe.Pointer(&out.object))); err != nil {
			return nil, err
		}
		kind := out.object
		err = l.call(fnCastTypeInfoToTensorInfo, kind, uintptr(unsafe.Pointer(&out.object)))
		if err == nil && out.object != 0 {
			p.Float, p.Shape, err = l.shape(out.object)
		}
		l.release(fnReleaseTypeInfo, kind)
		if err != nil {
			return nil, err
		}
		ports = append(ports, p)
	}
	return ports, nil
}

// shape reads an OrtTensorTypeAndShapeInfo.
func (l *library) shape(info uintptr) (float bool, shape []int64, err error) {
	out := new(results)
	if err := l.call(fnTensorElementType, info, uintptr(unsafe.Pointer(&out.kind))); err != nil {
		return false, nil, err
	}
	if err := l.call(fnDimensionsCount, info, uintptr(unsafe.Pointer(&out.count))); err != nil {
		return false, nil, err
	}
	if out.count > maxRank {
		return false, nil, fmt.Errorf("a tensor of %d axes, expected at most %d", out.count, maxRank)
	}
	if out.count > 0 {
		if err := l.call(fnDimensions, info, uintptr(unsafe.Pointer(&out.dims)), out.count); err != nil {
			return false, nil, err
		}
	}
	return out.kind == elementFloat, append([]int64(nil), out.dims[:out.count]...), nil
}

// passed holds what Run passes by address.
type passed struct {
	inputName, outputName *byte
	input, output         uintptr
	shape                 [maxRank]int64
}

// Run computes one output from one input.
func (s *Session) Run(input string, x Tensor, output string) (y Tensor, err error) {
	l, n := s.lib, len(x.Shape)
	if elements(x.Shape) != int64(len(x.Values)) || len(x.Values) == 0 || n > maxRank {
		return y, fmt.Errorf("input %q: %d values of shape %v", input, len(x.Values), x.Shape)
	}
	c := &passed{inputName: cstring(input), outputName: cstring(output)}
	copy(c.shape[:], x.Shape)
	if err := l.call(fnCreateTensorWithData, l.memory, uintptr(unsafe.Pointer(&x.Values[0])), uintptr(4*len(x.Values)),
		uintptr(unsafe.Pointer(&c.shape)), uintptr(n), elementFloat, uintptr(unsafe.Pointer(&c.input))); err != nil {
		return y, err
	}
	defer l.release(fnReleaseValue, c.input)
	err = l.call(fnRun, s.session, 0, uintptr(unsafe.Pointer(&c.inputName)), uintptr(unsafe.Pointer(&c.input)), 1,
		uintptr(unsafe.Pointer(&c.outputName)), 1, uintptr(unsafe.Pointer(&c.output)))
	runtime.KeepAlive(x.Values)
	runtime.KeepAlive(c)
	if err != nil {
		return y, err
	}
	defer l.release(fnReleaseValue, c.output)
	out := new(results)
	if err := l.call(fnTensorTypeAndShape, c.output, uintptr(unsafe.Pointer(&out.object))); err != nil {
		return y, err
	}
	info := out.object
	float, shape, err := l.shape(info)
	l.release(fnReleaseTensorTypeAndShape, info)
	if err == nil && !float {
		err = fmt.Errorf("output %q is not a tensor of float32", output)
	}
	if err != nil {
		return y, err
	}
	if err := l.call(fnTensorData, c.output, uintptr(unsafe.Pointer(&out.object))); err != nil {
		return y, err
	}
	y = Tensor{Shape: shape, Values: make([]float32, elements(shape))}
	copy(y.Values, unsafe.Slice((*float32)(pointer(out.object)), len(y.Values)))
	return y, nil
}

// Close releases the model.
func (s *Session) Close() {
	if s.lib != nil && s.session != 0 {
		s.lib.release(fnReleaseSession, s.session)
		s.session = 0
	}
}

// pointer is an address that the library returned: memory that Go does not move.
func pointer(address uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&address)) }

// cstring copies a string and ends it with a zero byte.
func cstring(s string) *byte { return &append([]byte(s), 0)[0] }

// text reads a string that ends with a zero byte.
func text(address uintptr) string {
	if address == 0 {
		return ""
	}
	var b []byte
	for p := pointer(address); *(*byte)(p) != 0; p = unsafe.Add(p, 1) {
		b = append(b, *(*byte)(p))
	}
	return string(b)
}
