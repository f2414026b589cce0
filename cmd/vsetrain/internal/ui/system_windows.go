package ui

import (
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

var queryPerformanceCounter = windows.NewLazySystemDLL("kernel32.dll").NewProc("QueryPerformanceCounter")

// start is a moment on both clocks. second is how far the counter goes in one.
var (
	start        = time.Now()
	startCounter = counter(queryPerformanceCounter)
	second       = counter(windows.NewLazySystemDLL("kernel32.dll").NewProc("QueryPerformanceFrequency"))
)

func counter(call *windows.LazyProc) (n int64) {
	call.Call(uintptr(unsafe.Pointer(&n))) // never fails
	return n
}

// now goes on by less than a microsecond, where time.Now stands still for up to 16 ms: longer than some steps take.
func now() time.Time {
	n := counter(queryPerformanceCounter) - startCounter
	return start.Add(time.Duration(n/second)*time.Second + time.Duration(n%second*int64(time.Second)/second))
}

// showEscapes makes a console obey escape sequences, which the console of Windows prints otherwise.
func showEscapes(f *os.File) {
	var mode uint32
	if h := windows.Handle(f.Fd()); windows.GetConsoleMode(h, &mode) == nil {
		_ = windows.SetConsoleMode(h, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING)
	}
}
