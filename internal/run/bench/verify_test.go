//go:build unix

package bench

import (
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"vsetrain/internal/run/config"
	"vsetrain/lab/try"
	"vsetrain/train"
)

// TestCostOfVerify prints what train.verify costs of a step: the processor time of steps with it and without, in turn,
// at the sizes of Flickr30K. VSETRAIN_COST=N takes the medians of N steps of each, twice: whichever was opened later
// has its memory elsewhere.
func TestCostOfVerify(t *testing.T) {
	n, err := strconv.Atoi(os.Getenv("VSETRAIN_COST"))
	if err != nil {
		t.Skip("set VSETRAIN_COST to the number of steps")
	}
	for _, preset := range []string{"vsepp/f30k-lmh2", "vsrn/f30k-lmh2", "vseinf/f30k-lmh2-bigru",
		"vseinf/f30k-lmh2-bert", "saf/f30k-lmh2", "sgr/f30k-lmh2", "gsmn/f30k-lmh2", "scan/f30k-benchmark-ti-lse",
		"chan/f30k-benchmark-bigru"} {
		t.Run(strings.ReplaceAll(preset, "/", "-"), func(t *testing.T) {
			first := costOfVerify(t, preset, n, true)
			second := costOfVerify(t, preset, n, false)
			t.Logf("%.3f s a step, %.4f times that with train.verify (%.4f and %.4f), %.3f s before saving",
				first.seconds, math.Sqrt(first.ratio*second.ratio), first.ratio, second.ratio, first.saving)
		})
	}
}

// cost is processor time.
type cost struct{ seconds, ratio, saving float64 }

// costOfVerify opens the steps with train.verify first or last.
func costOfVerify(t *testing.T, preset string, n int, last bool) cost {
	with := 0
	if last {
		with = 1
	}
	var both [2]*bench
	for i := range both {
		r := try.Get(config.Load(config.Request{Preset: preset}))(t)
		c := &r.Config
		c.Device.Kind, c.Data.Dir = "cpu", ""
		c.Train.Verify, c.Train.VerifyEvery = i == with, 0
		both[i] = newBench(Request{Config: c, Now: time.Now})
		defer both[i].Close()
		try.Get(both[i].open(t.Context()))(t)
	}
	var ratios, times []float64
	step := func(b *bench) float64 {
		return processorTime(t, func() {
			x, err := b.Next()
			if err == nil {
				_, err = b.Step.Run(x, 1e-4, false)
			}
			try.Do(t, err)
		})
	}
	for i := range n + 1 {
		var used [2]float64
		for k := range both {
			k ^= i % 2 // who begins changes
			used[k] = step(both[k])
		}
		if i > 0 { // the first steps compile
			ratios, times = append(ratios, used[with]/used[1-with]), append(times, used[1-with])
		}
	}
	slices.Sort(ratios)
	slices.Sort(times)
	return cost{times[n/2], ratios[n/2], processorTime(t, func() {
		try.Do(t, train.Unchanged(both[with].Step))
	})}
}

// processorTime is what this process uses in a call, in seconds.
func processorTime(t *testing.T, do func()) float64 {
	at := func() time.Duration {
		var u syscall.Rusage
		try.Do(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	from := at()
	do()
	return (at() - from).Seconds()
}
