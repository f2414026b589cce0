package ui

import (
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

var queryPerformanceCounter = windows.NewLazySystemDLL("kernel32.dll").NewProc("QueryPerformanceCounter")

// start and startCounter are the same moment on both clocks; second is the number of counts in a second.
var (
	start        = time.Now()
	startCounter = counter(queryPerformanceCounter)
	second       = counter(windows.NewLazySystemDLL("kernel32.dll").NewProc("QueryPerformanceFrequency"))
)

func counter(call *windows.LazyProc) (n int64) {
	call.Call(uintptr(unsafe.Pointer(&n))) // never fails
	return n
}

// now has a resolution below a microsecond. time.Now advances in steps of up to 16 ms, longer than some training steps.
func now() time.Time {
	n := counter(queryPerformanceCounter) - startCounter
	return start.Add(time.Duration(n/second)*time.Second + time.Duration(n%second*int64(time.Second)/second))
}

// showEscapes makes a Windows console interpret escape sequences instead of printing them.
func showEscapes(f *os.File) {
	var mode uint32
	if h := windows.Handle(f.Fd()); windows.GetConsoleMode(h, &mode) == nil {
		_ = windows.SetConsoleMode(h, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING)
	}
}
