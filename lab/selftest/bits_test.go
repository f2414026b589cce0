package selftest

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cpu"
	"vsetrain/internal/compute/device/cuda"
	"vsetrain/lab/emulator"
	"vsetrain/lab/try"
)

// The trainings on the PTX with the rounding of a GPU give the bits that are committed. VSETRAIN_WRITE=bits.txt in the
// environment writes them anew, for changed kernels (make bits).
func TestPredictedBits(t *testing.T) {
	if os.Getenv("VSETRAIN_EMULATOR") != "ptx-fused" {
		t.Skip("the PTX with the rounding of a GPU takes long: make test-ptx-fused")
	}
	var text strings.Builder
	predicted := predictions()
	for _, n := range bitNetworks() {
		start := time.Now()
		got := emulatedBits(t, n)
		t.Logf("%s: %.1f s", n, time.Since(start).Seconds())
		text.WriteString(got.String() + "\n")
		i := slices.IndexFunc(predicted, func(p Bits) bool { return p.Network == n })
		switch {
		case os.Getenv("VSETRAIN_WRITE") != "":
		case i < 0:
			t.Errorf("%s has no prediction: make bits", n)
		default:
			if d := got.Difference(predicted[i]); d != "" {
				t.Errorf("%s: %s; where kernels were changed on purpose, make bits", n, d)
			}
		}
	}
	if name := os.Getenv("VSETRAIN_WRITE"); name != "" {
		try.Do(t, os.WriteFile(name, []byte(text.String()), 0o666))
	}
}

func emulatedBits(t *testing.T, network string) Bits {
	t.Helper()
	path := emulator.Library(t)
	got, err := trainBits(t.Context(), func() (device.Device, error) { return cuda.Open(cuda.Options{Driver: path}) },
		network)
	if err != nil {
		t.Fatalf("%s: %v", network, err)
	}
	return got
}

// Every network has a prediction, of every step, and none is left over.
func TestPredictionsAreComplete(t *testing.T) {
	var names []string
	for _, p := range predictions() {
		names = append(names, p.Network)
		if len(p.Losses) != bitSteps || len(p.Start) != 16 || len(p.End) != 16 {
			t.Errorf("%s: %d losses, %d and %d digits", p.Network, len(p.Losses), len(p.Start), len(p.End))
		}
	}
	if want := bitNetworks(); !slices.Equal(names, want) {
		t.Errorf("predictions of %q, networks are %q", names, want)
	}
}

// A difference is said where it begins.
func TestBitsDifference(t *testing.T) {
	want := Bits{"x", "aa", []string{"3f800000", "40000000"}, "bb"}
	for _, c := range []struct {
		got  Bits
		says string
	}{
		{want, ""},
		{Bits{"x", "ac", want.Losses, "bb"}, "the host draws other first weights"},
		{Bits{"x", "aa", []string{"3f800000", "40000001"}, "bb"},
			"loss of step 2 is another one: 2.00000024 (40000001), predicted 2 ("},
		{Bits{"x", "aa", append(want.Losses, "40000000"), "bb"}, "step 3 is another one: 2 (40000000), predicted none"},
		{Bits{"x", "aa", want.Losses, "bc"}, "the parameters behind step 2"},
	} {
		if d := c.got.Difference(want); (d == "") != (c.says == "") || !strings.Contains(d, c.says) {
			t.Errorf("%v: %q, expected %q", c.got, d, c.says)
		}
	}
}

// The predictions are of the same training as that of the processor: losses differ by rounding alone.
func TestPredictionsAreThoseOfTheCPU(t *testing.T) {
	for _, p := range predictions() {
		got := try.Get(trainBits(t.Context(),
			func() (device.Device, error) { return cpu.New(cpu.Options{Threads: 1}) }, p.Network))(t)
		for i, l := range got.Losses {
			var a, b uint32
			fmt.Sscanf(l, "%x", &a)
			fmt.Sscanf(p.Losses[i], "%x", &b)
			x, y := math.Float32frombits(a), math.Float32frombits(b)
			if !(math.Abs(float64(x-y)) <= 2e-3*math.Abs(float64(x))) {
				t.Errorf("%s: the loss of step %d is predicted as %v, %v on the CPU", p.Network, i+1, y, x)
			}
		}
	}
}
