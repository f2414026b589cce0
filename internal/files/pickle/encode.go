package pickle

import (
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"math"
	"math/big"
	"slices"
	"strings"
	"unicode/utf8"
)

// Name is an imported name: the Python object module.name itself.
type Name struct{ Module, Name string }

// Reduce is the result of calling Func with Args.
type Reduce struct {
	Func Name
	Args Tuple
}

// PersistentID is a reference to data outside the pickle.
type PersistentID struct{ ID any }

// Encode writes v to w as a protocol 2 pickle, in the opcodes that PyTorch's weights_only reader accepts. v is built
// from the types that Decode returns, except arrays, and from Go's int, float32, []any, []string, map[string]any
// (sorted by key), Name, Reduce and PersistentID. replace, if not nil, gets every value first and may return another. A
// pointer that occurs twice is written once.
func Encode(w io.Writer, v any, replace func(any) (any, error)) error {
	e := &encoder{memo: map[any]int{}, replace: replace}
	e.op(0x80, 2)
	if err := catch(func() { e.value(v, 0) }); err != nil {
		return fmt.Errorf("pickle: %w", err)
	}
	e.op('.')
	_, err := w.Write(e.b)
	return err
}

type encoder struct {
	b       []byte
	memo    map[any]int // Name or pointer -> memo index
	replace func(any) (any, error)
}

func (e *encoder) op(b ...byte) { e.b = append(e.b, b...) }

// seen writes a reference to a value that was written before.
func (e *encoder) seen(key any) bool {
	i, ok := e.memo[key]
	if ok {
		e.index('h', 'j', i)
	}
	return ok
}

// remember gives the value just written a memo index.
func (e *encoder) remember(key any) {
	i := len(e.memo)
	e.memo[key] = i
	e.index('q', 'r', i)
}

// index writes an opcode with a memo index of one byte or four.
func (e *encoder) index(short, long byte, i int) {
	if i < 256 {
		e.op(short, byte(i))
		return
	}
	e.op(long)
	e.b = binary.LittleEndian.AppendUint32(e.b, uint32(i))
}

func (e *encoder) value(v any, depth int) {
	if depth > 200 {
		failf("nested more than 200 deep, or contains itself")
	}
	if e.replace != nil {
		var err error
		if v, err = e.replace(v); err != nil {
			panic(failure{err})
		}
	}
	switch o := v.(type) {
	case nil:
		e.op('N')
	case bool:
		e.op(map[bool]byte{true: 0x88, false: 0x89}[o])
	case int:
		e.integer(int64(o))
	case int64:
		e.integer(o)
	case *big.Int:
		e.bigInt(o)
	case float32:
		e.value(float64(o), depth)
	case float64:
		e.op('G')
		e.b = binary.BigEndian.AppendUint64(e.b, math.Float64bits(o))
	case string:
		e.str(o)
	case Bytes:
		e.value(Reduce{Name{"_codecs", "encode"}, Tuple{latin1(o), "latin1"}}, depth)
	case Tuple:
		e.tuple(o, depth)
	case []any:
		e.op(']')
		e.list(o, depth)
	case []string:
		items := make([]any, len(o))
		for i, s := range o {
			items[i] = s
		}
		e.value(items, depth)
	case *List:
		if !e.seen(o) {
			e.op(']')
			e.remember(o)
			e.list(o.Items, depth)
		}
	case map[string]any:
		d := &Dict{}
		for _, k := range slices.Sorted(maps.Keys(o)) {
			d.Set(k, o[k])
		}
		e.op('}')
		e.items(d, depth)
	case *Dict:
		e.dict(o, depth)
	case *Set:
		e.value(Reduce{Name{"__builtin__", "set"}, Tuple{o.Items}}, depth)
	case *Object:
		e.object(o, depth)
	case Name:
		if !e.seen(o) {
			e.op('c')
			e.b = append(e.b, o.Module+"\n"+o.Name+"\n"...)
			e.remember(o)
		}
	case *Class:
		dot := strings.LastIndexByte(o.Name, '.')
		e.value(Name{o.Name[:max(dot, 0)], o.Name[dot+1:]}, depth)
	case Reduce:
		e.value(o.Func, depth+1)
		e.tuple(o.Args, depth)
		e.op('R')
	case PersistentID:
		e.value(o.ID, depth+1)
		e.op('Q')
	default:
		failf("cannot write a value of type %T", v)
	}
}

func (e *encoder) integer(v int64) {
	switch {
	case v >= 0 && v < 1<<8:
		e.op('K', byte(v))
	case v >= 0 && v < 1<<16:
		e.op('M', byte(v), byte(v>>8))
	case v >= math.MinInt32 && v <= math.MaxInt32:
		e.op('J')
		e.b = binary.LittleEndian.AppendUint32(e.b, uint32(int32(v)))
	default:
		e.op(0x8a, 8)
		e.b = binary.LittleEndian.AppendUint64(e.b, uint64(v))
	}
}

func (e *encoder) bigInt(v *big.Int) {
	size := v.BitLen()/8 + 1 // room for the sign
	if size > 255 {
		failf("integer of %d bits is too long", v.BitLen())
	}
	two := v
	if v.Sign() < 0 {
		two = new(big.Int).Add(v, new(big.Int).Lsh(big.NewInt(1), uint(8*size)))
	}
	b := two.FillBytes(make([]byte, size))
	slices.Reverse(b)
	e.op(0x8a, byte(size))
	e.b = append(e.b, b...)
}

func (e *encoder) str(s string) {
	if !utf8.ValidString(s) || len(s) > math.MaxInt32 {
		failf("string %.100q is not valid UTF-8 or too long", s)
	}
	e.op('X')
	e.b = binary.LittleEndian.AppendUint32(e.b, uint32(len(s)))
	e.b = append(e.b, s...)
}

func (e *encoder) tuple(t Tuple, depth int) {
	if len(t) == 0 {
		e.op(')')
		return
	}
	if len(t) > 3 {
		e.op('(')
	}
	for _, v := range t {
		e.value(v, depth+1)
	}
	e.op([]byte{0x85, 0x86, 0x87, 't'}[min(len(t), 4)-1])
}

func (e *encoder) list(items []any, depth int) {
	if len(items) == 0 {
		return
	}
	e.op('(')
	for _, v := range items {
		e.value(v, depth+1)
	}
	e.op('e')
}

func (e *encoder) dict(d *Dict, depth int) {
	if e.seen(d) {
		return
	}
	if d.Ordered {
		e.value(Reduce{Func: Name{"collections", "OrderedDict"}}, depth)
	} else {
		e.op('}')
	}
	e.remember(d)
	e.items(d, depth)
	if d.Attrs != nil && d.Ordered {
		e.value(d.Attrs, depth+1)
		e.op('b')
	}
}

func (e *encoder) items(d *Dict, depth int) {
	if d.Len() == 0 {
		return
	}
	e.op('(')
	for k, v := range d.All() {
		e.value(k, depth+1)
		if err := catch(func() { e.value(v, depth+1) }); err != nil {
			failf("[%v]: %w", k, err)
		}
	}
	e.op('u')
}

func (e *encoder) object(o *Object, depth int) {
	if e.seen(o) {
		return
	}
	dot := strings.LastIndexByte(o.Class, '.')
	if dot < 0 {
		failf("class %q has no module", o.Class)
	}
	e.value(Name{o.Class[:dot], o.Class[dot+1:]}, depth+1)
	e.tuple(o.Args, depth)
	e.op(0x81)
	e.remember(o)
	e.op('}')
	e.items(&o.Attrs, depth)
	e.op('b')
}
