package cuda_test

import (
	"testing"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda"
	"vsetrain/lab/devicetest"
	"vsetrain/lab/emulator"
	"vsetrain/lab/try"
)

// Ranks whose values go through memory of the host share a GPU, and compute what one computes of all.
func TestRanksOnOneGPU(t *testing.T) {
	for _, n := range []int{2, 3} {
		for precision, rounds := range map[string]float64{cuda.FP32: 0, cuda.BF16: devicetest.RoundsBF16} {
			job := devicetest.Worlds(n)
			var devices []device.Device
			for _, w := range job {
				d := try.Get(cuda.Open(cuda.Options{Driver: emulator.Library(t), Host: w, Precision: precision,
					RoundFrom: 1}))(t)
				defer d.Close()
				devices = append(devices, d)
			}
			m := devicetest.MeasureTogether(job, devices, rounds)
			if len(m.Failures) > 0 || m.Comparisons == 0 {
				t.Errorf("%d ranks in %s: %d comparisons, %q", n, precision, m.Comparisons, m.Failures)
			}
			launches := devices[0].(cuda.Launcher).Launches()
			for _, k := range []string{"batch_norm_whole", "deal_rows", "filter_whole", "widen_copy"} {
				if launches[k] == 0 {
					t.Errorf("%d ranks in %s: %s was not launched", n, precision, k)
				}
			}
		}
	}
}
