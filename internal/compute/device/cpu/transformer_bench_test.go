package cpu_test

import (
	"testing"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cpu"
	"vsetrain/internal/compute/philox"
	"vsetrain/lab/try"
)

// BenchmarkTransformer is what a layer of bert-base does between its products, for a batch of captions of 8 to 24 word
// pieces.
func BenchmarkTransformer(b *testing.B) {
	const d, inner, heads, rate = 768, 3072, 12, 0.1
	k := newBench(b, cpu.FP32)
	lengths := make([]int32, batch)
	rows := 0
	for i := range lengths {
		lengths[i] = int32(24 - 16*i/(batch-1))
		rows += int(lengths[i])
	}
	step := try.Get(k.d.Alloc(device.Int32, 2))(b)
	drop := device.DropoutParams{Rate: rate, Key: philox.NewKey(1, "bench"),
		Step: device.Ints{View: device.ViewOf(step),
			Host: []int32{0, 0}}}
	run := func(name string, bytes int, call func()) {
		b.Run(name, func(b *testing.B) { (&bench{b, k.d}).time(int64(bytes), 0, call) })
	}
	qkv, dqkv := k.floats(rows*3*d), k.floats(rows*3*d)
	part := func(v device.View, i int) device.View { return v.Slice(i*d, rows*3*d) }
	a := device.SelfAttention{Heads: heads, D: d, LD: 3 * d, Lengths: k.lengths(lengths),
		Drop: drop, Context: k.floats(rows * d), DContext: k.floats(rows * d),
		Query: part(qkv, 0), Key: part(qkv, 1), Value: part(qkv, 2), DQuery: part(dqkv, 0), DKey: part(dqkv, 1),
		DValue: part(dqkv, 2)}
	run("attention", 4*4*rows*d, func() { device.Do(k.d, a) })
	run("attention-grad", 4*7*rows*d, func() { device.DoGrad(k.d, a) })

	n := device.LayerNorm{N: rows, D: d, Eps: 1e-12, Drop: drop, X: k.floats(rows * d), Branch: k.floats(rows * d),
		Sum: k.floats(rows * d), Y: k.floats(rows * d),
		Mean: k.floats(rows), InvStd: k.floats(rows), Weight: k.floats(d), Bias: k.floats(d), DY: k.floats(rows * d),
		DX:      k.floats(rows * d),
		DBranch: k.floats(rows * d), DWeight: k.floats(d), DBias: k.floats(d)}
	run("norm", 4*4*rows*d, func() { device.Do(k.d, n) })
	run("norm-grad", 4*4*rows*d, func() { device.DoGrad(k.d, n) })

	x, y, z := k.floats(rows*inner), k.floats(rows*inner), k.floats(rows*inner)
	bias := k.floats(inner)
	run("gelu", 4*2*rows*inner, func() { device.Do(k.d, device.Activate{F: device.GELU, Y: y, X: x}) })
	g := device.BiasActivate{F: device.GELU, M: rows, N: inner, X: x, DY: y, DX: z}
	run("gelu-grad", 4*3*rows*inner, func() { device.Do(k.d, g) })
	g.Y, g.DBias = k.floats(rows*inner), bias
	run("gelu-grad-bias", 4*4*rows*inner, func() { device.Do(k.d, g) })
	for _, cols := range []int{d, 3 * d, 32} {
		run("columns", 4*rows*inner, func() {
			device.Do(k.d, device.ColumnSum{Dst: bias.Slice(0, cols), X: x, Rows: rows * inner / cols, Columns: cols})
		})
	}
}
