// Package devicetest is the conformance suite of device.Device: a new device has to pass Run and Identical.
//
// Every kernel is compared with its definition, the composed form over the reference device in float64, on random data
// over many shapes: edge sizes, absent optional views, views at odd offsets, ties, zero vectors. NaN around every view
// must neither leak in nor change. A repeated call must not allocate. The gradients of the reference device itself are
// compared with finite differences; golden tests of losses, recurrences and the optimiser compare the definitions with
// the reference implementations.
//
// A test states a kernel with its sizes and inputs, and how far results may be off (check, back, transpose). The
// harness makes the rest: results, gradients of results, the reference.
//
// Tests run the suite, and so does vsetrain selftest on the user's machine (Measure). So the suite uses an interface
// instead of *testing.T.
package devicetest

import (
	"math"
	"slices"

	"vsetrain/internal/compute/device"
)

// T is what the suite needs of a test. *testing.T implements it, and Runner.
type T interface {
	Helper()
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// Runner is a T that runs named tests of its own type.
type Runner[S T] interface {
	T
	Run(name string, f func(S)) bool
}

// family is a group of kernels that are tested together.
type family struct {
	name string
	test func(h *harness)
	// rounds: its results depend on the precision, because it has products or writes their operands.
	rounds bool
}

var suite = []family{ // a new family is a line here
	{"Memory", testMemory, false},
	{"Gemm", testGemm, true},
	{"Elementwise", testElementwise, false},
	{"Active", testActive, false},
	{"ColumnSum", testColumnSum, false},
	{"L2Norm", testL2Norm, false},
	{"BatchNorm", testBatchNorm, false},
	{"BatchNormNaN", testBatchNormNaN, false},
	{"Combine", testCombine, false},
	{"PoolWeights", testPoolWeights, false},
	{"SortPool", testSortPool, false},
	{"Words", testWords, false},
	{"Order", testOrder, false},
	{"GRU", testGRU, true},
	{"GRUGrad", testGRUGrad, true},
	{"BiGRU", testBiGRU, true},
	{"BiGRUGrad", testBiGRUGrad, true},
	{"Cells", testCells, false},
	{"Decoder", testDecoder, true},
	{"Attention", testAttention, false},
	{"BlockMatch", testBlockMatch, true},
	{"PolarWeights", testPolar, false},
	{"ScaleBlocks", testScaleBlocks, false},
	{"MixNodes", testMixNodes, false},
	{"MeanNodes", testMeanNodes, false},
	{"WordGraph", testWordGraph, false},
	{"Embed", testEmbed, false},
	{"LayerNorm", testLayerNorm, true},
	{"SelfAttention", testSelfAttention, true},
	{"PairAttention", testPairAttention, false},
	{"CrossScores", testCrossScores, true},
	{"Similarities", testSimilarities, true},
	{"GraphReason", testGraphReason, true},
	{"Filtrate", testFiltrate, true},
	{"FewPairs", testFewPairs, true},
	{"Segments", testSegments, false},
	{"Primitives", testPrimitives, false},
	{"Dropout", testDropout, false},
	{"Collectives", testCollectives, false},
	{"SwapAxes", testSwapAxes, false},
	{"CrossEntropy", testCrossEntropy, false},
	{"Hinge", testHinge, false},
	{"SemanticMargins", testMargins, false},
	{"UniversalWeighting", testUniversal, false},
	{"SumSquares", testSumSquares, false},
	{"Clip", testClip, false},
	{"Adam", testAdam, true},
	{"Factored", testFactored, true},
	{"Recorded", testRecorded, false},
	{"Resident", testResident, false},
	{mistakes, testMistakes, false},
}

// Run tests the named kernel families, or all if there are no names, of the devices that newDevice returns.
func Run[S Runner[S]](t S, newDevice func(t S) device.Device, names ...string) {
	families(t, newDevice, false, names)
}

// RunPlain is Run for a device that sums float32 values in float32 alone. If terms nearly cancel, a result may have the
// rounding errors of their sum.
func RunPlain[S Runner[S]](t S, newDevice func(t S) device.Device, names ...string) {
	families(t, newDevice, true, names)
}

func families[S Runner[S]](t S, newDevice func(t S) device.Device, plain bool, names []string) {
	for _, s := range suite {
		if len(names) > 0 && !slices.Contains(names, s.name) {
			continue
		}
		t.Run(s.name, func(t S) {
			d := newDevice(t)
			defer closeDevice(t, d)
			h := newHarness(t, d, s.name)
			h.plainSums = plain
			s.test(h)
			h.release()
		})
	}
}

// Identical fails unless all devices compute the same bits for every kernel of the named families, such as devices with
// different numbers of threads.
func Identical[S Runner[S]](t S, names []string, devices ...device.Device) {
	for _, s := range suite {
		if !slices.Contains(names, s.name) {
			continue
		}
		t.Run(s.name, func(t S) {
			var first []float64
			for n, d := range devices {
				results := make([]float64, 0, len(first))
				h := newHarness(t, d, s.name)
				h.record, h.short = &results, true
				s.test(h)
				h.release()
				if n == 0 {
					first = results
				}
				if len(results) == 0 || len(results) != len(first) {
					t.Fatalf("%s: %d results, %d of %s", d.Name(), len(results), len(first), devices[0].Name())
				}
				for i, v := range results {
					if math.Float64bits(v) != math.Float64bits(first[i]) {
						t.Fatalf("%s: result %d is %v, but %v on %s", d.Name(), i, v, first[i], devices[0].Name())
					}
				}
			}
		})
	}
}

func closeDevice(t T, d device.Device) {
	if err := d.Close(); err != nil {
		t.Errorf("%s: close: %v", d.Name(), err)
	}
}
