package model

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"strconv"
	"strings"

	"vsetrain/internal/compute/device/cuda/driver"
	"vsetrain/internal/compute/device/cuda/kernels"
)

// A cost is what a kernel says of itself in its source:
//
//	// Cost: read 8*n; write 4*n; flop n; flight 8
//
// read and write are bytes of device memory, each counted once. flop and double are float32 and float64 operations, mma
// those of tensor cores on bfloat16, tf32 on TF32. flight is how many bytes a thread has asked for before it waits
// (4 where it is not said). turns is how often a thread waits for memory, one time after the other; where it is not
// said, as often as reading its share takes. hits is how often it waits for the L2 cache beside that. An expression may
// use the kernel's parameters, of which a pointer is 1 where it is not null, and
//
//	gx gy gz block     the grid, and the threads of a block
//	words longest      the mean and the longest caption of the batch
//	resident           threads that the GPU holds at once
//	ceil max min eq    functions; eq is 1 where both are the same, otherwise 0
type cost struct {
	parameters []string // names
	pointer    []bool
	parts      map[string]ast.Expr
}

var parts = []string{"read", "write", "flop", "double", "mma", "tf32", "flight", "turns", "hits"}

// costs are those of all kernels, by name.
func costs() (map[string]*cost, error) {
	declared, err := kernels.Declared()
	if err != nil {
		return nil, err
	}
	all := map[string]*cost{}
	for _, d := range declared {
		if all[d.Name], err = parseCost(d); err != nil {
			return nil, fmt.Errorf("kernel %s: %w", d.Name, err)
		}
	}
	return all, nil
}

func parseCost(d kernels.Declaration) (*cost, error) {
	c := &cost{parts: map[string]ast.Expr{}}
	for _, p := range d.Parameters {
		c.parameters = append(c.parameters, p.Name)
		c.pointer = append(c.pointer, p.Pointer)
	}
	for _, part := range strings.Split(d.Cost, ";") {
		name, text, _ := strings.Cut(strings.TrimSpace(part), " ")
		known := false
		for _, p := range parts {
			known = known || p == name
		}
		e, err := parser.ParseExpr(text)
		if !known || err != nil {
			return nil, fmt.Errorf("cost %q: expected one of %s and an expression: %v", part, strings.Join(parts, ", "),
				err)
		}
		c.parts[name] = e
	}
	return c, nil
}

// eval is a part of the cost of a call, or otherwise where the kernel does not say it.
func (c *cost) eval(part string, with map[string]float64, otherwise float64) (float64, error) {
	e, ok := c.parts[part]
	if !ok {
		return otherwise, nil
	}
	v, err := eval(e, with)
	if err == nil && (math.IsNaN(v) || math.IsInf(v, 0) || v < 0) {
		err = fmt.Errorf("it is %v", v)
	}
	if err != nil {
		return 0, fmt.Errorf("cost %s: %w", part, err)
	}
	return v, nil
}

// variables are what the expressions of a call may use.
func (c *cost) variables(call driver.Call, b Batch, resident float64) map[string]float64 {
	with := map[string]float64{}
	for i, name := range c.parameters {
		if i >= len(call.Parameters) {
			break
		}
		switch v := call.Launch.Values[i]; call.Parameters[i] {
		case 'i':
			with[name] = float64(int32(v))
		case 'f':
			with[name] = float64(math.Float32frombits(uint32(v)))
		default:
			with[name] = float64(int64(v))
			if c.pointer[i] {
				with[name] = float64(min(v, 1))
			}
		}
	}
	with["block"], with["words"], with["longest"], with["resident"] = float64(call.Launch.Threads), b.Words, b.Longest,
		resident
	for i, name := range []string{"gx", "gy", "gz"} {
		with[name] = float64(call.Launch.Grid[i])
	}
	return with
}

func eval(e ast.Expr, with map[string]float64) (float64, error) {
	switch x := e.(type) {
	case *ast.BasicLit:
		return strconv.ParseFloat(x.Value, 64)
	case *ast.ParenExpr:
		return eval(x.X, with)
	case *ast.Ident:
		v, ok := with[x.Name]
		if !ok {
			return 0, fmt.Errorf("%q is no parameter", x.Name)
		}
		return v, nil
	case *ast.BinaryExpr:
		a, err := eval(x.X, with)
		if err != nil {
			return 0, err
		}
		b, err := eval(x.Y, with)
		if err != nil {
			return 0, err
		}
		switch x.Op {
		case token.ADD:
			return a + b, nil
		case token.SUB:
			return a - b, nil
		case token.MUL:
			return a * b, nil
		case token.QUO:
			return a / b, nil
		}
	case *ast.CallExpr:
		return call(x, with)
	}
	return 0, fmt.Errorf("%T is not known to the cost of a kernel", e)
}

func call(x *ast.CallExpr, with map[string]float64) (float64, error) {
	var v [2]float64
	name, ok := x.Fun.(*ast.Ident)
	if !ok || len(x.Args) > len(v) {
		return 0, fmt.Errorf("a call that is not known to the cost of a kernel")
	}
	for i, a := range x.Args {
		var err error
		if v[i], err = eval(a, with); err != nil {
			return 0, err
		}
	}
	switch {
	case name.Name == "ceil" && len(x.Args) == 1:
		return math.Ceil(v[0]), nil
	case name.Name == "max" && len(x.Args) == 2:
		return max(v[0], v[1]), nil
	case name.Name == "min" && len(x.Args) == 2:
		return min(v[0], v[1]), nil
	case name.Name == "eq" && len(x.Args) == 2:
		if v[0] == v[1] {
			return 1, nil
		}
		return 0, nil
	}
	return 0, fmt.Errorf("%s of %d values is not known to the cost of a kernel", name.Name, len(x.Args))
}
