package pickle

import (
	"fmt"
	"math"
	"slices"
)

// machine is the stack machine. Marks are kept as stack heights.
type machine struct {
	in      input
	o       Options
	at      int64 // where the current opcode starts
	stack   []any
	marks   []int
	memo    map[uint64]any
	classes map[string]*Class
	made    int
	work    int64 // elements copied by calls and states
	stop    bool
}

// failure is a panic by which a function of this package ends the reading or writing of a pickle; catch returns its
// error.
type failure struct{ err error }

func failf(format string, args ...any) { panic(failure{fmt.Errorf(format, args...)}) }

// catch returns the error with which f failed.
func catch(f func()) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case failure:
			err = r.err
		default:
			panic(r)
		}
	}()
	f()
	return nil
}

// run executes opcodes up to STOP.
func (m *machine) run() any {
	for !m.stop {
		m.at = m.in.n
		op := m.in.byte()
		f := opcodes[op]
		if f == nil {
			failf("unknown opcode %#02x: not a pickle of protocol 0 to %d, or corrupt", op, maxProtocol)
		}
		f(m)
	}
	v := m.pop()
	if len(m.stack) != 0 {
		failf("%d values left on the stack", len(m.stack))
	}
	return v
}

// push puts a new value on the stack.
func (m *machine) push(v any) {
	if m.made++; m.made > maxValues {
		failf("more than %d values", maxValues)
	}
	m.stack = append(m.stack, v)
}

// floor is the height the current opcode may pop down to.
func (m *machine) floor() int {
	if n := len(m.marks); n > 0 {
		return m.marks[n-1]
	}
	return 0
}

// top returns the value on top of the stack without taking it.
func (m *machine) top() any {
	n := len(m.stack)
	if n <= m.floor() {
		failf("stack underflow: the pickle is corrupt")
	}
	return m.stack[n-1]
}

func (m *machine) pop() any {
	v := m.top()
	m.stack = m.stack[:len(m.stack)-1]
	return v
}

// popN takes the n topmost values, in order, as a fresh slice.
func (m *machine) popN(n int) []any {
	h := len(m.stack) - n
	if h < m.floor() {
		failf("stack underflow: the pickle is corrupt")
	}
	v := append([]any{}, m.stack[h:]...)
	m.stack = m.stack[:h]
	return v
}

// popMark takes everything above the last mark, and the mark.
func (m *machine) popMark() []any {
	n := len(m.marks)
	if n == 0 {
		failf("no mark on the stack: the pickle is corrupt")
	}
	v := m.popN(len(m.stack) - m.marks[n-1])
	m.marks = m.marks[:n-1]
	return v
}

func (m *machine) mark() {
	if len(m.marks) >= maxDepth {
		failf("nested more than %d deep", maxDepth)
	}
	m.marks = append(m.marks, len(m.stack))
}

// put remembers the top of the stack under index.
func (m *machine) put(index uint64) {
	v := m.top()
	if len(m.memo) >= maxValues || index > math.MaxInt32 {
		failf("memo entry %d is beyond the limit of %d", index, maxValues)
	}
	m.memo[index] = v
}

func (m *machine) get(index uint64) {
	v, ok := m.memo[index]
	if !ok {
		failf("memo entry %d does not exist", index)
	}
	m.push(v)
}

// global looks an imported name up in the allow-list.
func (m *machine) global(module, name string) *Class {
	full := module + "." + name
	c, ok := m.classes[full]
	if !ok {
		entry, allowed := m.o.Globals[full]
		switch {
		case allowed:
		case m.o.Instances:
			entry = anyClass(full)
		default:
			failf("it names %.100q, %w", full, errNotAllowed)
		}
		c = &entry
		c.Name = full
		m.classes[full] = c
	}
	return c
}

// reduce calls an allowed name.
func (m *machine) reduce(v []any) {
	c, args := callee(v[0], v[1])
	f := c.Call
	if f == nil {
		f = c.New
	}
	m.construct(c, f, args)
}

// newObject makes an instance of an allowed class.
func (m *machine) newObject(class, args any) {
	c, t := callee(class, args)
	m.construct(c, c.New, t)
}

func (m *machine) construct(c *Class, f func(Tuple) (any, error), args Tuple) {
	if f == nil {
		failf("%s may not be called; nothing was executed", c.Name)
	}
	m.charge(args)
	v, err := f(args)
	if err != nil {
		failf("%s: %w", c.Name, err)
	}
	m.push(v)
}

// charge counts what a call may copy of its arguments. An argument is used about once in an honest pickle, so that the
// total stays near the length of the input; a hostile one could have one long string copied at every second byte.
func (m *machine) charge(args Tuple) {
	for _, a := range args {
		m.work += length(a)
		if t, ok := a.(Tuple); ok {
			for _, b := range t {
				m.work += length(b)
			}
		}
	}
	if m.work > 1<<16+16*m.in.n {
		failf("its calls copy more than 16 times its length")
	}
}

func length(v any) int64 {
	switch o := v.(type) {
	case string:
		return int64(len(o))
	case Bytes:
		return int64(len(o))
	case Tuple:
		return int64(len(o))
	case *List:
		return int64(len(o.Items))
	case *Dict:
		return int64(o.Len())
	}
	return 0
}

func callee(class, args any) (*Class, Tuple) {
	c, ok := class.(*Class)
	if !ok {
		failf("a %s is called; nothing was executed", TypeName(class))
	}
	t, ok := args.(Tuple)
	if !ok {
		failf("arguments of %s are a %s: expected a tuple", c.Name, TypeName(args))
	}
	return c, t
}

// build gives the object under the top of the stack its state.
func (m *machine) build(state any) {
	obj := m.top()
	b, ok := obj.(builder)
	if !ok {
		failf("a %s takes no state", TypeName(obj))
	}
	m.charge(Tuple{state})
	if err := b.buildState(state); err != nil {
		panic(failure{err})
	}
}

// persistent resolves a reference to data outside the pickle.
func (m *machine) persistent(id any) {
	if m.o.Persistent == nil {
		failf("it refers to data outside the pickle")
	}
	v, err := m.o.Persistent(id)
	if err != nil {
		panic(failure{err})
	}
	m.push(v)
}

// appendTo extends the list or set on top of the stack.
func (m *machine) appendTo(items []any) {
	switch c := m.top().(type) {
	case *List:
		c.Items = append(c.Items, items...)
	case *Set:
		c.Items = append(c.Items, items...)
	default:
		failf("a %s cannot be appended to", TypeName(c))
	}
}

// setItems adds alternating keys and values to the dict on top of the stack. The items of an instance of a class
// derived from dict are taken for attributes.
func (m *machine) setItems(items []any) {
	switch d := m.top().(type) {
	case *Dict:
		addPairs(d, items)
	case *Object:
		addPairs(&d.Attrs, items)
	default:
		failf("a %s cannot take items", TypeName(d))
	}
}

// addPairs adds alternating keys and values to a dict and returns it.
func addPairs(d *Dict, items []any) *Dict {
	if len(items)%2 != 0 {
		failf("dict with a key but no value: the pickle is corrupt")
	}
	for pair := range slices.Chunk(items, 2) {
		d.Set(pair[0], pair[1])
	}
	return d
}
