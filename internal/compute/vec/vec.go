// Package vec holds the vector kernels of the CPU device: elementwise maps, reductions, Adam and the gates of a GRU,
// each over one contiguous range of memory on one thread.
//
// The kernels are tables of functions. The tables in plain Go run everywhere (Go64 for float64); Best is the fastest
// table for this processor (assembly for AVX-512, AVX2 or NEON, which lab/asmgen writes). All tables compute the same
// formulas. Their results differ only by rounding, and a table always gives the same bits.
//
// Reductions accumulate in float64 for any element type, unless their comment says T: those are for rows of networks.
//
// Why not gonum: its vector kernels are internal, and cover only the first level of BLAS.
package vec

// Float is the element type of a kernel.
type Float interface{ float32 | float64 }

// Ops is a table of kernels. Unless noted, all slices of a call have the length of the first one, which is checked,
// and an output may be the same slice as an input.
type Ops[T Float] struct {
	Name string // "go", "neon", "avx2", "avx512"

	Fill  func(dst []T, value T)
	Add   func(dst, a, b []T)         // dst = a + b
	Mul   func(dst, a, b []T)         // dst = a∘b
	Scale func(dst, x []T, s T)       // dst = s·x
	Sum2  func(dst, x, y []T, a, b T) // dst = a·x + b·y
	Axpy  func(dst, x []T, a T)       // dst += a·x
	MAdd  func(dst, a, b []T)         // dst += a∘b
	Hinge func(dst, c, x []T, a T)    // dst += a·max(0, c - x)
	Sumsq func(x []T) float64         // Σ x²
	Dot   func(x, y []T) float64      // Σ x·y
	Order func(c, x []T) float64      // Σ max(0, c - x)²
	Zero  func(x []T) bool            // whether every element is 0 or -0; NaN is not
	// Fetch asks the processor to bring x into its level-2 cache, for reading or writing; it changes nothing.
	Fetch func(x []T)
	// SquareDiff and SquareDiffGrad are z = (s·u - c)² and g = dz∘(s·u - c), dc -= 2g, giving Σ u·g accumulated in T.
	SquareDiff     func(z, u, c []T, s T)
	SquareDiffGrad func(g, dz, u, c, dc []T, s T) float64
	Squares        func(x []T) float64            // Σ x² accumulated in T
	Rank           func(x, y []T, rx, ry []int32) // where y > x rx++, elsewhere ry++
	// PickMul and PickMAdd are dst = t∘x and dst += t∘x with t_i = table[index_i]; indices beyond the table are taken
	// for its last.
	PickMul  func(dst, table []T, index []int32, x []T)
	PickMAdd func(dst, table []T, index []int32, x []T)
	// Dots and Mix are products of one row with a matrix of rows ld elements apart, accumulated in T.
	Dots func(dst, x, rows []T, ld int) // dst_j = Σ_k x_k·rows[j·ld + k]
	Mix  func(dst, w, rows []T, ld int) // dst_k = Σ_j w_j·rows[j·ld + k]
	// MixRows is Mix for m rows of n columns, out apart, with count weights each: the weight of row r and sum j is
	// w[r·row + j·step].
	MixRows func(dst []T, out int, w []T, row, step int, rows []T, ld int, m, n, count int)
	// y = factor·x where the word is at least limit, 0 elsewhere
	Drop func(y, x []T, words []uint32, limit uint32, factor T)
	// y = e^x; float32 arguments are clamped to [-87.3, 88.3]
	Exp func(y, x []T)
	Map [mapCount]func(y, x []T) // y = f(x)
	// d = dy·f'; of is y for Tanh and Sigmoid, x for the others
	Slope [mapCount]func(d, of, dy []T)
	// GELUGrad is Slope and Map of GELU in one pass, for streams from memory: d = dy·GELU'(x), y = GELU(x).
	GELUGrad func(d, y, x, dy []T)

	// Softmax and SoftmaxGrad work on the rows, of n elements, of a matrix: see softmax.go.
	Softmax     func(p []T, n int, s T)
	SoftmaxGrad func(dp, p []T, n int, s T)

	// The passes of layer norm over a row; sums are accumulated in T. With x̂ = scale·x + shift and g = w∘dy:
	Sum        func(x []T) float64                                               // Σ x
	SumDropped func(y, a, x []T, words []uint32, limit uint32, factor T) float64 // y = a + Drop(x), giving Σ y
	Spread     func(x []T, centre T) float64                                     // Σ (x - centre)²
	Norm       func(y, x, w, b []T, scale, shift T)                              // y = w∘x̂ + b
	// dw += dy∘x̂, db += dy, sums = Σ g, Σ g∘x̂
	NormSums func(x, dy, w, dw, db []T, scale, shift T, sums []T)
	NormGrad func(dx, x, dy, w []T, a, b, c T) // dx = a·g + b·x + c

	// Adam updates p, m and v from the gradient g; s holds the constants of the step.
	Adam func(p, g, m, v []T, s *AdamScalars[T])
	// GRUCell computes one row of a GRU step: see gru.go.
	GRUCell func(gates, gh, h, y, prev []T)
	// GRUCellGrad computes the gradients of GRUCell: see gru.go.
	GRUCellGrad func(gates, h, dy, dh []T)
}

// Map names the elementwise functions of Ops.Map and Ops.Slope.
type Map uint8

// The order is the order of device.Activation.
const (
	ReLU Map = iota
	Tanh
	Sigmoid
	Abs
	GELU
	mapCount
)

// AdamScalars are the constants of one Adam step; the fields are read in this order by the assembly.
//
//	g' = Clip·g    m ← B1·m + C1·g'    v ← B2·v + C2·g'²    p ← Decay·p - Step·m/(√v·Inv + Eps)
type AdamScalars[T Float] struct {
	Clip, B1, C1, B2, C2, Step, Inv, Eps, Decay T
}

// Best returns the fastest float32 kernels for this processor.
func Best() *Ops[float32] { return Supported()[0] }
