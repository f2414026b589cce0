package onnx

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"

	"vsetrain/internal/files/elements"
)

// maxInside bounds the bytes of weights inside a file. A protocol buffer has less than 2 GiB, part of it for operators.
const maxInside = 1<<31 - 1<<24

// alignment is the alignment of tensors in a file of weights, because runtimes map whole pages.
const alignment = 1 << 16

// smallest is the size in bytes of the smallest tensor in the file of weights. Smaller tensors stay in the model,
// because runtimes read shapes and scalars when they load it.
const smallest = 1024

// Fits reports whether runtimes can read the model as one file, with its weights inside.
func (g *Graph) Fits() bool {
	var n int64
	for i := range g.tensors {
		n += g.tensors[i].bytes()
	}
	return n <= maxInside
}

func (t *tensor) bytes() int64 { return t.typ.size() * int64(elements.Len(t.dims)) }

// Encode writes a model with its weights inside; see Fits.
func (g *Graph) Encode(w io.Writer) error { return g.encode(w, nil) }

// EncodeApart writes a model to w and its weights to another file. data is the name of that file, which must be in the
// same folder as the model.
func (g *Graph) EncodeApart(w, weights io.Writer, data string) error {
	out, at := bufio.NewWriter(weights), int64(0)
	apart := map[int][]byte{}
	for i := range g.tensors {
		t := &g.tensors[i]
		if t.bytes() < smallest {
			continue
		}
		pad := (alignment - at%alignment) % alignment
		if _, err := out.Write(make([]byte, pad)); err != nil {
			return err
		}
		at += pad
		apart[i] = t.reference(data, at)
		if err := t.write(out); err != nil {
			return err
		}
		at += t.bytes()
	}
	if err := out.Flush(); err != nil {
		return err
	}
	return g.encode(w, apart)
}

// encode writes a model. apart has the fields of tensors whose values are elsewhere.
func (g *Graph) encode(w io.Writer, apart map[int][]byte) error {
	out := bufio.NewWriterSize(w, 1<<20)
	before, after := g.parts()
	heads := make([][]byte, len(g.tensors)) // the fields of a tensor before its values, or all of them
	size := int64(len(before) + len(after))
	for i := range g.tensors {
		heads[i] = g.tensors[i].head(apart[i])
		size += int64(len(heads[i]))
		if apart[i] == nil {
			size += g.tensors[i].bytes()
		}
	}
	out.Write(g.frame(size))
	out.Write(before)
	for i := range g.tensors {
		out.Write(heads[i])
		if apart[i] == nil {
			if err := g.tensors[i].write(out); err != nil {
				return err
			}
		}
	}
	out.Write(after)
	return out.Flush()
}

// frame encodes the model up to its last field, the graph, which has size bytes.
func (g *Graph) frame(size int64) []byte {
	b := number(nil, 1, irVersion)
	b = text(b, 2, "vsetrain")
	b = text(b, 3, g.version)
	b = message(b, 8, number(text(nil, 1, ""), 2, Opset))
	b = protowire.AppendTag(b, 7, protowire.BytesType)
	return protowire.AppendVarint(b, uint64(size))
}

// parts encodes the fields of the graph before the constants and after them.
func (g *Graph) parts() (before, after []byte) {
	for i := range g.nodes {
		before = message(before, 1, g.nodes[i].encode(i))
	}
	before = text(before, 2, g.name)
	for _, p := range g.inputs {
		after = message(after, 11, p.encode())
	}
	for _, p := range g.outputs {
		after = message(after, 12, p.encode())
	}
	return before, after
}

func (n *node) encode(i int) []byte {
	var b []byte
	for _, v := range n.in {
		b = text(b, 1, string(v))
	}
	for _, v := range n.out {
		b = text(b, 2, string(v))
	}
	b = text(b, 3, n.op+"_"+strconv.Itoa(i))
	b = text(b, 4, n.op)
	for _, a := range n.attrs {
		b = message(b, 5, a.encode())
	}
	return b
}

// encode writes an AttributeProto; the last number is its AttributeType.
func (a *Attr) encode() []byte {
	b := text(nil, 1, a.Name)
	switch v := a.Value.(type) {
	case float32:
		b = protowire.AppendFixed32(protowire.AppendTag(b, 2, protowire.Fixed32Type), math.Float32bits(v))
		return number(b, 20, 1)
	case int:
		return number(number(b, 3, int64(v)), 20, 2)
	case string:
		return number(text(b, 4, v), 20, 3)
	case []int:
		for _, x := range v {
			b = number(b, 8, int64(x))
		}
		return number(b, 20, 7)
	}
	panic(fmt.Sprintf("onnx: attribute %s of type %T", a.Name, a.Value))
}

// encode writes a ValueInfoProto.
func (p *port) encode() []byte {
	var shape []byte
	for _, d := range p.dims {
		if d.Name != "" {
			shape = message(shape, 1, text(nil, 2, d.Name))
		} else {
			shape = message(shape, 1, number(nil, 1, int64(d.N)))
		}
	}
	tensor := message(number(nil, 1, int64(p.typ)), 2, shape)
	return message(text(nil, 1, string(p.name)), 2, message(nil, 1, tensor))
}

// head encodes a TensorProto as a field of the graph, up to its values or with the fields that locate them.
func (t *tensor) head(apart []byte) []byte {
	var b []byte
	for _, d := range t.dims {
		b = number(b, 1, int64(d))
	}
	b = text(number(b, 2, int64(t.typ)), 8, string(t.name))
	var size int64
	if apart != nil {
		b = append(b, apart...)
		size = int64(len(b))
	} else {
		b = protowire.AppendTag(b, 9, protowire.BytesType)
		b = protowire.AppendVarint(b, uint64(t.bytes()))
		size = int64(len(b)) + t.bytes()
	}
	head := protowire.AppendVarint(protowire.AppendTag(nil, 5, protowire.BytesType), uint64(size))
	return append(head, b...)
}

// reference encodes the fields that locate the values of a tensor in another file.
func (t *tensor) reference(data string, at int64) (b []byte) {
	for _, e := range [][2]string{{"location", data}, {"offset", strconv.FormatInt(at, 10)},
		{"length", strconv.FormatInt(t.bytes(), 10)}} {
		b = message(b, 13, text(text(nil, 1, e[0]), 2, e[1]))
	}
	return number(b, 14, 1)
}

func (t *tensor) write(w io.Writer) error {
	b := t.data()
	if int64(len(b)) != t.bytes() {
		return fmt.Errorf("onnx: constant %s has %d bytes, its shape %v needs %d", t.name, len(b), t.dims, t.bytes())
	}
	_, err := w.Write(b)
	return err
}

func number(b []byte, field protowire.Number, v int64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), uint64(v))
}

func text(b []byte, field protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), s)
}

func message(b []byte, field protowire.Number, m []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), m)
}
