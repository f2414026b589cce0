package cpu_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cpu"
	"vsetrain/internal/compute/philox"
	"vsetrain/lab/try"
)

// Sizes of a VSE++ training step.
const (
	parameters = 82_000_000
	batch      = 128
)

type bench struct {
	b *testing.B
	d device.Device
}

func newBench(b *testing.B, precision string) *bench {
	d := try.Get(cpu.New(cpu.Options{Precision: precision}))(b)
	b.Cleanup(func() { d.Close() })
	return &bench{b, d}
}

func (b *bench) floats(n int) device.View {
	buf := try.Get(b.d.Alloc(device.Float, n))(b.b)
	x := make([]float32, n)
	r := rand.New(rand.NewPCG(1, 1))
	for i := range x {
		x[i] = float32(r.Uint32())/(1<<31) - 1
	}
	b.d.UploadFloats(device.ViewOf(buf), x)
	return device.ViewOf(buf)
}

// lengths places lengths of sequences.
func (b *bench) lengths(host []int32) device.Ints {
	buf := try.Get(b.d.Alloc(device.Int32, len(host)))(b.b)
	b.d.UploadInts(device.ViewOf(buf), host)
	return device.Ints{View: device.ViewOf(buf), Host: host}
}

// run is time as a benchmark of its own.
func (b *bench) run(name string, bytes, flops int64, call func()) {
	b.b.Run(name, func(t *testing.B) { (&bench{t, b.d}).time(bytes, flops, call) })
}

// time reports the bytes (0: none) and floating-point operations (0: none) per second of the fastest call, which
// says more than the mean on a machine that does other work as well.
func (b *bench) time(bytes, flops int64, call func()) {
	call()
	best := time.Duration(math.MaxInt64)
	for b.b.Loop() {
		start := time.Now()
		call()
		best = min(best, time.Since(start))
	}
	b.b.ReportMetric(best.Seconds()*1e3, "best-ms")
	if flops > 0 {
		b.b.ReportMetric(float64(flops)/best.Seconds()/1e9, "best-GFLOP/s")
	}
	if bytes > 0 {
		b.b.ReportMetric(float64(bytes)/best.Seconds()/1e9, "best-GB/s")
	}
}

// BenchmarkBandwidth is what the other memory-bound kernels are measured against: reading, and a sum of two arrays into
// a third (the write counted once, though the processor reads the line as well).
func BenchmarkBandwidth(b *testing.B) {
	const n = parameters / 2
	k := newBench(b, cpu.FP32)
	x, y, z, acc := k.floats(n), k.floats(n), k.floats(n), k.floats(1)
	k.run("read", 4*n, 0, func() { device.Do(k.d, device.SumSquares{Sum: acc, X: x}) })
	k.run("columns", 4*2000*4096, 0, func() {
		device.Do(k.d, device.ColumnSum{Dst: y.Slice(0, 4096), X: x, Rows: 2000, Columns: 4096})
	})
	k.run("copy", 8*n, 0, func() { device.Do(k.d, device.Copy{Dst: y, Src: x}) })
	k.run("fill", 4*n, 0, func() { device.Do(k.d, device.Fill{Dst: y, Value: 1}) })
	k.run("add", 12*n, 0, func() { device.Do(k.d, device.Add{Dst: z, A: x, B: y}) })
	k.run("update", 12*n, 0, func() { device.Do(k.d, device.Add{Dst: y, A: x, B: y}) })
}

func BenchmarkAdam(b *testing.B) {
	k := newBench(b, cpu.FP32)
	a := device.Adam{P: k.floats(parameters), G: k.floats(parameters), M: k.floats(parameters),
		V: k.floats(parameters), Hyper: k.floats(3), Clip: k.floats(1), Beta1: 0.9, Beta2: 0.999, Eps: 1e-8}
	k.d.UploadFloats(a.Hyper, []float32{2e-4, 1, 1})
	device.Do(k.d, device.Activate{F: device.Abs, Y: a.V, X: a.G})
	k.time(28*parameters, 0, func() { device.Do(k.d, a) })
}

// BenchmarkAdamFactored is the update of VSE++'s image projection [1024, 36*2048] from 128 rows, beside the product
// alone.
func BenchmarkAdamFactored(b *testing.B) {
	const rows, out, in = 128, 1024, 36 * 2048
	flops := int64(2 * rows * out * in)
	for _, p := range []string{cpu.FP32, cpu.BF16} {
		b.Run(p, func(b *testing.B) {
			k := newBench(b, p)
			a := device.Adam{P: k.floats(out * in), M: k.floats(out * in), V: k.floats(out * in),
				Hyper: k.floats(3), Clip: k.floats(1), Beta1: 0.9, Beta2: 0.999, Eps: 1e-8}
			k.d.UploadFloats(a.Hyper, []float32{2e-4, 1, 1})
			f := device.Factored{N: rows, O: out, I: in, DY: k.floats(rows * out), X: k.floats(rows * in)}
			k.run("product", 0, flops, func() {
				device.Do(k.d, device.Gemm{TransA: true, M: out, N: in, K: rows, Alpha: 1, A: f.DY, LDA: out,
					B: f.X, LDB: in, C: a.P, LDC: in})
			})
			k.run("update", 24*out*in, flops, func() {
				device.Do(k.d, device.AdamFactored{Adam: a, Factored: f})
			})
			k.run("norm", 0, 0, func() {
				device.Do(k.d, device.SumSquaresFactored{Sum: a.Clip, Factored: f})
			})
		})
	}
}

// ramp are the lengths of a batch of captions, from the longest to the shortest, and their sum.
func ramp(longest, shortest int) (lengths []int32, rows int) {
	for i := range batch {
		n := longest - (longest-shortest)*i/(batch-1)
		lengths, rows = append(lengths, int32(n)), rows+n
	}
	return lengths, rows
}

// BenchmarkGRU runs over about as many words as a batch of 128 captions has.
func BenchmarkGRU(b *testing.B) {
	for _, p := range []string{cpu.FP32, cpu.BF16} {
		b.Run(p, func(b *testing.B) {
			const n, in = 1024, 300
			k := newBench(b, p)
			lengths, words := ramp(26, 5)
			a := device.GRU{I: in, H: n, Lengths: k.lengths(lengths), X: k.floats(words * in), Y: k.floats(words * n),
				Final: k.floats(batch * n), DFinal: k.floats(batch * n), DX: k.floats(words * in),
				GRUDirection: device.GRUDirection{WIH: k.floats(3 * n * in), WHH: k.floats(3 * n * n),
					BIH: k.floats(3 * n), BHH: k.floats(3 * n), Gates: k.floats(words * 4 * n),
					Prev: k.floats(words * n), DWIH: k.floats(3 * n * in), DWHH: k.floats(3 * n * n),
					DBIH: k.floats(3 * n), DBHH: k.floats(3 * n)}}
			forward := 2 * int64(words) * 3 * n * (n + in)
			k.run("forward", 0, forward, func() { device.Do(k.d, a) })
			k.run("backward", 0, 2*forward, func() { device.DoGrad(k.d, a) })
		})
	}
}

func BenchmarkLosses(b *testing.B) {
	k := newBench(b, cpu.FP32)
	const n = batch
	out := device.LossOut{Loss: k.floats(3), Grad: k.floats(n * n)}
	s, m := k.floats(n*n), k.floats(n*n)
	k.run("hinge", 0, 0, func() {
		device.Do(k.d, device.Hinge{N: n, Scores: s, Margins: m, Max: true, LossOut: out})
	})
	k.run("margins", 0, 0, func() {
		device.Do(k.d, device.SemanticMargins{N: n, Gram: s, Margins: m, Alpha: 0.185, Lambda: 0.025})
	})
	k.run("universal", 0, 0, func() {
		device.Do(k.d, device.UniversalWeighting{N: n, Scores: s, Margin: 0.2, LossOut: out})
	})
}

// BenchmarkSortPool pools the regions of the images of a batch.
func BenchmarkSortPool(b *testing.B) {
	const k, d, rows = 36, 1024, 29
	x := newBench(b, cpu.FP32)
	ranks := try.Get(x.d.Alloc(device.Int32, batch*rows*d))(b)
	a := device.SortPool{D: d, K: k, Lengths: x.lengths(slices.Repeat([]int32{rows}, batch)),
		X: x.floats(batch * rows * d), Weights: x.floats(k * k), Y: x.floats(batch * d), Ranks: device.ViewOf(ranks),
		DY: x.floats(batch * d), DX: x.floats(batch * rows * d), DWeights: x.floats(k * k)}
	x.run("forward", 0, 0, func() { device.Do(x.d, a) })
	x.run("backward", 0, 0, func() { device.DoGrad(x.d, a) })
}

// BenchmarkBatchNorm normalises the rows of a batch of regions, as VSRN does five times a step.
func BenchmarkBatchNorm(b *testing.B) {
	const rows, c = batch * 36, 2048
	k := newBench(b, cpu.FP32)
	a := device.BatchNorm{Outer: rows, C: c, Inner: 1, Eps: 1e-5, Momentum: 0.1, Train: true, X: k.floats(rows * c),
		Weight: k.floats(c), Bias: k.floats(c), RunningMean: k.floats(c), RunningVar: k.floats(c), Mean: k.floats(c),
		InvStd: k.floats(c), Y: k.floats(rows * c), DY: k.floats(rows * c), DX: k.floats(rows * c),
		DWeight: k.floats(c), DBias: k.floats(c)}
	k.run("forward", 8*rows*c, 0, func() { device.Do(k.d, a) })
	k.run("backward", 12*rows*c, 0, func() { device.DoGrad(k.d, a) })
}

// BenchmarkPairs is the work on all pairs of SAF and SGR for a batch of captions of 8 to 22 words.
func BenchmarkPairs(b *testing.B) {
	const r, e, s = 36, 1024, 256
	lengths, words := ramp(22, 8)
	nodes := batch * (words + batch)
	for _, p := range []string{cpu.FP32, cpu.BF16} {
		b.Run(p, func(b *testing.B) {
			k := newBench(b, p)
			all := k.lengths(lengths)
			flops := 2 * int64(batch) * int64(words) * (r*e + e*s)
			a := device.Similarities{B: batch, R: r, E: e, S: s, Lengths: all, Images: k.floats(batch * r * e),
				Rows: k.floats(words * e), Weights: k.floats(words * batch * r), W: k.floats(s * e), Bias: k.floats(s),
				Nodes: k.floats(nodes * s), Norms: k.floats(batch * words), Contexts: k.floats(batch * words),
				DNodes: k.floats(nodes * s), DImages: k.floats(batch * r * e), DRows: k.floats(words * e),
				DWeights: k.floats(words * batch * r), DW: k.floats(s * e), DBias: k.floats(s)}
			w := device.PairAttention{B: batch, R: r, Lambda: 9, Lengths: all, Scores: k.floats(words * batch * r),
				Weights: a.Weights, DWeights: a.DWeights, DScores: k.floats(words * batch * r)}
			k.run("attention", 0, 0, func() { device.Do(k.d, w) })
			k.run("attention-grad", 0, 0, func() { device.DoGrad(k.d, w) })
			k.run("similarities", 0, flops, func() { device.Do(k.d, a) })
			k.run("similarities-grad", 0, 2*flops, func() { device.DoGrad(k.d, a) })
			a.Filter = device.Filter{W: k.floats(s), Bias: k.floats(1), Logits: k.floats(nodes),
				Weights: k.floats(nodes), DSums: k.floats(batch * batch * s), DLogits: k.floats(nodes), DW: k.floats(s)}
			device.Do(k.d, device.Fill{Dst: a.Filter.DSums})
			k.run("filtered", 0, flops, func() { device.Do(k.d, a) })
			k.run("filtered-grad", 0, 2*flops, func() { device.DoGrad(k.d, a) })
		})
	}
}

// BenchmarkTransformer is what a layer of bert-base does between its products, for a batch of captions of 8 to 24 word
// pieces.
func BenchmarkTransformer(b *testing.B) {
	const d, inner, heads, rate = 768, 3072, 12, 0.1
	k := newBench(b, cpu.FP32)
	lengths, rows := ramp(24, 8)
	step := try.Get(k.d.Alloc(device.Int32, 2))(b)
	drop := device.DropoutParams{Rate: rate, Key: philox.NewKey(1, "bench"),
		Step: device.Ints{View: device.ViewOf(step), Host: []int32{0, 0}}}
	run := func(name string, bytes int, call func()) { k.run(name, int64(bytes), 0, call) }
	qkv, dqkv := k.floats(rows*3*d), k.floats(rows*3*d)
	part := func(v device.View, i int) device.View { return v.Slice(i*d, rows*3*d) }
	a := device.SelfAttention{Heads: heads, D: d, LD: 3 * d, Lengths: k.lengths(lengths),
		Drop: drop, Context: k.floats(rows * d), DContext: k.floats(rows * d),
		Query: part(qkv, 0), Key: part(qkv, 1), Value: part(qkv, 2), DQuery: part(dqkv, 0), DKey: part(dqkv, 1),
		DValue: part(dqkv, 2)}
	run("attention", 4*4*rows*d, func() { device.Do(k.d, a) })
	run("attention-grad", 4*7*rows*d, func() { device.DoGrad(k.d, a) })

	n := device.LayerNorm{N: rows, D: d, Eps: 1e-12, Drop: drop, X: k.floats(rows * d), Branch: k.floats(rows * d),
		Sum: k.floats(rows * d), Y: k.floats(rows * d), Mean: k.floats(rows), InvStd: k.floats(rows),
		Weight: k.floats(d), Bias: k.floats(d), DY: k.floats(rows * d), DX: k.floats(rows * d),
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
