package main

import (
	"fmt"
	"go/format"
	"slices"
	"strings"
)

// table says how the fields of vec.Ops are made of kernels: by which function of package vec, and of which kernels. The
// name after a point is an element of an array: an elementwise function.
var table = []struct{ field, by, kernels string }{
	{"Fill", "fillWith", "fill"},
	{"Add", "three", "add"},
	{"Mul", "three", "mul"},
	{"Scale", "scaled", "scale"},
	{"Sum2", "twice", "sum2"},
	{"Axpy", "scaled", "axpy"},
	{"MAdd", "three", "madd"},
	{"Hinge", "threeScaled", "hinge"},
	{"Sumsq", "total", "sumsq"},
	{"Dot", "total2", "dot"},
	{"Order", "total2", "order"},
	{"Zero", "none", "allZero"},
	{"Fetch", "fetchWith", "fetch"},
	{"SquareDiff", "threeScaled", "squareDiff"},
	{"SquareDiffGrad", "fiveTotal", "squareDiffGrad"},
	{"Squares", "total", "squares"},
	{"Dots", "dotsWith", "dots"},
	{"Mix", "mixWith", "mix"},
	{"MixRows", "mixRowsWith", "mix mixFour"},
	{"Drop", "dropWith", "drop"},
	{"Exp", "two", "exp"},
	{"Rank", "rankWith", "rank"},
	{"PickMul", "pickWith", "pickMul"},
	{"PickMAdd", "pickWith", "pickMAdd"},
	{"Map.ReLU", "two", "relu"},
	{"Map.Tanh", "two", "tanh"},
	{"Map.Sigmoid", "two", "sigmoid"},
	{"Map.Abs", "two", "abs"},
	{"Map.GELU", "two", "gelu"},
	{"Slope.ReLU", "three", "reluSlope"},
	{"Slope.Tanh", "three", "tanhSlope"},
	{"Slope.Sigmoid", "three", "sigmoidSlope"},
	{"Slope.Abs", "three", "absSlope"},
	{"Slope.GELU", "three", "geluSlope"},
	{"GELUGrad", "four", "geluGrad"},
	{"Softmax", "rowsWith", "softmax"},
	{"SoftmaxGrad", "rowPairsWith", "softmaxGrad"},
	{"Sum", "total", "sum"},
	{"SumDropped", "sumDroppedWith", "sumDropped"},
	{"Spread", "totalFrom", "spread"},
	{"Norm", "normWith", "norm"},
	{"NormSums", "normSumsWith", "normSums"},
	{"NormGrad", "normGradWith", "normGrad"},
	{"Adam", "adamWith", "adam"},
	{"GRUCell", "gruCellWith", "gruCell"},
	{"GRUCellGrad", "gruCellGradWith", "gruCellGrad"},
}

// declarations returns the Go file of an instruction set: the declarations of its kernels, and their table.
func (a *assembler) declarations() (string, error) {
	var s strings.Builder
	s.WriteString("package vec\n\n// Called through Ops alone, where operands escape whatever is said here.\n")
	unused := map[string]bool{}
	for _, k := range a.kernels {
		fmt.Fprintf(&s, "func %s%s%s\n", k.name, a.name, k.types)
		unused[k.name] = true
	}
	fmt.Fprintf(&s, "\n// %s returns the table of these kernels.\nfunc %[1]s() *Ops[float32] {\n", a.lower())
	fmt.Fprintf(&s, "o := &Ops[float32]{Name: %q}\n", a.lower())
	for _, e := range table {
		field := e.field
		if array, element, ok := strings.Cut(field, "."); ok {
			field = array + "[" + element + "]"
		}
		args := strings.Fields(e.kernels)
		for i, name := range args {
			if !slices.ContainsFunc(a.kernels, func(k signature) bool { return k.name == name }) {
				return "", fmt.Errorf("%s is made of a kernel %s that there is not", e.field, name)
			}
			delete(unused, name)
			args[i] = name + a.name
		}
		if e.by == "mixRowsWith" {
			args = append(args, fmt.Sprint(a.mixVectors()*a.lanes))
		}
		fmt.Fprintf(&s, "o.%s = %s(%s)\n", field, e.by, strings.Join(args, ", "))
	}
	s.WriteString("return o\n}\n")
	if len(unused) > 0 {
		return "", fmt.Errorf("no field is made of kernels %v", unused)
	}
	text, err := format.Source([]byte(s.String()))
	return string(text), err
}

// mixVectors is the number of vectors of columns that mixFour takes at a time.
func (a *assembler) mixVectors() int {
	if a.masks || a.neon {
		return 4
	}
	return 2
}
