package pickle

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// NumPy allows NumPy arrays (*Array) and scalars (int64, float64, bool).
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

// BuildState takes (version, byte order, ...).
func (d *dtype) BuildState(state any) error {
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
	if err != nil || n <= 0 || n > 1<<20 || !strings.Contains("biufcSa", d.kind[:1]) {
		return 0, fmt.Errorf("NumPy type %q is not read", clip(d.kind))
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
	return a, a.BuildState(Tuple{args[2], args[1], args[3] == "F", args[0]})
}

// BuildState takes (version, shape, dtype, Fortran order, data).
func (a *Array) BuildState(state any) error {
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

// scalar makes a number from (dtype, bytes).
func scalar(args Tuple) (any, error) {
	if len(args) != 2 {
		return nil, fmt.Errorf("expected 2 arguments, found %d", len(args))
	}
	d, ok := args[0].(*dtype)
	b, ok2 := raw(args[1])
	if !ok || !ok2 {
		return nil, fmt.Errorf("expected a dtype and bytes, found a %s and a %s", TypeName(args[0]), TypeName(args[1]))
	}
	if size, err := d.size(); err != nil || size != len(b) || size > 8 {
		return nil, fmt.Errorf("scalar of NumPy type %s with %d bytes is not read", clip(d.kind), len(b))
	}
	var le [8]byte
	for i, c := range b {
		if d.order == ">" {
			i = len(b) - 1 - i
		}
		le[i] = c
	}
	u := binary.LittleEndian.Uint64(le[:])
	shift := uint(64 - 8*len(b))
	switch d.kind {
	case "b1":
		return u != 0, nil
	case "i1", "i2", "i4", "i8":
		return int64(u<<shift) >> shift, nil
	case "u1", "u2", "u4", "u8":
		return shortInt(new(big.Int).SetUint64(u)), nil
	case "f4":
		return float64(math.Float32frombits(uint32(u))), nil
	case "f8":
		return math.Float64frombits(u), nil
	}
	return nil, fmt.Errorf("scalar of NumPy type %s is not read", clip(d.kind))
}
