package torchfile

import (
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"vsetrain/lab/try"
)

func mustLoad(t *testing.T, name string) *Dict {
	t.Helper()
	return try.Get(Load(filepath.Join(try.Fixtures(t, "torchfile"), name)))(t).(*Dict)
}

func get(t *testing.T, d *Dict, key any) any {
	t.Helper()
	v, ok := d.Get(key)
	if !ok {
		t.Fatalf("no %v", key)
	}
	return v
}

// ramp is element i of the tensors in testdata/files.zip, see scripts/make_torch_fixtures.py.
func ramp(i int) float32 { return float32(i-3) / 8 }

// checkTensor compares a tensor with values in C order.
func checkTensor(t *testing.T, v any, shape []int, want ...float32) {
	t.Helper()
	x := v.(*Tensor)
	if got := try.Get(x.Float32s())(t); !slices.Equal(x.Shape, shape) || !slices.Equal(got, want) {
		t.Fatalf("shape %v of %v, want %v of %v", x.Shape, got, shape, want)
	}
}

func rampTo(n int, shift float32) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = ramp(i) + shift
	}
	return v
}

var formats = []string{"_zip.pth", "_legacy.pth"}

func checkCheckpoint(t *testing.T, d *Dict) {
	t.Helper()
	if get(t, d, "epoch") != int64(7) || get(t, d, "best_rsum") != 387.25 || get(t, d, "Eiters") != int64(1234) {
		t.Errorf("counters: %v %v %v", get(t, d, "epoch"), get(t, d, "best_rsum"), get(t, d, "Eiters"))
	}
	opt := &get(t, d, "opt").(*Namespace).Attrs
	if get(t, opt, "margin") != 0.2 || get(t, opt, "data_name") != "f8k_precomp" || get(t, opt, "no_imgnorm") != false {
		t.Errorf("options %+v", opt)
	}
	model := get(t, d, "model").(*List).Items
	image, text := model[0].(*Dict), model[1].(*Dict)
	checkTensor(t, get(t, image, "fc.weight"), []int{4, 3}, rampTo(12, 0)...)
	checkTensor(t, get(t, image, "fc.bias"), []int{4}, rampTo(4, 1)...)
	checkTensor(t, get(t, text, "rnn.weight_ih_l0"), []int{12, 2}, rampTo(24, 0)...)
	if !image.Ordered || get(t, get(t, get(t, image.Attrs, "_metadata").(*Dict), "").(*Dict), "version") != int64(1) {
		t.Errorf("state dict metadata %+v", image.Attrs)
	}
	var names []any
	for k := range text.All() {
		names = append(names, k)
	}
	if !reflect.DeepEqual(names, []any{"embed.weight", "rnn.weight_ih_l0", "rnn.bias_ih_l0"}) {
		t.Errorf("order of parameters %v", names)
	}
}

// checkViews reads tensors that share a storage, with offsets and strides.
func checkViews(t *testing.T, d *Dict) {
	t.Helper()
	checkTensor(t, get(t, d, "base"), []int{3, 4}, rampTo(12, 0)...)
	var transposed []float32
	for c := range 4 {
		for r := range 3 {
			transposed = append(transposed, ramp(4*r+c))
		}
	}
	checkTensor(t, get(t, d, "transposed"), []int{4, 3}, transposed...)
	checkTensor(t, get(t, d, "row"), []int{4}, rampTo(8, 0)[4:]...)
	checkTensor(t, get(t, d, "column"), []int{3}, ramp(2), ramp(6), ramp(10))
	checkTensor(t, get(t, d, "expanded"), []int{2, 3}, ramp(0), ramp(1), ramp(2), ramp(0), ramp(1), ramp(2))
	checkTensor(t, get(t, d, "scalar"), []int{}, 2.5)
	checkTensor(t, get(t, d, "empty"), []int{0, 3})
	if base, row := get(t, d, "base").(*Tensor), get(t, d, "row").(*Tensor); base.storage != row.storage {
		t.Error("views do not share a storage")
	}
	p := get(t, d, "parameter").(*Tensor)
	if !p.Parameter || !p.RequiresGrad || get(t, d, "base").(*Tensor).Parameter {
		t.Errorf("parameter flags %+v", p)
	}
	if !reflect.DeepEqual(get(t, d, "size"), Tuple{int64(2), int64(3)}) || get(t, d, "device") != "cpu" {
		t.Errorf("size %v, device %v", get(t, d, "size"), get(t, d, "device"))
	}
}

func checkTypes(t *testing.T, d *Dict) {
	t.Helper()
	for name, dtype := range torchTypes {
		name = name[len("torch."):]
		if name[0] == 'u' && name != "uint8" {
			continue // see TestUnsigned
		}
		x := get(t, d, name).(*Tensor)
		want := []float32{0, 1, 2, 3, 4}
		if name == "bool" {
			want = []float32{0, 1, 1, 1, 1}
		}
		if x.DType != dtype {
			t.Errorf("%s has type %s, want %s", name, x.DType, dtype)
		}
		checkTensor(t, x, []int{5}, want...)
		if v, err := x.Float64s(); err != nil || v[3] != float64(want[3]) {
			t.Errorf("%s as float64: %v, %v", name, v, err)
		}
	}
}

// TestUnsigned reads a type without a storage class of its own.
func TestUnsigned(t *testing.T) {
	for _, format := range formats {
		x := get(t, mustLoad(t, "unsigned"+format), "uint16")
		if checkTensor(t, x, []int{2}, 1, 65535); x.(*Tensor).DType != "U16" {
			t.Errorf("type %s", x.(*Tensor).DType)
		}
	}
}
