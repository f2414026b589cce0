package train

import (
	"fmt"
	"math"
	"testing"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda"
	"vsetrain/lab/emulator"
	"vsetrain/lab/try"
	"vsetrain/loss"
	"vsetrain/models"
)

func emulatedGPU(t testing.TB, blas bool) device.Device {
	t.Helper()
	o := cuda.Options{Driver: emulator.Library(t)}
	if blas {
		o.BLAS = []string{o.Driver}
	}
	return openGPU(t, o)
}

// openGPU opens a device until the test ends.
func openGPU(t testing.TB, o cuda.Options) device.Device {
	t.Helper()
	dev := try.Get(cuda.Open(o))(t)
	t.Cleanup(func() { dev.Close() })
	return dev
}

// The average of the weights on the emulated GPU, where steps are replayed from a recording, is the same as on the CPU.
func TestCUDAAverage(t *testing.T) {
	average := func(dev device.Device) []float64 {
		s := tinyStep(t, dev, loss.LMH, 0)
		var err error
		if s.opt.average, err = newAverage(dev, s.model.Instance.Params, 0.9); err != nil {
			t.Fatal(err)
		}
		for range 6 {
			run(t, s, tinyBatch(1, 6, 7))
		}
		out := make([]float64, s.opt.average.values.N)
		try.Do(t, s.WithAverage(func() error {
			dev.DownloadDoubles(out, s.model.Instance.Params.Values())
			return nil
		}))
		if _, replayed := s.Recordings(); s.recorder != nil && replayed < 4 {
			t.Errorf("%d steps were replayed", replayed)
		}
		return out
	}
	want, got := average(newDevice(t, "fp32")), average(emulatedGPU(t, false))
	for i := range want {
		if math.Abs(got[i]-want[i]) > 1e-4*(math.Abs(want[i])+0.01) {
			t.Fatalf("value %d is %v, %v on the CPU", i, got[i], want[i])
		}
	}
}

// Ranks with a GPU each train as one GPU does, with recorded steps too, and their parameters stay the same bits: an
// embedder, batch norm over padded regions, and a scorer of pairs with a filtration.
func TestRanksOnGPUs(t *testing.T) {
	gpusAsOne(t, 2, func(i int, name string) bool {
		return name == "vsepp "+loss.LMH || name == "vseinf" || name == models.SAF
	})
}

// The same of two, three and four GPUs with every network.
func TestRanksOnManyGPUs(t *testing.T) {
	for n := 2; n <= 4; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			gpusAsOne(t, n, func(i int, name string) bool { return i%3 == n-2 })
		})
	}
}

func gpusAsOne(t *testing.T, n int, picks func(i int, name string) bool) {
	emulator.Ranks(t, n, func(m *emulator.Meeting) {
		lib := emulator.Library(t)
		rank, ranks := m.Rank()
		own := openGPU(t, cuda.Options{Driver: lib, NCCL: []string{lib}, Index: rank})
		try.Do(t, own.(device.Joiner).Join(m))
		for i, c := range recordedCases(t) {
			if !picks(i, c.name) {
				continue
			}
			alone, together := c.step(emulatedGPU(t, false)), c.step(own)
			alone.factorFrom, together.factorFrom = math.MaxInt, math.MaxInt
			fail := func(format string, args ...any) {
				t.Errorf("%s, rank %d of %d: %s", c.name, rank, ranks, fmt.Sprintf(format, args...))
			}
			first, norm := 0.0, 0.0
			for k := range 5 {
				want, err := alone.Run(c.batch(k%2), c.lr, false)
				if err != nil {
					t.Fatalf("%s alone: %v", c.name, err)
				}
				if k == 0 {
					first, norm = want.Loss, want.GradNorm
				}
				got, err := together.Run(sharded(c.batch(k%2), rank, ranks), c.lr, false)
				if err != nil {
					t.Fatalf("%s, rank %d of %d, step %d: %v", c.name, rank, ranks, k, err)
				}
				if !(math.Abs(got.Loss-want.Loss) <= 1e-4*math.Abs(want.Loss)) ||
					!(math.Abs(got.GradNorm-want.GradNorm) <= 1e-3*want.GradNorm) {
					fail("step %d: loss %v, norm %v, alone %v, %v", k, got.Loss, got.GradNorm, want.Loss, want.GradNorm)
				}
			}
			if recorded, replayed := together.Recordings(); recorded == 0 || replayed < 2 {
				fail("%d steps recorded and %d replayed: %s", recorded, replayed, together.CallByCall())
			}
			if err := RanksOf(together).Compare(); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			half := c.step(own)
			half.opt.bf16 = true
			for k := range 4 {
				got, err := half.Run(sharded(c.batch(k%2), rank, ranks), c.lr, false)
				if k == 0 && (err != nil || got.GradNorm == norm ||
					!(math.Abs(got.GradNorm-norm) <= float64(ranks)/256*norm)) {
					fail("with gradients in bf16: norm %v, alone %v: %v", got.GradNorm, norm, err)
				}
			}
			if err := RanksOf(half).Compare(); err != nil {
				t.Errorf("%s, gradients in bf16: %v", c.name, err)
			}
			if _, replayed := half.Recordings(); replayed == 0 {
				fail("steps with gradients in bf16 are not recorded: %s", half.CallByCall())
			}
			if c.name != "vseinf" {
				continue
			}
			parts := divided(t, c, 2).step(own) // in micro-batches
			got, err := parts.Run(sharded(c.batch(0), rank, ranks), c.lr, false)
			if err != nil || !(math.Abs(got.Loss-first) <= 1e-4*first) {
				fail("in micro-batches: loss %v, alone %v: %v", got.Loss, first, err)
			}
		}
	})
}

// In bf16 the ranks send what products alone read as bfloat16: the inputs of a matrix that is divided. The steps are
// the same as on one GPU, also after a validation, which reads all parameters.
func TestRanksSendOperands(t *testing.T) {
	emulator.Ranks(t, 3, func(m *emulator.Meeting) {
		lib := emulator.Library(t)
		rank, ranks := m.Rank()
		o := cuda.Options{Driver: lib, NCCL: []string{lib}, Index: rank, Precision: cuda.BF16, RoundFrom: 1}
		own := openGPU(t, o)
		try.Do(t, own.(device.Joiner).Join(m))
		c := recordedCases(t)[0]
		alone, together := c.step(openGPU(t, o)), c.step(own)
		divide(t, together, 64)
		for k := range 9 {
			want := try.Get(alone.Run(c.batch(k%2), c.lr, false))(t)
			got, err := together.Run(sharded(c.batch(k%2), rank, ranks), c.lr, false)
			if err != nil {
				t.Fatalf("rank %d of %d, step %d: %v", rank, ranks, k, err)
			}
			if !(math.Abs(got.Loss-want.Loss) <= 1e-3*want.Loss) || len(together.last.divided) != 1 {
				t.Errorf("rank %d of %d, step %d: loss %v, alone %v", rank, ranks, k, got.Loss, want.Loss)
			}
			if k != 4 {
				continue
			}
			if err := RanksOf(together).Compare(); err != nil {
				t.Error(err)
			}
		}
		if _, replayed := together.Recordings(); replayed < 3 {
			t.Errorf("%d steps replayed: %s", replayed, together.CallByCall())
		}
		x, y := flat(alone), flat(together)
		if off := distance(x, y); !(off <= 0.02*norm(x)) {
			t.Errorf("rank %d of %d: the state is off by %v of %v", rank, ranks, off, norm(x))
		}
	})
}
