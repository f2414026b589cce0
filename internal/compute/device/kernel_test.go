package device

import (
	"strings"
	"testing"
)

// notes is a device that notes what it is given, and does a kernel within a kernel of the same type.
type notes struct {
	Device
	t     *testing.T
	given []string
}

func (d *notes) Name() string { return "notes" }

func (d *notes) Do(k Kernel) bool {
	d.given = append(d.given, NameOf(k))
	switch a := k.(type) {
	case *GRU:
		if a.I > 1 {
			Do(d, GRU{I: a.I - 1})
		}
		if a.I == 0 {
			d.t.Error("a kernel lost its sizes while it was computed")
		}
		return true
	case *Fill:
		return a.Value == 0
	}
	return false
}

func TestDo(t *testing.T) {
	d := &notes{t: t}
	Do(d, GRU{I: 3})
	DoGrad(d, GRU{I: 1})
	Do(d, GRU{I: 1})
	Do(d, Fill{})
	if got := strings.Join(d.given, " "); got != "GRU GRU GRU GRUGrad GRU Fill" {
		t.Errorf("kernels %s", got)
	}
	for range 10 { // a collection empties pools
		if n := testing.AllocsPerRun(20, func() { Do(d, Fill{}); d.given = d.given[:0] }); n == 0 {
			break
		} else if n > 1 {
			t.Fatalf("%v allocations", n)
		}
	}
	defer func() {
		if r := recover(); r != "notes has no kernel Fill" {
			t.Errorf("a kernel that a device lacks for its numbers: %v", r)
		}
	}()
	Do(d, Fill{Value: 1})
}

// around is a device around another one.
type around struct{ Device }

func (a around) Unwrap() Device { return a.Device }

func (d *notes) Warnings() []string { return []string{"slow"} }

func TestAs(t *testing.T) {
	d := around{around{&notes{}}}
	if w, ok := As[Warner](d); !ok || w.Warnings()[0] != "slow" {
		t.Error("a device two floors down does not warn")
	}
	if _, ok := As[Recorder](d); ok {
		t.Error("a device that records nothing records")
	}
}

func TestFlops(t *testing.T) {
	lengths, there := Ints{Host: []int32{3, 1}}, View{Buf: memory{}}
	grad := Gradient{Grad: true}
	for _, c := range []struct {
		k    Kernel
		want float64
	}{
		{&Gemm{M: 2, N: 3, K: 4}, 48},
		{&Gemm{M: 2, N: 3, K: 4, Batch: 5}, 240},
		{&Fill{}, 0},
		{&GRU{I: 5, H: 2, Lengths: lengths}, 2 * 4 * 6 * 7},
		{&GRU{Gradient: grad, I: 5, H: 2, Lengths: lengths}, 2 * 4 * 6 * (5 + 2*2)},
		{&GRU{Gradient: grad, I: 5, H: 2, Lengths: lengths, DX: there}, 2 * 2 * 4 * 6 * 7},
		{&BiGRU{I: 5, H: 2, Lengths: lengths}, 2 * 2 * 4 * 6 * 7},
		{&SelfAttention{D: 4, Lengths: lengths}, 2 * 2 * (9 + 1) * 4},
		{&Similarities{B: 2, R: 3, E: 4, S: 5, Lengths: lengths}, 2 * 2 * 4 * 4 * (3 + 5)},
		{&Similarities{Global: true, B: 2, R: 3, E: 4, S: 5, Lengths: lengths}, 2 * 2 * 2 * 4 * 5},
		{&GraphReason{B: 2, S: 3, Lengths: lengths}, 2 * 2 * (4*3*(6+8) + 2*3*(6+4))},
		{&GraphReason{First: true, B: 2, S: 3, Lengths: lengths}, 2 * 2 * (3*(6+8) + 3*(6+4))},
		{&BlockMatch{B: 2, R: 3, E: 4, Lengths: lengths}, 2 * 2 * 2 * 4 * 3 * 4},
		{&AdamFactored{Factored: Factored{N: 2, O: 3, I: 4}}, 48},
	} {
		if got := Flops(c.k); got != c.want {
			t.Errorf("%s %+v: %v, want %v", NameOf(c.k), c.k, got, c.want)
		}
	}
}

type memory struct{}

func (memory) DType() DType { return Float }
func (memory) Len() int     { return 0 }
