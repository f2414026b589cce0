package composed_test

import (
	"errors"
	"testing"

	"vsetrain/internal/device"
	"vsetrain/internal/device/composed"
	"vsetrain/internal/device/cpu"
	"vsetrain/internal/device/devicetest"
)

func open(t *testing.T, precision string) device.Device {
	t.Helper()
	d, err := cpu.New(cpu.Options{Threads: 1, Precision: precision})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// coreOnly hides what a device has beyond the core.
func coreOnly(d device.Device) device.Device { return composed.Over(struct{ device.Core }{d}) }

// families are those that are composed. Those in float64 are tested with device/toy.
var families = []string{"Elementwise", "ColumnSum", "L2Norm", "BatchNorm", "PoolWeights", "SortPool", "Order",
	"GRU", "GRUGrad", "BiGRU", "BiGRUGrad", "Words", "Active", "Cells", "Attention", "BlockMatch", "FewPairs",
	"PolarWeights", "ScaleBlocks", "MixNodes", "MeanNodes", "WordGraph", "Embed", "LayerNorm", "SelfAttention",
	"PairAttention", "Similarities", "GraphReason", "Filtrate", "Segments", "SwapAxes", "CrossEntropy", "Hinge",
	"SemanticMargins", "UniversalWeighting", "Factored"}

// What is composed of the CPU's core keeps the tolerances of its fused kernels in float32, but for contexts of
// BlockMatch that nearly cancel: its kernels sum them in float64.
func TestConformance(t *testing.T) {
	devicetest.RunPlain(t, func(t *testing.T) device.Device { return coreOnly(open(t, cpu.FP32)) }, families...)
}

func TestADeviceWithAllFamiliesIsLeftAsItIs(t *testing.T) {
	d := open(t, cpu.FP32)
	defer d.Close()
	if composed.Over(d) != d {
		t.Error("a device that has every kernel was wrapped")
	}
}

// partial has the core and one family, of which it counts the calls.
type partial struct {
	device.Core
	device.Rows
	calls *int
}

func (p partial) Add(dst, a, b device.View) {
	*p.calls++
	p.Rows.Add(dst, a, b)
}

func TestAFamilyOfTheDeviceIsUsed(t *testing.T) {
	own, calls := open(t, cpu.FP32), 0
	d := composed.Over(partial{own, own, &calls})
	defer d.Close()
	b, err := d.Alloc(device.Float, 3)
	if err != nil {
		t.Fatal(err)
	}
	v := device.Of(b)
	d.Fill(v, 1.5)
	d.Add(v, v, v)
	d.Scale(v, v, v.Slice(0, 1))
	if got := make([]float64, 3); calls != 1 {
		t.Errorf("%d calls of the device's own Add, want 1", calls)
	} else if d.DownloadDoubles(got, v); got[2] != 9 {
		t.Errorf("3·3 is %v", got[2])
	}
}

// full is a device without memory for intermediate values.
type full struct{ device.Core }

func (full) Alloc(device.DType, int) (device.Buffer, error) {
	return nil, &device.Full{Want: 1, Err: errors.New("no memory")}
}

func TestMemoryThatIsLackingIsAnError(t *testing.T) {
	own := open(t, cpu.FP32)
	b, err := own.Alloc(device.Float, 4)
	if err != nil {
		t.Fatal(err)
	}
	v, d := device.Of(b), composed.Over(full{own})
	defer d.Close()
	d.Scale(v, v, v.Slice(0, 1))
	var lack *device.Full
	if err := d.(device.Scratch).Lacked(); !errors.As(err, &lack) {
		t.Errorf("a kernel without memory: %v", err)
	}
	d.Add(v, v, v)
	if err := d.Sync(); err != nil {
		t.Errorf("after what was lacking had been told: %v", err)
	}
}

// slow is a device that knows why it is.
type slow struct{ device.Core }

func (slow) Warnings() []string { return []string{"plain loops"} }

func TestWarningsAndSharedMemoryAreHandedOn(t *testing.T) {
	own := open(t, cpu.FP32)
	warned, silent := composed.Over(slow{own}), composed.Over(struct{ device.Core }{own})
	if w := warned.(device.Warner).Warnings(); len(w) != 1 || silent.(device.Warner).Warnings() != nil {
		t.Errorf("warnings %q", w)
	}
	x := []float32{1, 2}
	if _, ok := silent.(device.Sharer).Share(device.View{}, x); ok {
		t.Error("memory is shared with a device that cannot")
	}
	type sharing struct {
		device.Core
		device.Sharer
	}
	d := composed.Over(sharing{own, own.(device.Sharer)})
	defer d.Close()
	v, ok := d.(device.Sharer).Share(device.View{}, x)
	got := make([]float32, 2)
	if d.DownloadFloats(got, v); !ok || got[1] != 2 {
		t.Errorf("shared memory holds %v, %v", got, ok)
	}
}
