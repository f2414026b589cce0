package pickle

import (
	"fmt"
	"math"
)

// machine is the stack machine. Marks are kept as stack heights.
type machine struct {
	in      input
	o       Options
	limits  Limits
	at      int64 // where the current opcode starts
	stack   []any
	marks   []int
	memo    map[int]any
	classes map[string]*Class
	made    int
	work    int64 // elements copied by calls and states
	stop    bool
}

// run executes opcodes up to STOP.
func (m *machine) run() (any, error) {
	for !m.stop {
		m.at = m.in.n
		op, err := m.in.byte()
		if err != nil {
			return nil, err
		}
		f := opcodes[op]
		if f == nil {
			return nil, fmt.Errorf("unknown opcode %#02x: not a pickle of protocol 0 to %d, or corrupt", op,
				maxProtocol)
		}
		if err := f(m); err != nil {
			return nil, err
		}
	}
	v, err := m.pop()
	if err == nil && len(m.stack) != 0 {
		err = fmt.Errorf("%d values left on the stack", len(m.stack))
	}
	return v, err
}

// push puts a new value on the stack.
func (m *machine) push(v any) error {
	if m.made++; m.made > m.limits.Values {
		return fmt.Errorf("more than %d values", m.limits.Values)
	}
	m.stack = append(m.stack, v)
	return nil
}

// floor is the height the current opcode may pop down to.
func (m *machine) floor() int {
	if n := len(m.marks); n > 0 {
		return m.marks[n-1]
	}
	return 0
}

func (m *machine) pop() (any, error) {
	n := len(m.stack)
	if n <= m.floor() {
		return nil, fmt.Errorf("stack underflow: the pickle is corrupt")
	}
	v := m.stack[n-1]
	m.stack = m.stack[:n-1]
	return v, nil
}

// top returns the value on top of the stack without taking it.
func (m *machine) top() (any, error) {
	v, err := m.pop()
	if err == nil {
		m.stack = m.stack[:len(m.stack)+1]
	}
	return v, err
}

// popN takes the n topmost values, in order, as a fresh slice.
func (m *machine) popN(n int) ([]any, error) {
	h := len(m.stack) - n
	if h < m.floor() {
		return nil, fmt.Errorf("stack underflow: the pickle is corrupt")
	}
	v := append([]any{}, m.stack[h:]...)
	m.stack = m.stack[:h]
	return v, nil
}

// popMark takes everything above the last mark, and the mark.
func (m *machine) popMark() ([]any, error) {
	n := len(m.marks)
	if n == 0 {
		return nil, fmt.Errorf("no mark on the stack: the pickle is corrupt")
	}
	h := m.marks[n-1]
	v := append([]any{}, m.stack[h:]...)
	m.stack, m.marks = m.stack[:h], m.marks[:n-1]
	return v, nil
}

func (m *machine) mark() error {
	if len(m.marks) >= m.limits.Depth {
		return fmt.Errorf("nested more than %d deep", m.limits.Depth)
	}
	m.marks = append(m.marks, len(m.stack))
	return nil
}

// put remembers the top of the stack under index.
func (m *machine) put(index uint64) error {
	v, err := m.top()
	if err != nil {
		return err
	}
	if len(m.memo) >= m.limits.Values || index > math.MaxInt32 {
		return fmt.Errorf("memo entry %d is beyond the limit of %d", index, m.limits.Values)
	}
	m.memo[int(index)] = v
	return nil
}

func (m *machine) get(index uint64) error {
	if index > math.MaxInt32 {
		return fmt.Errorf("memo entry %d does not exist", index)
	}
	v, ok := m.memo[int(index)]
	if !ok {
		return fmt.Errorf("memo entry %d does not exist", index)
	}
	return m.push(v)
}

// global looks an imported name up in the allow-list.
func (m *machine) global(module, name string) error {
	full := module + "." + name
	c, ok := m.classes[full]
	if !ok {
		entry, allowed := m.o.Globals[full]
		if !allowed {
			return fmt.Errorf("it names %s, which is not on the list of what may be loaded; nothing was executed",
				clip(full))
		}
		c = &entry
		c.Name = full
		m.classes[full] = c
	}
	return m.push(c)
}

// clip shortens a name taken from the file for a message.
func clip(s string) string {
	if len(s) > 100 {
		s = s[:100] + "..."
	}
	return fmt.Sprintf("%q", s)
}

// reduce calls an allowed name.
func (m *machine) reduce() error {
	v, err := m.popN(2)
	if err != nil {
		return err
	}
	c, args, err := callee(v[0], v[1])
	if err != nil {
		return err
	}
	f := c.Call
	if f == nil {
		f = c.New
	}
	return m.construct(c, f, args)
}

// newObject makes an instance of an allowed class.
func (m *machine) newObject(class, args any) error {
	c, t, err := callee(class, args)
	if err != nil {
		return err
	}
	return m.construct(c, c.New, t)
}

func (m *machine) construct(c *Class, f func(Tuple) (any, error), args Tuple) error {
	if f == nil {
		return fmt.Errorf("%s may not be called; nothing was executed", c.Name)
	}
	if err := m.charge(args); err != nil {
		return err
	}
	v, err := f(args)
	if err != nil {
		return fmt.Errorf("%s: %w", c.Name, err)
	}
	return m.push(v)
}

// charge counts what a call may copy of its arguments. An argument is used about once in an honest pickle, so that the
// total stays near the length of the input; a hostile one could have one long string copied at every second byte.
func (m *machine) charge(args Tuple) error {
	for _, a := range args {
		m.work += length(a)
		if t, ok := a.(Tuple); ok {
			for _, b := range t {
				m.work += length(b)
			}
		}
	}
	if m.work > 1<<16+16*m.in.n {
		return fmt.Errorf("its calls copy more than 16 times its length")
	}
	return nil
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

func callee(class, args any) (*Class, Tuple, error) {
	c, ok := class.(*Class)
	if !ok {
		return nil, nil, fmt.Errorf("a %s is called; nothing was executed", TypeName(class))
	}
	t, ok := args.(Tuple)
	if !ok {
		return nil, nil, fmt.Errorf("arguments of %s are a %s: expected a tuple", c.Name, TypeName(args))
	}
	return c, t, nil
}

// build gives the object under the top of the stack its state.
func (m *machine) build() error {
	state, err := m.pop()
	if err != nil {
		return err
	}
	obj, err := m.top()
	if err != nil {
		return err
	}
	b, ok := obj.(Builder)
	if !ok {
		return fmt.Errorf("a %s takes no state", TypeName(obj))
	}
	if err := m.charge(Tuple{state}); err != nil {
		return err
	}
	return b.BuildState(state)
}

// persistent resolves a reference to data outside the pickle.
func (m *machine) persistent(id any) error {
	if m.o.Persistent == nil {
		return fmt.Errorf("it refers to data outside the pickle")
	}
	v, err := m.o.Persistent(id)
	if err != nil {
		return err
	}
	return m.push(v)
}

// appendTo extends the list or set on top of the stack.
func (m *machine) appendTo(items []any) error {
	v, err := m.top()
	if err != nil {
		return err
	}
	switch c := v.(type) {
	case *List:
		c.Items = append(c.Items, items...)
	case *Set:
		c.Items = append(c.Items, items...)
	default:
		return fmt.Errorf("a %s cannot be appended to", TypeName(v))
	}
	return nil
}

// setItems adds alternating keys and values to the dict on top of the stack.
func (m *machine) setItems(items []any) error {
	v, err := m.top()
	if err != nil {
		return err
	}
	d, ok := v.(*Dict)
	if !ok {
		return fmt.Errorf("a %s cannot take items", TypeName(v))
	}
	return addPairs(d, items)
}

func addPairs(d *Dict, items []any) error {
	if len(items)%2 != 0 {
		return fmt.Errorf("dict with a key but no value: the pickle is corrupt")
	}
	for i := 0; i < len(items); i += 2 {
		d.Set(items[i], items[i+1])
	}
	return nil
}
