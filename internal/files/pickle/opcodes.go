package pickle

import (
	"fmt"
	"math"
	"math/big"
	"unicode/utf8"
)

// maxProtocol is that of Python 3.8 and later.
const maxProtocol = 5

// opcodes maps an opcode to its action; nil means unknown. The names are those of CPython's pickle.py.
var opcodes = [256]func(*machine) error{
	'.':  func(m *machine) error { m.stop = true; return nil },           // STOP
	'(':  (*machine).mark,                                                // MARK
	'0':  (*machine).popOp,                                               // POP
	'1':  func(m *machine) error { _, err := m.popMark(); return err },   // POP_MARK
	'2':  func(m *machine) error { return m.with1(m.top, m.push) },       // DUP
	'N':  func(m *machine) error { return m.push(nil) },                  // NONE
	0x88: func(m *machine) error { return m.push(true) },                 // NEWTRUE
	0x89: func(m *machine) error { return m.push(false) },                // NEWFALSE
	'I':  func(m *machine) error { return m.textOp(m.pushInt) },          // INT
	'L':  func(m *machine) error { return m.textOp(m.pushInt) },          // LONG
	'F':  func(m *machine) error { return m.textOp(m.pushFloat) },        // FLOAT
	'S':  func(m *machine) error { return m.textOp(m.pushQuoted) },       // STRING
	'V':  func(m *machine) error { return m.textOp(m.pushEscaped) },      // UNICODE
	'P':  func(m *machine) error { return m.textOp(m.persistentText) },   // PERSID
	'g':  func(m *machine) error { return m.textIndex(m.get) },           // GET
	'p':  func(m *machine) error { return m.textIndex(m.put) },           // PUT
	'J':  func(m *machine) error { return m.binInt(4, true) },            // BININT
	'K':  func(m *machine) error { return m.binInt(1, false) },           // BININT1
	'M':  func(m *machine) error { return m.binInt(2, false) },           // BININT2
	'G':  (*machine).binFloat,                                            // BINFLOAT
	0x8a: func(m *machine) error { return m.blob(1, m.pushLong) },        // LONG1
	0x8b: func(m *machine) error { return m.blob(4, m.pushLong) },        // LONG4
	'U':  func(m *machine) error { return m.blob(1, m.pushByteString) },  // SHORT_BINSTRING
	'T':  func(m *machine) error { return m.blob(4, m.pushByteString) },  // BINSTRING
	0x8c: func(m *machine) error { return m.blob(1, m.pushUTF8) },        // SHORT_BINUNICODE
	'X':  func(m *machine) error { return m.blob(4, m.pushUTF8) },        // BINUNICODE
	0x8d: func(m *machine) error { return m.blob(8, m.pushUTF8) },        // BINUNICODE8
	'C':  func(m *machine) error { return m.blob(1, m.pushBytes) },       // SHORT_BINBYTES
	'B':  func(m *machine) error { return m.blob(4, m.pushBytes) },       // BINBYTES
	0x8e: func(m *machine) error { return m.blob(8, m.pushBytes) },       // BINBYTES8
	0x96: func(m *machine) error { return m.blob(8, m.pushBytes) },       // BYTEARRAY8
	0x97: (*machine).buffer,                                              // NEXT_BUFFER
	0x98: (*machine).buffer,                                              // READONLY_BUFFER
	'h':  func(m *machine) error { return m.index(1, m.get) },            // BINGET
	'j':  func(m *machine) error { return m.index(4, m.get) },            // LONG_BINGET
	'q':  func(m *machine) error { return m.index(1, m.put) },            // BINPUT
	'r':  func(m *machine) error { return m.index(4, m.put) },            // LONG_BINPUT
	0x94: func(m *machine) error { return m.put(uint64(len(m.memo))) },   // MEMOIZE
	0x80: (*machine).proto,                                               // PROTO
	0x95: func(m *machine) error { _, err := m.in.uint(8); return err },  // FRAME
	')':  func(m *machine) error { return m.push(Tuple{}) },              // EMPTY_TUPLE
	0x85: func(m *machine) error { return m.tupleOf(1) },                 // TUPLE1
	0x86: func(m *machine) error { return m.tupleOf(2) },                 // TUPLE2
	0x87: func(m *machine) error { return m.tupleOf(3) },                 // TUPLE3
	't':  func(m *machine) error { return m.withMark(m.pushTuple) },      // TUPLE
	']':  func(m *machine) error { return m.push(&List{}) },              // EMPTY_LIST
	'l':  func(m *machine) error { return m.withMark(m.pushList) },       // LIST
	'a':  func(m *machine) error { return m.withN(1, m.appendTo) },       // APPEND
	'e':  func(m *machine) error { return m.withMark(m.appendTo) },       // APPENDS
	'}':  func(m *machine) error { return m.push(&Dict{}) },              // EMPTY_DICT
	'd':  func(m *machine) error { return m.withMark(m.pushDict) },       // DICT
	's':  func(m *machine) error { return m.withN(2, m.setItems) },       // SETITEM
	'u':  func(m *machine) error { return m.withMark(m.setItems) },       // SETITEMS
	0x8f: func(m *machine) error { return m.push(&Set{}) },               // EMPTY_SET
	0x90: func(m *machine) error { return m.withMark(m.appendTo) },       // ADDITEMS
	0x91: func(m *machine) error { return m.withMark(m.pushSet) },        // FROZENSET
	'c':  (*machine).globalOp,                                            // GLOBAL
	0x93: func(m *machine) error { return m.withN(2, m.stackGlobal) },    // STACK_GLOBAL
	'R':  (*machine).reduce,                                              // REDUCE
	0x81: func(m *machine) error { return m.withN(2, m.newObj) },         // NEWOBJ
	0x92: func(m *machine) error { return m.withN(3, m.newObjEx) },       // NEWOBJ_EX
	'i':  (*machine).inst,                                                // INST
	'o':  func(m *machine) error { return m.withMark(m.obj) },            // OBJ
	'b':  (*machine).build,                                               // BUILD
	'Q':  func(m *machine) error { return m.with1(m.pop, m.persistent) }, // BINPERSID
}

func (m *machine) with1(from func() (any, error), f func(any) error) error {
	v, err := from()
	if err != nil {
		return err
	}
	return f(v)
}

func (m *machine) withN(n int, f func([]any) error) error {
	v, err := m.popN(n)
	if err != nil {
		return err
	}
	return f(v)
}

func (m *machine) withMark(f func([]any) error) error {
	v, err := m.popMark()
	if err != nil {
		return err
	}
	return f(v)
}

func (m *machine) textOp(f func(string) error) error {
	s, err := m.in.line()
	if err != nil {
		return err
	}
	return f(s)
}

func (m *machine) blob(lenSize int, f func([]byte) error) error {
	b, err := m.in.sized(lenSize)
	if err != nil {
		return err
	}
	return f(b)
}

func (m *machine) index(size int, f func(uint64) error) error {
	i, err := m.in.uint(size)
	if err != nil {
		return err
	}
	return f(i)
}

// popOp drops the top value, or the mark if that is on top.
func (m *machine) popOp() error {
	if n := len(m.marks); n > 0 && m.marks[n-1] == len(m.stack) {
		m.marks = m.marks[:n-1]
		return nil
	}
	_, err := m.pop()
	return err
}

func (m *machine) proto() error {
	p, err := m.in.byte()
	if err == nil && p > maxProtocol {
		err = fmt.Errorf("protocol %d: expected 0 to %d; write it again with protocol=%d", p, maxProtocol, maxProtocol)
	}
	return err
}

// buffer refuses the buffers that pickle.dump with a buffer_callback leaves out of the file (PEP 574).
func (m *machine) buffer() error {
	return fmt.Errorf("it refers to a buffer outside the pickle; write it again without buffer_callback")
}

func (m *machine) binInt(size int, signed bool) error {
	u, err := m.in.uint(size)
	if err != nil {
		return err
	}
	if signed {
		return m.push(int64(int32(u)))
	}
	return m.push(int64(u))
}

func (m *machine) binFloat() error {
	b, err := m.in.bytes(8)
	if err != nil {
		return err
	}
	return m.push(math.Float64frombits(bigEndian(b)))
}

func bigEndian(b []byte) (u uint64) {
	for _, c := range b {
		u = u<<8 | uint64(c)
	}
	return u
}

// maxIntBytes bounds integers: the largest PyTorch writes has 10 bytes.
const maxIntBytes = 256

// pushLong pushes a two's complement little-endian integer.
func (m *machine) pushLong(b []byte) error {
	if len(b) > maxIntBytes {
		return fmt.Errorf("integer of %d bytes: at most %d are read", len(b), maxIntBytes)
	}
	be := make([]byte, len(b))
	for i, c := range b {
		be[len(b)-1-i] = c
	}
	v := new(big.Int).SetBytes(be)
	if len(be) > 0 && be[0]&0x80 != 0 {
		v.Sub(v, new(big.Int).Lsh(big.NewInt(1), uint(8*len(be))))
	}
	return m.push(shortInt(v))
}

// shortInt returns an int64 where it fits.
func shortInt(v *big.Int) any {
	if v.IsInt64() {
		return v.Int64()
	}
	return v
}

// pushByteString pushes a byte string of Python 2.
func (m *machine) pushByteString(b []byte) error {
	if utf8.Valid(b) {
		return m.push(string(b))
	}
	return m.push(Bytes(b))
}

// pushUTF8 pushes a str. Python writes lone surrogates as three bytes; they become U+FFFD.
func (m *machine) pushUTF8(b []byte) error {
	if utf8.Valid(b) {
		return m.push(string(b))
	}
	return m.push(string([]rune(string(b))))
}

func (m *machine) pushBytes(b []byte) error      { return m.push(Bytes(b)) }
func (m *machine) pushTuple(v []any) error       { return m.push(Tuple(v)) }
func (m *machine) pushList(v []any) error        { return m.push(&List{Items: v}) }
func (m *machine) pushSet(v []any) error         { return m.push(&Set{Items: v}) }
func (m *machine) newObj(v []any) error          { return m.newObject(v[0], v[1]) }
func (m *machine) persistentText(s string) error { return m.persistent(s) }

func (m *machine) tupleOf(n int) error { return m.withN(n, m.pushTuple) }

func (m *machine) pushDict(v []any) error {
	d := &Dict{}
	if err := addPairs(d, v); err != nil {
		return err
	}
	return m.push(d)
}

func (m *machine) globalOp() error {
	module, err := m.in.line()
	if err != nil {
		return err
	}
	name, err := m.in.line()
	if err != nil {
		return err
	}
	return m.global(module, name)
}

func (m *machine) stackGlobal(v []any) error {
	module, ok1 := v[0].(string)
	name, ok2 := v[1].(string)
	if !ok1 || !ok2 {
		return fmt.Errorf("a global is named by a %s and a %s: expected two str", TypeName(v[0]), TypeName(v[1]))
	}
	return m.global(module, name)
}

func (m *machine) newObjEx(v []any) error {
	if kw, ok := v[2].(*Dict); !ok || kw.Len() > 0 {
		return fmt.Errorf("keyword arguments for %s are not supported", TypeName(v[0]))
	}
	return m.newObject(v[0], v[1])
}

func (m *machine) inst() error {
	args, err := m.popMark()
	if err != nil {
		return err
	}
	if err := m.globalOp(); err != nil {
		return err
	}
	class, err := m.pop()
	if err != nil {
		return err
	}
	return m.newObject(class, Tuple(args))
}

func (m *machine) obj(v []any) error {
	if len(v) == 0 {
		return fmt.Errorf("an instance without class: the pickle is corrupt")
	}
	return m.newObject(v[0], Tuple(v[1:]))
}
