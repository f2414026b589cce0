package device

import (
	"fmt"
	"math"
	"strings"
)

// Checker checks the views of a kernel against the sizes that the kernel's method Views declares. It panics, naming the
// kernel and the argument, if a view is absent, too short, or of another type or device. It cuts a longer view to the
// size that the kernel works on, so a device need not check sizes again.
//
// A device keeps one Checker. Checks allocate nothing.
type Checker struct {
	Device string // for messages
	Memory Inspector
	// Visit, if set, is called for every view instead of the check: to list the views, or to make them.
	Visit func(Operand) View

	kernel Kernel
	what   string // where kernel is nil
}

// Inspector is a device that knows its own memory.
type Inspector interface {
	// Inspect returns the type and the number of elements of a buffer. fault says what is wrong with it: it belongs to
	// another device, or was freed.
	Inspect(b Buffer) (t DType, n int, fault string)
}

// Operand is a view of a kernel call, as Views declares it.
type Operand struct {
	Name string
	View View
	Type DType
	N    int // elements
	Rule Rule
	Part int // the most elements that the kernel reads; 0 if it may read or write all
}

// Rule says which sizes a view may have.
type Rule uint8

// The rules.
const (
	Required Rule = iota // at least N elements
	Optional             // absent, or at least N elements
	Exact                // N elements
	Padded               // at least N elements, all of which are used
	Whole                // any number of elements, which determines the size of other views
)

// Check checks the views of a kernel, and cuts them to size.
func (c *Checker) Check(k Kernel) {
	c.kernel, c.what = k, ""
	k.Views(c)
}

// Begin starts the check of a call that is not a kernel, such as a copy between host and device.
func (c *Checker) Begin(what string) *Checker {
	c.kernel, c.what = nil, what
	return c
}

// Kernel returns the name of the kernel or call that was checked last.
func (c *Checker) Kernel() string {
	if c.kernel == nil {
		return c.what
	}
	return NameOf(c.kernel)
}

// refuse panics with what was expected and found.
func (c *Checker) refuse(format string, args ...any) {
	panic(fmt.Sprintf("%s: %s: %s", c.Device, c.Kernel(), fmt.Sprintf(format, args...)))
}

// floats declares a Float view of n elements.
func (c *Checker) floats(name string, v *View, n int) { c.view(name, v, Float, n, Required) }

// optional declares a Float view of n elements that may be absent.
func (c *Checker) optional(name string, v *View, n int) { c.view(name, v, Float, n, Optional) }

// exactly declares a Float view that has n elements and no more.
func (c *Checker) exactly(name string, v *View, n int) { c.view(name, v, Float, n, Exact) }

// whole declares a Float view of any number of elements, and returns that.
func (c *Checker) whole(name string, v *View) int {
	c.view(name, v, Float, 0, Whole)
	return v.N
}

// ints declares an Int32 view of n elements.
func (c *Checker) ints(name string, v *View, n int) { c.view(name, v, Int32, n, Required) }

// optionalInts declares an Int32 view of n elements that may be absent.
func (c *Checker) optionalInts(name string, v *View, n int) {
	c.view(name, v, Int32, n, Optional)
}

// wholeInts declares an Int32 view of any number of elements, and returns that.
func (c *Checker) wholeInts(name string, v *View) int {
	c.view(name, v, Int32, 0, Whole)
	return v.N
}

// part is view for a table of which the kernel reads at most read elements.
func (c *Checker) part(name string, v *View, t DType, n int, r Rule, read int) {
	if c.Visit != nil {
		*v = c.Visit(Operand{name, *v, t, n, r, read})
		return
	}
	c.view(name, v, t, n, r)
}

// anyLength is the limit of lengths without a limit.
const anyLength = math.MaxInt

// lengths declares the lengths of sequences, each from least to most, and returns their sum.
func (c *Checker) lengths(name string, x *Ints, least, most int) (rows int) {
	for i, n := range x.Host {
		if int(n) < least || int(n) > most {
			c.length(name, i, int(n), least, most)
		}
		rows += int(n)
	}
	c.ints(name, &x.View, len(x.Host))
	return rows
}

// length refuses one of the lengths.
func (c *Checker) length(name string, i, n, least, most int) {
	if most < anyLength {
		c.refuse("%s of item %d is %d, expected %d to %d", name, i, n, least, most)
	}
	c.refuse("%s of item %d is %d, expected at least %d", name, i, n, least)
}

// packed is lengths, called Lengths, of packed sequences (Packing): in descending order, each at least 1.
func (c *Checker) packed(x *Ints, most int) (rows int) {
	p := x.Packing()
	if p.Steps() > most {
		c.length("Lengths", 0, p.Steps(), 1, most)
	}
	c.ints("Lengths", &x.View, len(x.Host))
	return p.Rows()
}

// positive declares sizes that are at least 1; names are their names with spaces between them.
func (c *Checker) positive(names string, sizes ...int) {
	for i, n := range sizes {
		if n < 1 {
			c.refuse("%s is %d, expected at least 1", strings.Fields(names)[i], n)
		}
	}
}

// function declares an elementwise function.
func (c *Checker) function(f Activation) {
	if f > GELU {
		c.refuse("unknown function %d", f)
	}
}

// view checks a view and cuts it.
func (c *Checker) view(name string, v *View, t DType, n int, r Rule) {
	if c.Visit != nil {
		*v = c.Visit(Operand{name, *v, t, n, r, 0})
		return
	}
	if v.Buf == nil {
		if r != Optional {
			c.refuseView(name, "is absent, expected a view of %d elements", n)
		}
		return
	}
	have, size, fault := c.Memory.Inspect(v.Buf)
	if fault == "" && have == t && n >= 0 && v.Off >= 0 && v.N >= n && v.Off <= size-v.N {
		if r == Whole || r == Padded {
			return
		}
		if r != Exact || v.N == n {
			v.N = n
			return
		}
	}
	switch {
	case fault != "":
		c.refuseView(name, "%s", fault)
	case have != t:
		c.refuseView(name, "%v elements, expected %v", have, t)
	case v.Off < 0 || v.N < 0 || v.Off > size-v.N:
		c.refuseView(name, "elements [%d:%d] of a buffer of %d", v.Off, v.Off+v.N, size)
	case n < 0:
		c.refuseView(name, "a size of %d, expected at least 0", n)
	case r == Exact:
		c.refuseView(name, "a view of %d elements, expected %d", v.N, n)
	}
	c.refuseView(name, "a view of %d elements, expected at least %d", v.N, n)
}

func (c *Checker) refuseView(name, format string, args ...any) {
	panic(fmt.Sprintf("%s: %s %s: %s", c.Device, c.Kernel(), name, fmt.Sprintf(format, args...)))
}
