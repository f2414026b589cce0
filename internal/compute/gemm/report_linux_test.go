package gemm

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestReport prints the speed of every kernel at the shapes of training beside OpenBLAS. It runs when
// VSETRAIN_GEMM_REPORT names the seconds to spend on each shape.
//
// The five take turns product by product and the best time of each counts, so that a busy moment of the machine
// meets all alike. One thread is timed by its processor time, two by the clock.
func TestReport(t *testing.T) {
	seconds, err := strconv.ParseFloat(os.Getenv("VSETRAIN_GEMM_REPORT"), 64)
	if err != nil {
		t.Skip("set VSETRAIN_GEMM_REPORT to the seconds to spend on each shape, for example 2")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, threads := range []int{1, 2} {
		ours, plain, peer := newEngine(t, "", threads), newEngine(t, available()[0].name, threads),
			newEngine(t, "openblas", threads)
		fmt.Printf("\n%d threads, GFLOP/s: fp32 %s and %s, %s, bf16 %s\n", threads, ours.Name(), plain.Name(),
			peer.Name(), ours.BF16Name())
		fmt.Printf("%-15s %-16s %8s %8s %6s %8s %6s %8s %6s %8s %6s\n", "", "M x N x K", "fp32", plain.Name(), "ratio",
			"openblas", "ratio", "bf16", "/fp32", "fixed", "/fp32")
		for _, s := range shapes {
			runs := []func(){s.product(ours, Float32), s.product(ours, BF16), s.product(peer, Float32),
				s.product(plain, Float32), s.product(ours, FixedPoint)}
			var best [5]float64
			flops := 2 * float64(s.m) * float64(s.n) * float64(s.k)
			count := 1 + int(1e8/flops)
			for start, round := time.Now(), 0; round < 3 || time.Since(start).Seconds() < seconds; round++ {
				for i, run := range runs {
					run()
					at := clock(threads)
					for range count {
						run()
					}
					best[i] = max(best[i], flops*float64(count)/float64(clock(threads)-at))
				}
				if threads > 1 {
					time.Sleep(30 * time.Millisecond) // the peer's idle threads spin for a while
				}
			}
			fmt.Printf("%-15s %-16s %8.0f %8.0f %6.2f %8.0f %6.2f %8.0f %6.1f %8.0f %6.2f\n", s.label,
				fmt.Sprintf("%dx%dx%d", s.m, s.n, s.k),
				best[0], best[3], best[0]/best[3], best[2], best[0]/best[2], best[1], best[1]/best[0], best[4],
				best[4]/best[0])
		}
	}
}

// clock is the processor time of this thread in nanoseconds, or the time of day for several threads.
func clock(threads int) int64 {
	var now unix.Timespec
	id := int32(unix.CLOCK_MONOTONIC)
	if threads == 1 {
		id = unix.CLOCK_THREAD_CPUTIME_ID
	}
	if err := unix.ClockGettime(id, &now); err != nil {
		panic(err)
	}
	return now.Nano()
}
