package ranks

import (
	"testing"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cpu"
	"vsetrain/lab/devicetest"
)

// What ranks compute together is what one device computes of the batch of all.
func TestTogether(t *testing.T) {
	for _, precision := range []string{cpu.FP32, cpu.FP64} {
		for n := 2; n <= 3; n++ {
			job := devicetest.Worlds(n)
			var devices []device.Device
			for _, w := range job {
				devices = append(devices, open(t, w, precision))
			}
			if m := devicetest.MeasureTogether(job, devices, 0); len(m.Failures) > 0 || m.Comparisons == 0 {
				t.Errorf("%d ranks in %s: %d comparisons, %q", n, precision, m.Comparisons, m.Failures)
			}
		}
	}
}
