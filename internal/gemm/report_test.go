package gemm

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"
)

// shape is one line of the speed report.
type shape struct {
	label          string
	m, n, k        int
	transA, transB bool
	packed         bool
}

// shapes are the products of training at batch 128 and the two of the speed table in all transpositions.
var shapes = []shape{
	{"large", 4608, 1024, 2048, false, false, false},
	{"large tB", 4608, 1024, 2048, false, true, false},
	{"large tA", 4608, 1024, 2048, true, false, false},
	{"large tAB", 4608, 1024, 2048, true, true, false},
	{"small", 128, 1024, 1024, false, false, false},
	{"small tB", 128, 1024, 1024, false, true, false},
	{"small tA", 128, 1024, 1024, true, false, false},
	{"small tAB", 128, 1024, 1024, true, true, false},
	{"fc forward", 128, 1024, 73728, false, true, false},
	{"fc weights", 1024, 73728, 128, true, false, false},
	{"gru input", 1970, 3072, 300, false, true, false},
	{"gru weights", 3072, 1024, 1970, true, false, false},
	{"gru dX", 1970, 300, 3072, false, false, false},
	{"recur 128", 128, 3072, 1024, false, true, true},
	{"recur 40", 40, 3072, 1024, false, true, true},
	{"recur 8", 8, 3072, 1024, false, true, true},
	{"recur 1", 1, 3072, 1024, false, true, true},
	{"recur back 128", 128, 1024, 3072, false, false, true},
	{"recur back 8", 8, 1024, 3072, false, false, true},
}

// TestReport prints the speed of every kernel at the shapes of training. It runs when VSETRAIN_GEMM_REPORT names
// the seconds to spend on each figure.
func TestReport(t *testing.T) {
	seconds, err := strconv.ParseFloat(os.Getenv("VSETRAIN_GEMM_REPORT"), 64)
	if err != nil {
		t.Skip("set VSETRAIN_GEMM_REPORT to the seconds to spend on each figure, for example 0.3")
	}
	d := time.Duration(seconds * float64(time.Second) / 2)
	for _, threads := range []int{1, 2} {
		ours, peer := newEngine(t, "", threads), newEngine(t, "openblas", threads)
		fmt.Printf("\n%d threads, GFLOP/s: %s, %s, %s\n", threads, ours.Name(), peer.Name(), ours.BF16Name())
		fmt.Printf("%-15s %-16s %8s %8s %6s %8s %6s\n", "", "M x N x K", "fp32", "openblas", "ratio", "bf16", "/fp32")
		for _, s := range shapes {
			var f, o, b float64
			runs := []func(){s.product(ours, false), s.product(ours, true), s.product(peer, false)}
			for range 2 { // in turns, so that a slow moment of the machine meets all three
				f = max(f, gflops(s.m, s.n, s.k, d, runs[0]))
				b = max(b, gflops(s.m, s.n, s.k, d, runs[1]))
				o = max(o, gflops(s.m, s.n, s.k, d, runs[2]))
				time.Sleep(60 * time.Millisecond) // let the peer's threads fall asleep
			}
			fmt.Printf("%-15s %-16s %8.0f %8.0f %6.2f %8.0f %6.1f\n", s.label, fmt.Sprintf("%dx%dx%d", s.m, s.n, s.k), f, o, f/o, b, b/f)
		}
	}
}
