package pickle

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"vsetrain/internal/files/half"
)

// NumPy allows NumPy arrays (*Array) and scalars (int64, float64, bool, string).
func NumPy() Globals {
	t := Globals{
		"numpy.dtype":   {Call: newDType},
		"numpy.ndarray": {},
	}
	for _, core := range []string{"numpy.core.", "numpy._core."} {
		t[core+"multiarray._reconstruct"] = Class{Call: newArray}
		t[core+"multiarray.scalar"] = Class{Call: scalar}
		t[core+"numeric._frombuffer"] = Class{Call: fromBuffer}
	}
	return t
}

// Array is a NumPy array: raw elements, or Objects for an array of Python objects.
type Array struct {
	DType   string // "<f4" or the like; "|O" for objects
	Shape   []int
	Fortran bool
	Data    []byte // Shape elements of DType
	Objects []any  // Shape elements, when DType is "|O"
}

// dtype is a numpy.dtype under construction.
type dtype struct{ order, kind string } // kind is not empty

func newDType(args Tuple) (any, error) {
	kind, ok := "", false
	if len(args) > 0 {
		kind, ok = args[0].(string)
	}
	order := "|"
	if ok && kind != "" && strings.ContainsAny(kind[:1], "<>|=") {
		order, kind = kind[:1], kind[1:]
	}
	if kind == "" {
		return nil, fmt.Errorf("expected the code of a type, like 'f4'")
	}
	return &dtype{order, kind}, nil
}

// buildState takes (version, byte order, ...).
func (d *dtype) buildState(state any) error {
	t, ok := state.(Tuple)
	if !ok || len(t) < 2 {
		return fmt.Errorf("state of a numpy.dtype: expected a tuple of at least 2")
	}
	order, ok := Text(t[1])
	if !ok || len(order) != 1 || !strings.Contains("<>|=", order) {
		return fmt.Errorf("state of a numpy.dtype: byte order is a %s", TypeName(t[1]))
	}
	d.order = order
	return nil
}

// size returns the bytes of an element, 0 for objects.
func (d *dtype) size() (int, error) {
	if d.kind[0] == 'O' {
		return 0, nil
	}
	n, err := strconv.Atoi(d.kind[1:])
	if err != nil || n <= 0 || n > 1<<20 || !strings.Contains("biufcSaUMm", d.kind[:1]) {
		return 0, fmt.Errorf("NumPy type %.100q is not read", d.kind)
	}
	if d.kind[0] == 'U' {
		n *= 4
	}
	return n, nil
}

func (d *dtype) String() string {
	if d.kind[0] == 'O' {
		return "|O"
	}
	return d.order + d.kind
}

func newArray(args Tuple) (any, error) {
	if len(args) != 3 {
		return nil, fmt.Errorf("expected 3 arguments, found %d", len(args))
	}
	if c, ok := args[0].(*Class); !ok || c.Name != "numpy.ndarray" {
		return nil, fmt.Errorf("only numpy.ndarray is rebuilt, found a %s", TypeName(args[0]))
	}
	return &Array{}, nil
}

// fromBuffer is how protocol 5 makes an array, from (data, dtype, shape, order).
func fromBuffer(args Tuple) (any, error) {
	if len(args) != 4 {
		return nil, fmt.Errorf("expected 4 arguments, found %d", len(args))
	}
	a := &Array{}
	return a, a.buildState(Tuple{args[2], args[1], args[3] == "F", args[0]})
}

// buildState takes (version, shape, dtype, Fortran order, data).
func (a *Array) buildState(state any) error {
	t, ok := state.(Tuple)
	if ok && len(t) == 5 {
		t = t[1:]
	}
	if !ok || len(t) != 4 {
		return fmt.Errorf("state of a numpy.ndarray: expected a tuple of 5")
	}
	dims, ok1 := t[0].(Tuple)
	d, ok2 := t[1].(*dtype)
	if !ok1 || !ok2 {
		return fmt.Errorf("state of a numpy.ndarray: expected shape and dtype, found a %s and a %s", TypeName(t[0]),
			TypeName(t[1]))
	}
	n, shape := 1, make([]int, len(dims))
	for i, dim := range dims {
		v, ok := dim.(int64)
		if !ok || v < 0 || v > math.MaxInt32 || v > 0 && int64(n) > math.MaxInt32*1024/v {
			return fmt.Errorf("state of a numpy.ndarray: bad dimension %v", dim)
		}
		shape[i] = int(v)
		n *= int(v)
	}
	size, err := d.size()
	if err != nil {
		return err
	}
	a.Shape, a.DType, a.Fortran = shape, d.String(), t[2] == true || t[2] == int64(1)
	if size == 0 {
		l, ok := t[3].(*List)
		if !ok || len(l.Items) != n {
			return fmt.Errorf("array of objects, shape %v: expected a list of %d", shape, n)
		}
		a.Objects = l.Items
		return nil
	}
	b, ok := raw(t[3])
	if !ok || len(b)/size != n || len(b)%size != 0 {
		return fmt.Errorf("array of shape %v and type %s: expected %d elements, found %d bytes", shape, d, n, len(b))
	}
	a.Data = b
	return nil
}

// scalar makes a number or text from (dtype, bytes).
func scalar(args Tuple) (any, error) {
	if len(args) != 2 {
		return nil, fmt.Errorf("expected 2 arguments, found %d", len(args))
	}
	d, ok := args[0].(*dtype)
	b, ok2 := raw(args[1])
	if !ok || !ok2 {
		return nil, fmt.Errorf("expected a dtype and bytes, found a %s and a %s", TypeName(args[0]), TypeName(args[1]))
	}
	if len(b) == 0 && strings.Contains("US", d.kind[:1]) {
		return "", nil
	}
	if size, err := d.size(); err != nil || size == 0 || size != len(b) {
		return nil, fmt.Errorf("scalar of NumPy type %.100q with %d bytes is not read", d.kind, len(b))
	}
	return d.element(b), nil
}

// Scalar returns the element of an array that has one, as a NumPy scalar.
func (a *Array) Scalar() (any, bool) {
	if len(a.Objects) == 1 {
		return a.Objects[0], true
	}
	d := &dtype{a.DType[:1], a.DType[1:]}
	if size, err := d.size(); err != nil || size == 0 || size != len(a.Data) {
		return nil, false
	}
	return d.element(a.Data), true
}

// element is an element of the type as plain data; of a type that has no such form, an object without attributes.
func (d *dtype) element(b []byte) any {
	le := slices.Clone(b)
	if d.order == ">" {
		slices.Reverse(le)
	}
	var word [8]byte
	copy(word[:], le)
	u := binary.LittleEndian.Uint64(word[:])
	shift := uint(max(64-8*len(b), 0))
	switch d.kind {
	case "b1":
		return u != 0
	case "i1", "i2", "i4", "i8":
		return int64(u<<shift) >> shift
	case "u1", "u2", "u4", "u8":
		return shortInt(new(big.Int).SetUint64(u))
	case "f2":
		return float64(half.Float32(uint16(u)))
	case "f4":
		return float64(math.Float32frombits(uint32(u)))
	case "f8":
		return math.Float64frombits(u)
	case "f16":
		return extended(le)
	}
	switch d.kind[0] {
	case 'S', 'a':
		return byteString(bytes.TrimRight(b, "\x00"))
	case 'U':
		var text []rune
		for c := range slices.Chunk(le, 4) {
			text = append(text, rune(binary.LittleEndian.Uint32(c)))
		}
		if d.order == ">" {
			slices.Reverse(text)
		}
		return strings.TrimRight(string(text), "\x00")
	}
	return &Object{Class: "numpy scalar of type " + d.kind}
}

// extended is the long double of x86 in 16 bytes: 64 bits of the fraction, then the exponent and the sign.
func extended(le []byte) float64 {
	fraction, exponent := binary.LittleEndian.Uint64(le), int(binary.LittleEndian.Uint16(le[8:]))
	v := math.Ldexp(float64(fraction), exponent&0x7fff-16383-63)
	if exponent&0x7fff == 0x7fff {
		v = math.NaN()
	}
	return math.Copysign(v, -float64(exponent>>15&1)+0.5)
}
