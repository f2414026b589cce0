package train

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"vsetrain/data"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cpu"
	"vsetrain/lab/devicetest"
	"vsetrain/lab/try"
	"vsetrain/loss"
	"vsetrain/models"
)

// divided is a case whose steps compute micro-batches.
func divided(t testing.TB, c recordedCase, size int) recordedCase {
	step := c.step
	c.name = fmt.Sprintf("%s in micro-batches of %d", c.name, size)
	c.step = func(d device.Device) *Step {
		s := step(d)
		try.Do(t, Divide(s, size, nil))
		return s
	}
	return c
}

// Steps in micro-batches are those of the whole batch: loss, scores, every gradient, running statistics, with every
// loss, on one rank and on several, where micro-batches have unequal sizes too.
func TestMicroBatchesTrainAsOne(t *testing.T) {
	networks := recordedCases(t)
	for k, c := range append(networks, lossCases(t)...) {
		t.Run(c.name, func(t *testing.T) {
			steps, sizes := 2, []int{1 + k%4}
			if k < len(networks) {
				sizes = []int{1, 4}
			}
			if strings.HasSuffix(c.name, "captions true") { // hundreds of dimensions
				steps, sizes = 1, nil
			}
			want := alone(t, c, steps)
			for _, size := range sizes {
				asOne(t, openCPU(t, cpu.Options{Threads: 1, Precision: cpu.FP64}), divided(t, c, size), want)
			}
			devicetest.Ranks(2, func(w *devicetest.World) {
				asOne(t, rankedCPU(t, w, cpu.FP64), divided(t, c, 2), want)
			})
		})
	}
}

// In float32 the loss is that of the whole batch to 1e-6, and the same bits with any number of threads.
func TestMicroBatchesInFloat32(t *testing.T) {
	for _, c := range recordedCases(t) {
		if !slices.Contains([]string{"vseinf", "vsepp lseh", models.SAF, models.SGR}, c.name) {
			continue
		}
		run := func(c recordedCase, threads int) (r StepResult, state []float64) {
			s := c.step(openCPU(t, cpu.Options{Threads: threads}))
			for i := range 3 {
				var err error
				if r, err = s.Run(c.batch(i), 1e-4, false); err != nil {
					t.Fatal(err)
				}
			}
			return r, flat(s)
		}
		want, _ := run(c, 1)
		got, state := run(divided(t, c, 2), 1)
		if off := math.Abs(got.Loss-want.Loss) / want.Loss; !(off <= 1e-6) {
			t.Errorf("%s: loss %v, %v of the whole batch", c.name, got.Loss, want.Loss)
		}
		if _, again := run(divided(t, c, 2), 3); differ(state, again) >= 0 {
			t.Errorf("%s: other bits with three threads", c.name)
		}
	}
}

// On the emulated GPU steps in micro-batches are those of the whole batch on the CPU, also where features stay there.
func TestMicroBatchesOnGPU(t *testing.T) {
	for _, c := range recordedCases(t) {
		if _, ok := c.step(openCPU(t, cpu.Options{Threads: 1})).model.PairScorer(); !ok && !slices.Contains([]string{
			"vseinf", "vsepp lseh", "bert, 16 positions", "vsrn, captions false"}, c.name) {
			continue
		}
		whole, parts := c.step(openCPU(t, cpu.Options{Threads: 1})), divided(t, c, 4).step(emulatedGPU(t, true))
		for i := range 3 {
			want := try.Get(whole.Run(c.batch(i/2), 1e-3, false))(t)
			got, err := parts.Run(c.batch(i/2), 1e-3, false)
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			if !(math.Abs(got.Loss-want.Loss) <= 1e-4*want.Loss) ||
				!(math.Abs(got.GradNorm-want.GradNorm) <= 1e-3*want.GradNorm) {
				t.Errorf("%s, step %d: loss %v, norm %v, on the CPU %v, %v", c.name, i, got.Loss, got.GradNorm,
					want.Loss, want.GradNorm)
			}
		}
		if recorded, replayed := parts.Recordings(); recorded+replayed > 0 {
			t.Errorf("%s: %d steps recorded, %d replayed", c.name, recorded, replayed)
		}
	}
}

func TestEncodeBatch(t *testing.T) {
	for _, c := range [][3]int{{8, 0, 8}, {8, 3, 3}, {8, 9, 8}} {
		o := Options{Batch: c[0], MicroBatch: c[1]}
		if n := o.EncodeBatch(); n != c[2] {
			t.Errorf("%d at once of a batch of %d with micro-batches of %d, want %d", n, c[0], c[1], c[2])
		}
	}
}

// A micro-batch has room for captions that are longer than all others.
func TestMicroBatchesOfUnevenCaptions(t *testing.T) {
	for _, c := range recordedCases(t) {
		if !slices.Contains([]string{models.SAF, "gsmn, own"}, c.name) {
			continue
		}
		batch := c.batch
		c.batch = func(i int) *data.Batch {
			b := batch(i)
			for k := range b.Lengths {
				b.Lengths[k] = int32(1 + 39/(1+39*k))
				b.Words[k] = slices.Repeat([]int32{int32(1 + k)}, int(b.Lengths[k]))
			}
			b.L = 40
			if b.EdgeStart != nil {
				chain(b)
			}
			return b
		}
		asOne(t, openCPU(t, cpu.Options{Threads: 1, Precision: cpu.FP64}), divided(t, c, 2), alone(t, c, 2))
	}
}

// What a step keeps of pairs is that of the captions of a micro-batch.
func TestMicroBatchesOfPairsBoundMemory(t *testing.T) {
	bytes := func(size int) int64 {
		s := pairStep(t, openCPU(t, cpu.Options{Threads: 1}), models.SGR, loss.LMH)
		try.Do(t, Divide(s, size, nil))
		try.Get(s.Run(tinyBatch(1, 64, 8), 1e-3, false))(t)
		return s.model.Instance.SlabBytes()
	}
	if whole, divided := bytes(0), bytes(4); divided*3 > whole {
		t.Errorf("micro-batches of 4 of 64 captions take %d bytes, the whole batch %d; expected less than a third",
			divided, whole)
	}
}
