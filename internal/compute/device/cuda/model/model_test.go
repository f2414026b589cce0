package model

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vsetrain/internal/compute/device/cuda/driver"
	"vsetrain/internal/compute/device/cuda/kernels"
	"vsetrain/lab/try"
)

// Every kernel says what it costs, in terms of its parameters.
func TestCosts(t *testing.T) {
	known, err := costs()
	if err != nil || len(known) < 100 {
		t.Fatalf("%d kernels: %v", len(known), err)
	}
	for name, k := range known {
		call := driver.Call{Kernel: name, Launch: driver.Launch{Grid: [3]uint32{2, 2, 2}, Threads: 64},
			Parameters: strings.Repeat("p", len(k.parameters))}
		for i := range k.parameters {
			call.Launch.Values[i] = 1
		}
		g := GPUs["h200"]
		with := k.variables(call, Batch{10, 20}, g.threads())
		moved, computed := 0.0, 0.0
		for _, p := range parts {
			v, err := k.eval(p, with, 0)
			if err != nil {
				t.Errorf("kernel %s: %v", name, err)
			}
			switch p {
			case "read", "write":
				moved += v
			case "flop", "double", "mma", "tf32":
				computed += v
			}
		}
		if bytes, flop, _, err := g.kernel(call, Batch{10, 20}, k); err != nil || bytes != moved || flop != computed {
			t.Errorf("kernel %s: %v bytes and %v operations, want %v and %v; %v", name, bytes, flop, moved, computed,
				err)
		}
		if moved == 0 {
			t.Errorf("kernel %s moves nothing", name)
		}
	}
}

func TestMistakesInCosts(t *testing.T) {
	for cost, says := range map[string]string{"": "expected one of", "reads 4*n": "expected one of",
		"read 4*": "expected one of"} {
		try.Refuses(parseCost(kernels.Declaration{Cost: cost}))(t, says)
	}
	for cost, says := range map[string]string{"read 4*m": `"m" is no parameter`, "read n%2": "is not known",
		"read f(n)":    "f of 1 values",
		"read 1/(n-n)": "it is +Inf", "read 0-n": "it is -8", "read max(n)": "max of 1 values",
		"read eq(n, 8, 1)": "a call that is not known"} {
		c, err := parseCost(kernels.Declaration{Cost: cost})
		if err != nil {
			t.Errorf("%q: %v", cost, err)
			continue
		}
		try.Refuses(c.eval("read", map[string]float64{"n": 8}, 0))(t, says)
	}
}

// near reports whether a time in milliseconds is that expected in seconds, but for rounding.
func near(ms, seconds float64) bool { return math.Abs(ms/1e3-seconds) <= 1e-9*seconds }

// A sum of two vectors is as fast as memory where all threads read, the latency of memory where one block does; a null
// pointer is not read.
func TestKernels(t *testing.T) {
	g := GPUs["h200"]
	call := func(kernel, parameters string, blocks uint32, values ...uint64) Line {
		t.Helper()
		c := driver.Call{Kernel: kernel, Parameters: parameters, Launch: driver.Launch{Grid: [3]uint32{blocks, 1, 1},
			Threads: 256}}
		copy(c.Launch.Values[:], values)
		table := try.Get(Predict(g, Batch{10, 20}, []driver.Call{c}))(t)
		return table.Lines[0]
	}
	const n = 1 << 26
	start := assumed("start")
	all := call("add", "ppppp", 2048, 1, 1, 1, 0, n)
	resident := 132 * 2048.0
	if want := max(12*n/(4.8e12*assumed("bandwidth")), 8*n/(resident*32)*assumed("dram")) + start; all.Bytes != 12*n ||
		all.Flop != n || !near(all.Predicted, want) {
		t.Errorf("add: %+v, want %v s", all, want)
	}
	if one := call("add", "ppppp", 1, 1, 1, 1, 0, n); !near(one.Predicted, n/4/256*assumed("dram")+start) {
		t.Errorf("add in one block: %+v", one)
	}
	with, without := call("combine", "pppffpp", 2048, 1, 1, 1, 0, 0, 0, n), call("combine", "pppffpp", 2048, 1, 1, 0,
		0, 0, 0, n)
	if with.Bytes != 12*n || without.Bytes != 8*n {
		t.Errorf("combine moves %v bytes, %v without the second operand", with.Bytes, without.Bytes)
	}
}

// Products name their arithmetic, which the GPU has or has not.
func TestProducts(t *testing.T) {
	p := driver.Gemm{M: 4096, N: 4096, K: 4096, Count: 1, TransB: true, Compute: driver.ComputeTF32}
	table := func(g GPU, p driver.Gemm) Line {
		t.Helper()
		table, err := Predict(g, Batch{}, []driver.Call{{Product: &p}, {Product: &p}, {Bytes: 400},
			{Bytes: 400, Copy: true}, {Bytes: 640_000, Copy: true, Host: true}})
		if err != nil || table.Sum.Calls != 5 || len(table.Lines) != 4 || table.Lines[0].Calls != 2 {
			t.Fatalf("%+v, %v", table, err)
		}
		host, copied, fill := table.Lines[1], table.Lines[2], table.Lines[3]
		if copied.Name != "copy" || copied.Bytes != 800 || fill.Name != "fill" || fill.Bytes != 400 {
			t.Errorf("%+v, %+v", copied, fill)
		}
		if want := 640_000/g.Link + assumed("start"); host.Bytes != 640_000 || !near(host.Predicted, want) {
			t.Errorf("from the host: %+v, want %v s", host, want)
		}
		return table.Lines[0]
	}
	h200 := table(GPUs["h200"], p)
	flop := 2 * 2 * math.Pow(4096, 3)
	if h200.Name != "product tf32 4096x4096x4096" || h200.Flop != flop || h200.Bytes != 2*3*4*4096*4096 {
		t.Errorf("%+v", h200)
	}
	if least := flop / (GPUs["h200"].TF32 * assumed("tf32")) * 1e3; h200.Predicted < least ||
		h200.Predicted > 1.3*least {
		t.Errorf("%v ms, the rate alone takes %v", h200.Predicted, least)
	}
	p.TransB = false
	if x := table(GPUs["h200"], p); x.Predicted < 1.3*h200.Predicted {
		t.Errorf("tf32 with the other layout: %v ms, was %v", x.Predicted, h200.Predicted)
	}
	p.Compute, p.Half = driver.Compute32F, true
	if x := table(GPUs["h200"], p); x.Name != "product bf16 4096x4096x4096" || x.Predicted > 0.6*h200.Predicted {
		t.Errorf("%+v, in tf32 %v ms", x, h200.Predicted)
	}
	if x := table(GPUs["a100"], p); x.Predicted < 2*table(GPUs["h100"], p).Predicted {
		t.Errorf("an A100 takes %v ms", x.Predicted)
	}
}

// docs/gpu-model.md tells every assumption.
func TestAssumptionsAreTold(t *testing.T) {
	doc := try.Get(os.ReadFile(filepath.Join("..", "..", "..", "..", "..", "docs", "gpu-model.md")))(t)
	for name, a := range assumptions {
		value := fmt.Sprintf("%g %s", a.Value, a.Unit)
		switch {
		case a.Unit == "s":
			value = fmt.Sprintf("%g µs", 1e6*a.Value)
		case strings.Contains(a.Unit, "data sheet"):
			value = fmt.Sprintf("%g %% %s", 100*a.Value, a.Unit)
		}
		if row := fmt.Sprintf("| %s | %s | %s |", a.What, value, a.From); !strings.Contains(string(doc), row) {
			t.Errorf("%s: there is no row %q", name, row)
		}
	}
}

func TestFind(t *testing.T) {
	if g, err := Find("H200"); err != nil || g.Name != "H200 SXM" {
		t.Errorf("%+v, %v", g, err)
	}
	try.Refuses(Find("h300"))(t, "expected a100, h100, h200, rtx4090")
	for name, g := range GPUs {
		if g.Source == "" || g.Bandwidth == 0 || g.FP64 == 0 || g.BF16 == 0 || g.L2 == 0 || g.Memory == 0 ||
			g.Multiprocessors == 0 {
			t.Errorf("%s: %+v", name, g)
		}
	}
	if _, err := Predict(GPUs["h200"], Batch{}, []driver.Call{{Kernel: "nosuch"}}); err == nil {
		t.Error("a kernel that is not there: no error")
	}
}
