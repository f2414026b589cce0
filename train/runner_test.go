package train

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"vsetrain/data"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/philox"
	"vsetrain/lab/emulator"
	"vsetrain/lab/try"
	"vsetrain/loss"
	"vsetrain/models"
)

// shorten gives the captions of a batch other lengths, and with counts its images other numbers of regions.
func shorten(b *data.Batch, seed uint64, counts bool) *data.Batch {
	r := philox.NewKey(seed, "shorten").Stream(0)
	for i := range b.Lengths {
		b.Lengths[i] = max(2, b.Lengths[i]-int32(r.IntN(4)))
	}
	slices.SortFunc(b.Lengths, func(x, y int32) int { return int(y - x) })
	b.L = int(b.Lengths[0])
	for i, n := range b.Lengths {
		b.Words[i] = make([]int32, n)
		for k := range b.Words[i] {
			b.Words[i][k] = 1 + int32(r.IntN(tinyVocab-1))
		}
	}
	if counts {
		b.Counts = b.Counts[:0]
		rows := 0
		for range b.N {
			n := 1 + r.IntN(b.Regions)
			b.Counts = append(b.Counts, int32(n))
			rows += n
		}
		b.Features = b.Features[:rows*b.Dim]
	}
	return b
}

type recordedCase struct {
	name  string
	steps int
	lr    float64
	step  func(dev device.Device) *Step
	batch func(i int) *data.Batch
}

func recordedCases(t testing.TB) []recordedCase {
	var all []recordedCase
	tiny := func(i int) *data.Batch { return shorten(tinyBatch(uint64(i), 6, 8), uint64(i), false) }
	add := func(name string, steps int, lr float64, step func(device.Device) *Step, batch func(int) *data.Batch) {
		all = append(all, recordedCase{name, steps, lr, step, batch})
	}
	for _, l := range []string{loss.LMH, loss.LSEH, loss.LUWM} { // ranks cut a matrix of 16 columns between rows
		add("vsepp "+l, 8, 1e-2, func(d device.Device) *Step { return tinyStepOn(t, d, 8, l, 0) },
			func(i int) *data.Batch { return shorten(tinyBatchOf(uint64(i), 6, 8, 8), uint64(i), false) })
	}
	for _, captions := range []bool{false, true} {
		o := models.DefaultOptions().VSRN
		o.Caption = captions
		add(fmt.Sprint("vsrn, captions ", captions), 4, 1e-2, func(d device.Device) *Step { return vsrnStep(t, d, o) },
			tiny)
	}
	regions := func(longest int) func(i int) *data.Batch {
		return func(i int) *data.Batch { return shorten(vseinfBatch(uint64(i), 6, longest), uint64(i), true) }
	}
	add("vseinf", 9, 1e-2, func(d device.Device) *Step { return vseinfStep(t, d) }, regions(8))
	for _, positions := range []int{16, 13} { // 13 is not a multiple of 8
		add(fmt.Sprintf("bert, %d positions", positions), 6, 1e-2,
			func(d device.Device) *Step { return bertStep(t, d, adamw(1e-2), positions) },
			regions(min(positions-1, 12)))
	}
	longer := func(i int) *data.Batch { return shorten(tinyBatch(uint64(i), 6, 12), uint64(i), false) }
	for _, name := range pairNetworks {
		add(name, 6, 3e-3, func(d device.Device) *Step { return pairStep(t, d, name, loss.LSH) }, longer)
	}
	for _, name := range slices.Sorted(maps.Keys(gsmnModes)) { // in the same order on all ranks
		if name == "dense, others" {
			continue // sparse without edges: the conformance suite has it
		}
		add("gsmn, "+name, 6, 1e-3, func(d device.Device) *Step { return gsmnStep(t, d, gsmnModes[name], loss.LMH) },
			func(i int) *data.Batch { return chain(shorten(gsmnBatch(uint64(i), 6, 12), uint64(i), false)) })
	}
	for _, name := range models.Available() {
		known := func(c recordedCase) bool { return strings.HasPrefix(c.name, name) }
		if slices.ContainsFunc(all, known) {
			continue
		}
		o := published(t, name)
		batch := tiny
		if t := o.Traits(); t.SizeAugment {
			batch = regions(8)
		} else if t.Boxes || t.ReadsEdges {
			batch = func(i int) *data.Batch { return chain(shorten(gsmnBatch(uint64(i), 6, 8), uint64(i), false)) }
		}
		add(name, 5, 1e-3, func(d device.Device) *Step { return newStep(t, d, o, dimsOf(o), loss.LMH, adamw(1e-2)) },
			batch)
	}
	return all
}

// published are the published options of a network, at toy size and with recurrent text.
func published(t testing.TB, network string) models.Options {
	t.Helper()
	o := models.DefaultOptions()
	o.Network, o.EmbedDim, o.WordDim = network, 16, 4
	for _, encoder := range o.Traits().TextEncoders {
		if o.TextEncoder = encoder; encoder != models.TextBert {
			break
		}
	}
	try.Do(t, o.Validate())
	return o
}

func dimsOf(o models.Options) models.Dims {
	if o.Traits().SizeAugment {
		return manyRegions
	}
	return tinyDims
}

// fill gives all captions of a batch as many words as the longest has.
func fill(b *data.Batch) *data.Batch {
	for i := range b.Lengths {
		b.Lengths[i], b.Words[i] = int32(b.L), slices.Repeat([]int32{1}, b.L)
	}
	if b.EdgeStart != nil {
		chain(b)
	}
	return b
}

// poison makes everything that a step computes NaN, and leaves no trace but in memory that no later step may read.
func poison(t *testing.T, s *Step, b *data.Batch) {
	t.Helper()
	dev, p := s.model.Instance.Dev, s.model.Instance.Params
	var before [][]float64
	for _, spec := range p.Specs {
		before = append(before, doubles(dev, p.Value(spec.Name)))
		device.Do(dev, device.Fill{Dst: p.Value(spec.Name), Value: math.NaN()})
	}
	_, err := s.Run(b, 1, false)
	var nf *NotFiniteError
	if !errors.As(err, &nf) {
		t.Fatalf("a step with parameters that are NaN: %v", err)
	}
	for i, spec := range p.Specs {
		dev.UploadDoubles(p.Value(spec.Name), before[i])
	}
}

// trainCase trains on batches of one shape and different lengths, with a learning rate that changes. Before the given
// ones memory is poisoned.
func trainCase(t *testing.T, s *Step, c recordedCase, n int, poisoned ...int) (results []StepResult, all []float64) {
	t.Helper()
	for i := range n {
		if slices.Contains(poisoned, i) {
			poison(t, s, fill(c.batch(100+i)))
		}
		r, err := s.Run(c.batch(i), c.lr/float64(1+i), i == 1)
		if err != nil {
			t.Fatalf("%s: step %d: %v", c.name, i, err)
		}
		results = append(results, r)
	}
	return results, allNumbers(s)
}

// A recorded step does the same bits as one that is run call by call, and the same as the CPU to 1e-4: for batches of
// one shape that differ in words, lengths and regions, and with another learning rate, moment correction and dropout at
// every step. A number of the host that a recording stored would show in either comparison. Nothing reads the values
// after the last word of a batch, which earlier steps have left in memory.
func TestRecordedSteps(t *testing.T) {
	for k, c := range recordedCases(t) {
		t.Run(c.name, func(t *testing.T) {
			steps := c.steps
			onCPU, _ := trainCase(t, c.step(newDevice(t, "fp32")), c, steps)
			plain := c.step(emulatedGPU(t, k%2 > 0))
			plain.Record(false)
			want, wantNumbers := trainCase(t, plain, c, steps)
			if plain.recorder.Replayed != 0 || plain.CallByCall() == "" {
				t.Errorf("%d steps were replayed without recording (%q)", plain.recorder.Replayed, plain.CallByCall())
			}
			s := c.step(emulatedGPU(t, k%2 > 0))
			got, numbers := trainCase(t, s, c, steps, 0, 3)
			if s.CallByCall() != "" || s.recorder.Replayed < 2 { // the first replay is of the batch that was recorded
				t.Errorf("%d of %d steps were replayed: %s", s.recorder.Replayed, steps, s.CallByCall())
			}
			for i := range got {
				if got[i] != want[i] {
					t.Errorf("step %d recorded: %+v, call by call %+v", i, got[i], want[i])
				}
				if d := math.Abs(want[i].Loss - onCPU[i].Loss); !(d <= 1e-4*math.Abs(onCPU[i].Loss)) {
					t.Errorf("step %d: loss %v, %v on the CPU", i, want[i].Loss, onCPU[i].Loss)
				}
				if d := math.Abs(want[i].GradNorm - onCPU[i].GradNorm); !(d <= 1e-3*math.Abs(onCPU[i].GradNorm)) {
					t.Errorf("step %d: norm %v, %v on the CPU", i, want[i].GradNorm, onCPU[i].GradNorm)
				}
			}
			if !slices.Equal(numbers, wantNumbers) {
				t.Error("recorded and other steps end with different parameters, moments or running statistics")
			}
		})
	}
}

// A driver that does not record is said, and changes no bits.
func TestRecordingThatFails(t *testing.T) {
	c := recordedCases(t)[0]
	want, _ := trainCase(t, c.step(emulatedGPU(t, true)), c, 4)
	emulator.Set(t, "no_capture", 1, 0)
	s := c.step(emulatedGPU(t, true))
	got, _ := trainCase(t, s, c, 4)
	if !slices.Equal(got, want) || s.recorder.Replayed != 0 ||
		!strings.Contains(s.CallByCall(), "CUDA_ERROR_NOT_SUPPORTED") {
		t.Errorf("%d steps replayed (%q)\n%+v\nrecorded:\n%+v", s.recorder.Replayed, s.CallByCall(), got, want)
	}
}

// refuses is a device that records every second key alone.
type refuses struct {
	device.Recorder
	every, asked int
}

func (d *refuses) Generation() int         { return 0 }
func (d *refuses) Replay(device.Recording) {}
func (d *refuses) Record(func()) (device.Recording, error) {
	d.asked++
	if d.every > 0 && d.asked%d.every == 0 {
		return d, nil
	}
	return nil, errors.New("no memory")
}

// A shape of steps that cannot be recorded does not end the recordings of others; three in a row do.
func TestRecordingsThatFail(t *testing.T) {
	dev := &refuses{every: 2}
	r := &recorder{Recorder: dev, table: map[callKey]*recorded{}}
	done := 0
	all := func(from, n int) {
		for range 3 {
			for i := from; i < from+n; i++ {
				r.run(callKey{shape: shape{Shape: models.Shape{N: i}}}, 0, func() { done++ })
			}
		}
	}
	all(1, 6)
	if dev.asked != 6 || r.Recorded != 3 || r.Replayed != 6 || r.why() == "" {
		t.Errorf("asked %d times, %d recorded, %d replayed, %q", dev.asked, r.Recorded, r.Replayed, r.why())
	}
	dev.every = 0
	all(11, 6)
	if dev.asked != 9 || done != 6+6+18 {
		t.Errorf("asked %d times, %d calls", dev.asked, done)
	}
}
