package definitions_test

import (
	"errors"
	"testing"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/composed"
	"vsetrain/internal/compute/device/cpu"
	"vsetrain/lab/definitions"
	"vsetrain/lab/devicetest"
	"vsetrain/lab/try"
)

func open(t *testing.T, precision string) device.Device {
	t.Helper()
	return try.Get(cpu.New(cpu.Options{Threads: 1, Precision: precision}))(t)
}

// families are those that are composed. Those in float64 are tested with lab/reference.
var families = []string{"Elementwise", "ColumnSum", "L2Norm", "BatchNorm", "PoolWeights", "SortPool", "Order",
	"GRU", "GRUGrad", "BiGRU", "BiGRUGrad", "Words", "Active", "Cells", "Attention", "BlockMatch", "FewPairs",
	"PolarWeights", "ScaleBlocks", "MixNodes", "MeanNodes", "WordGraph", "Embed", "LayerNorm", "SelfAttention",
	"PairAttention", "Similarities", "GraphReason", "Filtrate", "Segments", "SwapAxes", "CrossEntropy", "Hinge",
	"SemanticMargins", "UniversalWeighting", "Factored"}

// What is composed of the CPU's other kernels keeps the tolerances of its fused kernels in float32, but for contexts of
// BlockMatch that nearly cancel: its kernels sum them in float64.
func TestConformance(t *testing.T) {
	devicetest.RunPlain(t, func(t *testing.T) device.Device { return definitions.Alone(open(t, cpu.FP32)) },
		families...)
}

// partial is a device that adds, which it counts, and scales nothing.
type partial struct {
	device.Device
	calls *int
}

func (p partial) Do(k device.Kernel) bool {
	switch k.(type) {
	case *device.Add:
		*p.calls++
	case *device.Scale:
		return false
	}
	return p.Device.Do(k)
}

func TestAKernelOfTheDeviceIsUsed(t *testing.T) {
	calls := 0
	d := definitions.Over(partial{open(t, cpu.FP32), &calls})
	defer d.Close()
	if composed.Over(d) != d {
		t.Error("a device with all kernels was wrapped again")
	}
	b := try.Get(d.Alloc(device.Float, 3))(t)
	v := device.ViewOf(b)
	device.Do(d, device.Fill{Dst: v, Value: 1.5})
	device.Do(d, device.Add{Dst: v, A: v, B: v})
	device.Do(d, device.Scale{Dst: v, X: v, Factor: v.Slice(0, 1)})
	if got := make([]float64, 3); calls != 1 {
		t.Errorf("%d calls of the device's own Add, want 1", calls)
	} else if d.DownloadDoubles(got, v); got[2] != 9 {
		t.Errorf("3·3 is %v", got[2])
	}
}

// full is a device that scales nothing, without memory for intermediate values.
type full struct{ partial }

func (full) Alloc(device.DType, int) (device.Buffer, error) {
	return nil, &device.OutOfMemoryError{Want: 1, Err: errors.New("no memory")}
}

func TestMemoryThatIsLackingIsAnError(t *testing.T) {
	own := open(t, cpu.FP32)
	b := try.Get(own.Alloc(device.Float, 4))(t)
	v, d := device.ViewOf(b), definitions.Over(full{partial{own, new(int)}})
	defer d.Close()
	device.Do(d, device.Scale{Dst: v, X: v, Factor: v.Slice(0, 1)})
	var lack *device.OutOfMemoryError
	if err := d.ScratchError(); !errors.As(err, &lack) {
		t.Errorf("a kernel without memory: %v", err)
	}
	device.Do(d, device.Add{Dst: v, A: v, B: v})
	if err := d.Sync(); err != nil {
		t.Errorf("after what was lacking had been told: %v", err)
	}
}

// What a device can do beside computing is found through what is composed around it.
func TestAbilitiesAreFound(t *testing.T) {
	d := definitions.Over(open(t, cpu.FP32))
	defer d.Close()
	if _, ok := device.As[device.Recorder](d); ok {
		t.Error("a CPU that records")
	}
	s, ok := device.As[device.HostViewer](d)
	if !ok {
		t.Fatal("the CPU shares memory, what is composed around it does not")
	}
	got := make([]float32, 2)
	v, ok := s.ViewHost(device.View{}, []float32{1, 2})
	if d.DownloadFloats(got, v); !ok || got[1] != 2 {
		t.Errorf("shared memory holds %v, %v", got, ok)
	}
}
