package cuda

import (
	"slices"
	"strings"
	"testing"
	"time"

	"vsetrain/internal/compute/device"
	"vsetrain/lab/emulator"
	"vsetrain/lab/try"
)

// Compile loads every kernel that the GPU can run, once. Precision auto is the precision of the GPU, with its kernels.
func TestCompileAndPrecisionOfAGPU(t *testing.T) {
	for _, c := range []struct {
		capability int
		precision  string
		tensor     tensor
	}{{75, FP32, tensorNone}, {80, BF16, tensorBF16}, {90, BF16, tensorBF16}} {
		path := emulator.Library(t)
		emulator.Set(t, "capability", c.capability, 90)
		opened := try.Get(Open(Options{Driver: path, BLAS: []string{path}, Precision: device.PrecisionAuto}))(t)
		d, newer := opened.(*dev), c.tensor != tensorNone
		if d.Precision() != c.precision || d.tensor != c.tensor || d.bf16.on != newer {
			t.Errorf("%d: precision %s, tensor cores %v, copies %v", c.capability, d.Precision(), d.tensor, d.bf16.on)
		}
		all := try.Get(d.Compile(time.Now))(t)
		found := slices.ContainsFunc(all, func(m Compiled) bool { return strings.HasSuffix(m.Name, "_sm80") })
		if found != newer || len(all) < 30 {
			t.Errorf("%d: %d files, those of capability 8.0 among them: %v", c.capability, len(all), found)
		}
		if again, err := d.Compile(time.Now); err != nil || len(again) > 0 {
			t.Errorf("%d: loaded again: %v, %v", c.capability, again, err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}
