package devicetest

import (
	"math"

	"vsetrain/internal/compute/device"
)

func testMemory(h *harness) {
	d := h.d
	for _, n := range []int{0, 1, 7, 64, 40_000, 3 << 20} {
		b := h.alloc(d, device.Float, n)
		h.equal("new memory", device.ViewOf(b), make([]float64, n), 0)
		d.Free(b)
	}
	b := h.alloc(d, device.Int32, 9)
	h.equalInts("new int memory", device.ViewOf(b), make([]int32, 9))
	d.Free(b)

	for _, n := range []int{1, 33, 70_001} {
		x := h.normal(n, 1)
		f := make([]float32, n)
		for i := range x {
			x[i] = float64(float32(x[i]))
			f[i] = float32(x[i])
		}
		v, w := h.out(n), h.out(n)
		back := make([]float32, n)
		call := func() {
			d.UploadFloats(v, f)
			device.Do(d, device.Copy{Dst: w, Src: v})
			d.DownloadFloats(back, w)
		}
		h.run("copy", call)
		h.equal("UploadFloats and Copy", w, x, 0)
		for i := range back {
			if back[i] != f[i] {
				h.t.Fatalf("DownloadFloats: element %d is %v, want %v", i, back[i], f[i])
			}
		}
		h.steady("upload, copy and download", call)
		for i := range x {
			x[i] = -2.5
		}
		h.run("Fill", func() { device.Do(d, device.Fill{Dst: w, Value: -2.5}) })
		h.equal("Fill", w, x, 0)
		h.steady("Fill", func() { device.Do(d, device.Fill{Dst: w, Value: math.Pi}) })
		ints := make([]int32, n)
		for i := range ints {
			ints[i] = int32(h.rng.Uint32())
		}
		src, dst := h.inInts(ints), h.outInts(n)
		h.run("Copy of ints", func() { device.Do(d, device.Copy{Dst: dst, Src: src.View}) })
		h.equalInts("Copy of ints", dst, ints)
		h.steady("UploadInts", func() { d.UploadInts(dst, ints) })
		h.release()
	}
	if d.Float64() { // doubles arrive without loss
		v := h.inout([]float64{1 + 1e-15, math.Pi})
		h.equal("UploadDoubles", v, []float64{1 + 1e-15, math.Pi}, 0)
	}
}

// testMistakes checks that wrong sizes and foreign memory panic instead of computing something: here what
// testSizes does not try.
func testMistakes(h *harness) {
	d := h.d
	a, b := h.in(h.normal(6, 1)), h.in(h.normal(7, 1))
	i := h.inInts([]int32{1, 2, 3})
	freed := h.alloc(d, device.Float, 3)
	d.Free(freed)
	fetch := func(device.View) { panic("no device that fetches") }
	if r, ok := device.As[device.Recorder](d); ok {
		fetch = func(v device.View) { r.Fetch(0, a, v) }
	}
	for what, call := range map[string]func(){
		"a fetch of nothing":      func() { fetch(device.View{}) },
		"Add of 6 and 7 elements": func() { device.Do(d, device.Add{Dst: a, A: a, B: b}) },
		"Copy of 6 to 7 elements": func() { device.Do(d, device.Copy{Dst: b, Src: a}) },
		"view beyond its buffer": func() {
			device.Do(d, device.Fill{Dst: device.View{Buf: a.Buf, Off: a.Buf.Len() - 1, N: 2}, Value: 1})
		},
		"negative offset": func() {
			device.Do(d, device.Fill{Dst: device.View{Buf: a.Buf, Off: -1, N: 2}, Value: 1})
		},
		"freed memory": func() { device.Do(d, device.Fill{Dst: device.View{Buf: freed, N: 3}, Value: 1}) },
		"memory of another device": func() {
			device.Do(d, device.Fill{Dst: device.View{Buf: foreign{}, N: 3}, Value: 1})
		},
		"Gemm with a small LDB": func() {
			device.Do(d, device.Gemm{M: 1, N: 3, K: 2, LDB: 2, Alpha: 1, A: a, B: a, C: b})
		},
		"ascending lengths": func() { device.Do(d, device.GRU{I: 1, H: 1, Lengths: i}) },
		"SortPool of too many rows": func() {
			device.Do(d, device.SortPool{D: 1, K: 2, Lengths: i, X: a, Weights: a})
		},
		"Embed of too many positions": func() {
			device.Do(d, device.Embed{L: 3, V: 9, P: 2, K: 1, D: 1, Words: h.inInts(make([]int32, 9)), Lengths: i})
		},
		"SelfAttention of 3 heads in 4": func() {
			device.Do(d, device.SelfAttention{Heads: 3, D: 4, Lengths: i})
		},
		"SelfAttention of overlapping rows": func() {
			device.Do(d, device.SelfAttention{Heads: 1, D: 4, LD: 3, Lengths: i})
		},
		"an edge that leaves its caption": func() {
			device.Do(d, device.WordGraph{E: 1, Lambda: 1, Lengths: h.inInts([]int32{1, 2}), Words: a, Weights: a,
				Sparse: true, Edges: h.inInts([]int32{0, 1}), EdgeStart: h.inInts([]int32{0, 1, 1})})
		},
		"two active products": func() {
			device.Do(d, device.Gemm{M: 1, N: 1, K: 1, Alpha: 1, Batch: 2, StrideC: 1, A: a, B: a, C: b, Active: b})
		},
		"BiasActivateGrad of tanh": func() {
			device.Do(d, device.BiasActivate{F: device.Tanh, M: 1, N: 1, X: a, DY: a, DX: b})
		},
		"LayerNorm without a sum": func() {
			device.Do(d, device.LayerNorm{N: 2, D: 3, X: a, Branch: a, Y: a, Mean: a, InvStd: a, Weight: a, Bias: a})
		},
		"BatchNorm without values": func() { device.Do(d, device.BatchNorm{C: 1, Inner: 1, X: a, Weight: a}) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					h.errorf("%s: no panic", what)
				}
			}()
			call()
		}()
	}
	testSizes(h)
}

type foreign struct{}

func (foreign) DType() device.DType { return device.Float }
func (foreign) Len() int            { return 3 }
