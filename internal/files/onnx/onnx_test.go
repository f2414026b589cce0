package onnx

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"vsetrain/lab/try"
)

// fields are the fields of a message: numbers as they are, messages, strings and packed values as bytes.
func fields(t *testing.T, b []byte) map[protowire.Number][]any {
	t.Helper()
	all := map[protowire.Number][]any{}
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			t.Fatal(protowire.ParseError(n))
		}
		b = b[n:]
		var v any
		switch typ {
		case protowire.VarintType:
			v, n = protowire.ConsumeVarint(b)
		case protowire.Fixed32Type:
			v, n = protowire.ConsumeFixed32(b)
		case protowire.BytesType:
			v, n = protowire.ConsumeBytes(b)
		default:
			t.Fatalf("field %d of wire type %d", num, typ)
		}
		if n < 0 {
			t.Fatal(protowire.ParseError(n))
		}
		all[num], b = append(all[num], v), b[n:]
	}
	return all
}

// example is y = max(0, x W + c), with a weight large enough to lie in its own file.
func example() *Graph {
	g := New("example", "1.2", func(name string) []float32 {
		v := make([]float32, 3*200)
		for i := range v {
			v[i] = float32(i)
		}
		return v
	})
	x := g.Input("x", Float, Dims("batch", 3))
	y := g.Op("MatMul", []Value{x, g.Param("w", []int{3, 200})})
	y = g.Op("LeakyRelu", []Value{g.Op("Add", []Value{y, g.Scalar(0.5)})}, Attr{"alpha", float32(0.25)})
	y = g.Transpose(g.Transpose(y, 1, 0), 1, 0)
	g.Output("y", Float, Dims("batch", 200), y)
	return g
}

// The fields of onnx.proto: what a reader finds in a model.
func TestEncode(t *testing.T) {
	var out, again bytes.Buffer
	for _, w := range []*bytes.Buffer{&out, &again} {
		try.Do(t, example().Encode(w))
	}
	if !bytes.Equal(out.Bytes(), again.Bytes()) {
		t.Error("the same model has other bytes")
	}
	model := fields(t, out.Bytes())
	if v := fields(t, model[8][0].([]byte)); model[1][0] != uint64(8) || v[2][0] != uint64(17) {
		t.Errorf("versions %v %v", model[1], v)
	}
	graph := fields(t, model[7][0].([]byte))
	var ops []string
	for _, n := range graph[1] {
		f := fields(t, n.([]byte))
		ops = append(ops, fmt.Sprintf("%s%q=%q", f[4][0], f[1], f[2]))
	}
	want := []string{`MatMul["x" "w"]=["MatMul_0"]`, `Add["MatMul_0" "const.0.5"]=["Add_1"]`,
		`LeakyRelu["Add_1"]=["LeakyRelu_2"]`, `Transpose["LeakyRelu_2"]=["Transpose_3"]`,
		`Transpose["Transpose_3"]=["Transpose_4"]`, `Identity["Transpose_4"]=["y"]`}
	if !slices.Equal(ops, want) {
		t.Errorf("operators\n%q, want\n%q", ops, want)
	}
	alpha := fields(t, fields(t, graph[1][2].([]byte))[5][0].([]byte))
	if math.Float32frombits(alpha[2][0].(uint32)) != 0.25 || alpha[20][0] != uint64(1) {
		t.Errorf("alpha is %v", alpha)
	}
	perm := fields(t, fields(t, graph[1][3].([]byte))[5][0].([]byte))
	if fmt.Sprint(perm[8]) != "[1 0]" || perm[20][0] != uint64(7) {
		t.Errorf("perm is %v", perm)
	}
	w := fields(t, graph[5][0].([]byte))
	if fmt.Sprint(w[1], w[2]) != "[3 200] [1]" || string(w[8][0].([]byte)) != "w" || len(w[9][0].([]byte)) != 2400 {
		t.Errorf("tensor %v %v %s", w[1], w[2], w[8])
	}
	shape := fields(t, graph[11][0].([]byte))
	tensor := fields(t, fields(t, shape[2][0].([]byte))[1][0].([]byte))
	dims := fields(t, tensor[2][0].([]byte))[1]
	first, second := fields(t, dims[0].([]byte)), fields(t, dims[1].([]byte))
	if string(first[2][0].([]byte)) != "batch" || second[1][0] != uint64(3) || tensor[1][0] != uint64(1) {
		t.Errorf("input %v %v", first, second)
	}
}

// Large constants lie in the other file, where the model says; small ones stay.
func TestEncodeApart(t *testing.T) {
	var model, weights bytes.Buffer
	g := example()
	zeros := g.Tensor("second", []int{3, 200}, func() []float32 { return make([]float32, 600) })
	g.Output("z", Float, Dims(3, 200), zeros)
	try.Do(t, g.EncodeApart(&model, &weights, "example.data"))
	if model.Len() > 1500 {
		t.Errorf("the model has %d bytes: are the weights inside?", model.Len())
	}
	graph := fields(t, fields(t, model.Bytes())[7][0].([]byte))
	where := func(i int) map[string]string {
		out := map[string]string{}
		f := fields(t, graph[5][i].([]byte))
		if len(f[13]) > 0 && (f[14][0] != uint64(1) || f[9] != nil) {
			t.Errorf("tensor %d: location %v with values %v", i, f[14], f[9])
		}
		for _, e := range f[13] {
			pair := fields(t, e.([]byte))
			out[string(pair[1][0].([]byte))] = string(pair[2][0].([]byte))
		}
		return out
	}
	first, second := where(0), where(2)
	if fmt.Sprint(first) != "map[length:2400 location:example.data offset:0]" ||
		fmt.Sprint(second) != "map[length:2400 location:example.data offset:65536]" || len(where(1)) != 0 {
		t.Errorf("tensors lie at %v, %v and %v", first, second, where(1))
	}
	if at, _ := strconv.Atoi(second["offset"]); weights.Len() != at+2400 {
		t.Errorf("%d bytes of weights", weights.Len())
	}
	if v := math.Float32frombits(binary.LittleEndian.Uint32(weights.Bytes()[4*599:])); v != 599 {
		t.Errorf("the last value is %v", v)
	}
	if !g.Fits() {
		t.Error("the model does not fit")
	}
	g.Tensor("large", []int{1 << 15, 1 << 14}, nil)
	if g.Fits() {
		t.Error("2 GiB fit")
	}
}

// Values that do not fill their shape are an error, not a file.
func TestEncodeWrongShape(t *testing.T) {
	g := New("bad", "", nil)
	g.Output("y", Float, Dims(3), g.Tensor("c", []int{3}, func() []float32 { return make([]float32, 2) }))
	const want = "onnx: constant c has 8 bytes, its shape [3] needs 12"
	if err := g.Encode(&bytes.Buffer{}); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
