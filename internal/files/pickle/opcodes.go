package pickle

import (
	"math"
	"math/big"
	"math/bits"
	"slices"
	"unicode/utf8"
)

// maxProtocol is the protocol of Python 3.8 and later.
const maxProtocol = 5

// opcodes maps an opcode to its action; nil means unknown. The names are the same as in CPython's pickle.py.
var opcodes = [256]func(*machine){
	'.':  func(m *machine) { m.stop = true },                              // STOP
	'(':  (*machine).mark,                                                 // MARK
	'0':  (*machine).popOp,                                                // POP
	'1':  func(m *machine) { m.popMark() },                                // POP_MARK
	'2':  func(m *machine) { m.push(m.top()) },                            // DUP
	'N':  func(m *machine) { m.push(nil) },                                // NONE
	0x88: func(m *machine) { m.push(true) },                               // NEWTRUE
	0x89: func(m *machine) { m.push(false) },                              // NEWFALSE
	'I':  func(m *machine) { m.push(textInt(m.in.line())) },               // INT
	'L':  func(m *machine) { m.push(textInt(m.in.line())) },               // LONG
	'F':  func(m *machine) { m.push(textFloat(m.in.line())) },             // FLOAT
	'S':  func(m *machine) { m.push(byteString(quoted(m.in.line()))) },    // STRING
	'V':  func(m *machine) { m.push(escaped(m.in.line())) },               // UNICODE
	'P':  func(m *machine) { m.persistent(m.in.line()) },                  // PERSID
	'g':  func(m *machine) { m.get(textIndex(m.in.line())) },              // GET
	'p':  func(m *machine) { m.put(textIndex(m.in.line())) },              // PUT
	'J':  func(m *machine) { m.push(int64(int32(m.in.uint(4)))) },         // BININT
	'K':  func(m *machine) { m.push(int64(m.in.uint(1))) },                // BININT1
	'M':  func(m *machine) { m.push(int64(m.in.uint(2))) },                // BININT2
	'G':  func(m *machine) { m.push(bigEndian(m.in.uint(8))) },            // BINFLOAT
	0x8a: func(m *machine) { m.push(long(m.in.sized(1))) },                // LONG1
	0x8b: func(m *machine) { m.push(long(m.in.sized(4))) },                // LONG4
	'U':  func(m *machine) { m.push(byteString(m.in.sized(1))) },          // SHORT_BINSTRING
	'T':  func(m *machine) { m.push(byteString(m.in.sized(4))) },          // BINSTRING
	0x8c: func(m *machine) { m.push(unicode(m.in.sized(1))) },             // SHORT_BINUNICODE
	'X':  func(m *machine) { m.push(unicode(m.in.sized(4))) },             // BINUNICODE
	0x8d: func(m *machine) { m.push(unicode(m.in.sized(8))) },             // BINUNICODE8
	'C':  func(m *machine) { m.push(Bytes(m.in.sized(1))) },               // SHORT_BINBYTES
	'B':  func(m *machine) { m.push(Bytes(m.in.sized(4))) },               // BINBYTES
	0x8e: func(m *machine) { m.push(Bytes(m.in.sized(8))) },               // BINBYTES8
	0x96: func(m *machine) { m.push(Bytes(m.in.sized(8))) },               // BYTEARRAY8
	0x97: refuseBuffer,                                                    // NEXT_BUFFER
	0x98: refuseBuffer,                                                    // READONLY_BUFFER
	'h':  func(m *machine) { m.get(m.in.uint(1)) },                        // BINGET
	'j':  func(m *machine) { m.get(m.in.uint(4)) },                        // LONG_BINGET
	'q':  func(m *machine) { m.put(m.in.uint(1)) },                        // BINPUT
	'r':  func(m *machine) { m.put(m.in.uint(4)) },                        // LONG_BINPUT
	0x94: func(m *machine) { m.put(uint64(len(m.memo))) },                 // MEMOIZE
	0x80: (*machine).proto,                                                // PROTO
	0x95: func(m *machine) { m.in.uint(8) },                               // FRAME
	')':  func(m *machine) { m.push(Tuple{}) },                            // EMPTY_TUPLE
	0x85: func(m *machine) { m.push(Tuple(m.popN(1))) },                   // TUPLE1
	0x86: func(m *machine) { m.push(Tuple(m.popN(2))) },                   // TUPLE2
	0x87: func(m *machine) { m.push(Tuple(m.popN(3))) },                   // TUPLE3
	't':  func(m *machine) { m.push(Tuple(m.popMark())) },                 // TUPLE
	']':  func(m *machine) { m.push(&List{}) },                            // EMPTY_LIST
	'l':  func(m *machine) { m.push(&List{Items: m.popMark()}) },          // LIST
	'a':  func(m *machine) { m.appendTo(m.popN(1)) },                      // APPEND
	'e':  func(m *machine) { m.appendTo(m.popMark()) },                    // APPENDS
	'}':  func(m *machine) { m.push(&Dict{}) },                            // EMPTY_DICT
	'd':  func(m *machine) { m.push(addPairs(&Dict{}, m.popMark())) },     // DICT
	's':  func(m *machine) { m.setItems(m.popN(2)) },                      // SETITEM
	'u':  func(m *machine) { m.setItems(m.popMark()) },                    // SETITEMS
	0x8f: func(m *machine) { m.push(&Set{}) },                             // EMPTY_SET
	0x90: func(m *machine) { m.appendTo(m.popMark()) },                    // ADDITEMS
	0x91: func(m *machine) { m.push(&Set{Items: m.popMark()}) },           // FROZENSET
	'c':  func(m *machine) { m.push(m.global(m.in.line(), m.in.line())) }, // GLOBAL
	0x93: func(m *machine) { m.stackGlobal(m.popN(2)) },                   // STACK_GLOBAL
	'R':  func(m *machine) { m.reduce(m.popN(2)) },                        // REDUCE
	0x81: func(m *machine) { v := m.popN(2); m.newObject(v[0], v[1]) },    // NEWOBJ
	0x92: func(m *machine) { m.newObjEx(m.popN(3)) },                      // NEWOBJ_EX
	'i':  (*machine).inst,                                                 // INST
	'o':  func(m *machine) { m.obj(m.popMark()) },                         // OBJ
	'b':  func(m *machine) { m.build(m.pop()) },                           // BUILD
	'Q':  func(m *machine) { m.persistent(m.pop()) },                      // BINPERSID
}

// popOp drops the top value, or the mark if that is on top.
func (m *machine) popOp() {
	if n := len(m.marks); n > 0 && m.marks[n-1] == len(m.stack) {
		m.marks = m.marks[:n-1]
		return
	}
	m.pop()
}

func (m *machine) proto() {
	if p := m.in.byte(); p > maxProtocol {
		failf("protocol %d: expected 0 to %d; write it again with protocol=%d", p, maxProtocol, maxProtocol)
	}
}

// refuseBuffer refuses the buffers that pickle.dump with a buffer_callback leaves out of the file (PEP 574).
func refuseBuffer(*machine) {
	failf("it refers to a buffer outside the pickle; write it again without buffer_callback")
}

// bigEndian is the float whose bytes were read in the other order.
func bigEndian(u uint64) float64 { return math.Float64frombits(bits.ReverseBytes64(u)) }

// maxIntBytes bounds integers: the largest PyTorch writes has 10 bytes.
const maxIntBytes = 256

// long returns a two's complement little-endian integer.
func long(b []byte) any {
	if len(b) > maxIntBytes {
		failf("integer of %d bytes: at most %d are read", len(b), maxIntBytes)
	}
	slices.Reverse(b)
	v := new(big.Int).SetBytes(b)
	if len(b) > 0 && b[0]&0x80 != 0 {
		v.Sub(v, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
	}
	return shortInt(v)
}

// shortInt returns an int64 where it fits.
func shortInt(v *big.Int) any {
	if v.IsInt64() {
		return v.Int64()
	}
	return v
}

// byteString returns a byte string of Python 2.
func byteString(b []byte) any {
	if utf8.Valid(b) {
		return string(b)
	}
	return Bytes(b)
}

// unicode returns a str. Python writes lone surrogates as three bytes; they become U+FFFD.
func unicode(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	return string([]rune(string(b)))
}

func (m *machine) stackGlobal(v []any) {
	module, ok1 := v[0].(string)
	name, ok2 := v[1].(string)
	if !ok1 || !ok2 {
		failf("a global is named by a %s and a %s: expected two str", TypeName(v[0]), TypeName(v[1]))
	}
	m.push(m.global(module, name))
}

func (m *machine) newObjEx(v []any) {
	if kw, ok := v[2].(*Dict); !ok || kw.Len() > 0 {
		failf("keyword arguments for %s are not supported", TypeName(v[0]))
	}
	m.newObject(v[0], v[1])
}

func (m *machine) inst() {
	args := m.popMark()
	m.reduce([]any{m.global(m.in.line(), m.in.line()), Tuple(args)})
}

func (m *machine) obj(v []any) {
	if len(v) == 0 {
		failf("an instance without class: the pickle is corrupt")
	}
	m.reduce([]any{v[0], Tuple(v[1:])})
}
