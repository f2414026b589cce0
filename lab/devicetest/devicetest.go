// Package devicetest is the conformance suite of device.Device: a new device has to pass Run and Identical, and
// nothing else.
//
// The definition of a kernel is its composed form over the reference device, in float64. Every kernel is compared with
// that, on random data over many shapes: edge sizes, absent optional views, views at odd offsets, ties, zero vectors.
// Around every view lies NaN that must neither leak in nor change. A repeated call must not allocate. Where the device
// is the reference device itself there is nothing to compare: its gradients are compared with finite differences, and
// the golden tests of losses, recurrences and the optimiser say whether the definitions are the same as in the
// reference implementations.
//
// A test states a kernel with its sizes and inputs, and how far results may be off (check, back, transpose). The
// harness makes the rest: results, gradients of results, the reference.
//
// The suite is run by tests and by the program on the user's own machine (Measure, for vsetrain selftest), so it knows
// tests by an interface only.
package devicetest

import (
	"math"
	"slices"

	"vsetrain/internal/compute/device"
)

// T is what the suite needs of a test, Runner what it needs to begin a test within one; *testing.T has both.
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
	// rounds: it computes otherwise in a reduced precision, since it has products or writes what products read.
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

// Run tests every kernel of the devices that newDevice returns.
func Run[S Runner[S]](t S, newDevice func(t S) device.Device) {
	families(t, newDevice, false, func(string) bool { return true })
}

// RunOnly is Run for the named kernel families: for variants of a device that differ in nothing else.
func RunOnly[S Runner[S]](t S, newDevice func(t S) device.Device, names ...string) {
	families(t, newDevice, false, func(name string) bool { return slices.Contains(names, name) })
}

// RunPlain is RunOnly for a device that sums float32 values in float32 alone. Where terms nearly cancel, the result may
// be off by what their sum is.
func RunPlain[S Runner[S]](t S, newDevice func(t S) device.Device, names ...string) {
	families(t, newDevice, true, func(name string) bool { return slices.Contains(names, name) })
}

func families[S Runner[S]](t S, newDevice func(t S) device.Device, plain bool, chosen func(name string) bool) {
	for _, s := range suite {
		if !chosen(s.name) {
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

// Identical fails unless all devices compute the same bits for every kernel of the named families: devices that
// differ in their number of threads, for example.
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
