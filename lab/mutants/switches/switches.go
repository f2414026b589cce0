// Package switches is used by the mistakes that `make mutants` plants. Each function computes what the sources say
// while its switch is off, and the mistake while it is on. The folder dir says which switch is on; outside of mutants
// none is.
package switches

import (
	"cmp"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
)

// Number is any numeric type.
type Number interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr |
		~float32 | ~float64 | ~complex64 | ~complex128
}

// Most is the largest number of a switch.
const Most = 1<<12 - 1

var (
	dir     string // set by the linker
	on      int    // the switch that is on; Record notes those that are asked
	reached [Most + 1]atomic.Bool
)

// Record in place of a switch records every switch that is reached, as an empty file named after its number.
const Record = -1

// File contains the number of the switch that is on. It is read when a process starts, so processes that a test starts
// see it too.
const File = "on"

func init() {
	if dir != "" {
		b, err := os.ReadFile(filepath.Join(dir, File))
		if err == nil {
			on, err = strconv.Atoi(string(b))
		}
		if err != nil {
			panic(err)
		}
	}
}

// On reports whether a switch is on.
func On(i int) bool { return on == i || on == Record && note(i) }

func note(i int) bool {
	if !reached[i].Load() && !reached[i].Swap(true) {
		if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), nil, 0o666); err != nil {
			panic(err)
		}
	}
	return false
}

// Less is a < b, or a <= b.
func Less[T cmp.Ordered](i int, a, b T) bool { return a < b || On(i) && a == b }

// LessEqual is a <= b, or a < b.
func LessEqual[T cmp.Ordered](i int, a, b T) bool { return a < b || !On(i) && a == b }

// Greater is a > b, or a >= b.
func Greater[T cmp.Ordered](i int, a, b T) bool { return Less(i, b, a) }

// GreaterEqual is a >= b, or a > b.
func GreaterEqual[T cmp.Ordered](i int, a, b T) bool { return LessEqual(i, b, a) }

// Add is a + b, or a - b.
func Add[T Number](i int, a, b T) T {
	if On(i) {
		return a - b
	}
	return a + b
}

// Sub is a - b, or a + b.
func Sub[T Number](i int, a, b T) T {
	if On(i) {
		return a + b
	}
	return a - b
}

// Mul is a * b, or a / b.
func Mul[T Number](i int, a, b T) T {
	if On(i) {
		return a / b
	}
	return a * b
}

// Quo is a / b, or a * b.
func Quo[T Number](i int, a, b T) T {
	if On(i) {
		return a * b
	}
	return a / b
}

// Neg is a, or -a. The third argument determines the type of a constant.
func Neg[T Number](i int, a, _ T) T {
	if On(i) {
		return -a
	}
	return a
}

// Bit is 0, or 1.
func Bit(i int) uint {
	if On(i) {
		return 1
	}
	return 0
}
