package models

import (
	"slices"
	"testing"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cpu"
	"vsetrain/internal/compute/graph"
	"vsetrain/lab/definitions"
	"vsetrain/lab/golden"
	ref "vsetrain/lab/reference"
	"vsetrain/lab/try"
)

type precision struct {
	name      string
	out, grad golden.Tolerance
}

// precisions are the arithmetics the golden cases are checked in.
var precisions = []precision{{cpu.FP64, golden.FP64, golden.FP64}, {cpu.FP32, golden.FP32, golden.FP32Grad}}

// referenceDevice names the device that has the core alone, in float64.
const referenceDevice = "reference"

// offGPU are these and the device whose kernels are composed; everywhere adds the GPU, on the emulated driver.
var (
	offGPU     = append(slices.Clone(precisions), precision{referenceDevice, golden.FP64, golden.FP64})
	everywhere = append(slices.Clone(offGPU), precision{emulatedGPU, golden.FP32, golden.FP32Grad})
)

func newDevice(t testing.TB, precision string) device.Device {
	t.Helper()
	switch precision {
	case emulatedGPU:
		return newEmulatedGPU(t)
	case referenceDevice:
		return definitions.Over(ref.New())
	}
	dev := try.Get(cpu.New(cpu.Options{Threads: 2, Precision: precision}))(t)
	t.Cleanup(func() { dev.Close() })
	return dev
}

// compared is a value of a graph, and what a reference computed.
type compared struct {
	what string
	node *graph.Node
	want []float64
	part bool // the value goes on after want
}

// check runs a graph twice, and compares results and the gradients of a loss. A second run must see nothing of the
// first but what before sets, which may be nil. values are the results and gradients.
func (p precision) check(t *testing.T, s *graph.Instance, g *graph.Graph, loss *graph.Node, results,
	gradients []compared, before func()) (prog *graph.Program, values [][]float64) {
	t.Helper()
	var nodes, wrt []*graph.Node
	for _, c := range results {
		nodes = append(nodes, c.node)
	}
	for _, c := range gradients {
		wrt = append(wrt, c.node)
	}
	if len(wrt) > 0 {
		nodes = append(nodes, try.Get(g.Gradients(loss, wrt...))(t)...)
	}
	prog = try.Get(graph.Compile(s, g, nodes, nil))(t)
	for range 2 {
		if before != nil {
			before()
		}
		try.Do(t, prog.RunAll())
	}
	for i, c := range slices.Concat(results, gradients) {
		what, tol := c.what, p.out
		if i >= len(results) {
			what, tol = c.what+" gradient", p.grad
		}
		got := prog.Doubles(nodes[i])
		if c.part {
			got = got[:len(c.want)]
		}
		golden.Close(t, what, got, c.want, tol)
		values = append(values, got)
	}
	return prog, values
}

func ints(x []float64) []int32 {
	out := make([]int32, len(x))
	for i, v := range x {
		out[i] = int32(v)
	}
	return out
}

// setParams uploads the parameters of one part of a golden case.
func setParams(t *testing.T, m *Model, part string, params map[string]golden.Tensor) {
	t.Helper()
	if part != "" {
		part += "."
	}
	for name, v := range params {
		if _, ok := m.Instance.Params.Spec(part + name); !ok {
			t.Fatalf("the network has no parameter %s%s", part, name)
		}
		m.Instance.Dev.UploadDoubles(m.Instance.Params.Value(part+name), v.Data)
	}
}

// VSE++ whole: embeddings, scores, loss and every gradient, the one of the images included.
func TestGoldenVSEPP(t *testing.T) {
	var c struct {
		Config map[string]int
		partedInputs
		Expected partedResults
	}
	golden.Load(t, "vsepp.json", &c)
	o := DefaultOptions()
	o.EmbedDim, o.WordDim = c.Config["embed"], c.Config["word_dim"]
	n := c.network(&c.Expected, c.Config["vocab"])
	for _, p := range everywhere {
		t.Run(p.name, func(t *testing.T) { n.run(t, o, p) })
	}
}
