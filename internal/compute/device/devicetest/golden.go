package devicetest

import (
	"encoding/json"
	"fmt"
	"maps"

	"slices"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/files/golden"
)

// Golden runs the golden cases that concern single kernels: gru.json, losses.json and optim.json.
func Golden[S Runner[S]](t S, newDevice func(t S) device.Device) {
	for _, f := range []struct {
		name string
		test func(g *goldenCase)
		// types that at least one case has: without one, a misspelt type would skip its cases
		types []string
	}{{"gru", goldenGRU, nil}, {"losses", goldenLosses, slices.Sorted(maps.Keys(lossKernels))},
		{"optim", goldenOptim, nil}} {
		t.Run(f.name, func(t S) {
			var file struct{ Cases []json.RawMessage }
			golden.Load(t, f.name+".json", &file)
			if len(file.Cases) == 0 {
				t.Fatalf("%s.json holds no cases", f.name)
			}
			for i, raw := range file.Cases {
				var head struct {
					Name string
					Type string `json:"loss_type"`
				}
				if err := json.Unmarshal(raw, &head); err != nil {
					t.Fatalf("%s.json, case %d: %v", f.name, i, err)
				}
				f.types = slices.DeleteFunc(f.types, func(name string) bool { return name == head.Type })
				t.Run(head.Name, func(t S) {
					d := newDevice(t)
					defer closeDevice(t, d)
					g := &goldenCase{harness: newHarness(t, d, head.Name), raw: raw}
					g.out32, g.grad32 = golden.FP32, golden.FP32Grad
					if d.Wide() {
						g.out32, g.grad32 = golden.FP64, golden.FP64
					}
					f.test(g)
				})
			}
			if len(f.types) > 0 {
				t.Fatalf("%s.json has no case of type %v", f.name, f.types)
			}
		})
	}
}

type goldenCase struct {
	*harness
	raw           json.RawMessage
	out32, grad32 golden.Tolerance // of outputs and of gradients, on this device
}

func (g *goldenCase) decode(v any) {
	g.t.Helper()
	if err := json.Unmarshal(g.raw, v); err != nil {
		g.t.Fatal(err)
	}
}

func (g *goldenCase) output(what string, v device.View, want []float64) {
	g.t.Helper()
	golden.Close(g.t, what, g.read(v), want, g.out32)
}

func (g *goldenCase) gradient(what string, v device.View, want []float64) {
	g.t.Helper()
	golden.Close(g.t, what, g.read(v), want, g.grad32)
}

// matrix is a tensor of the golden files in either of their forms, flat or as nested lists.
type matrix struct {
	Data []float64
	Cols int // length of the innermost lists
}

// UnmarshalJSON implements json.Unmarshaler.
func (m *matrix) UnmarshalJSON(b []byte) error {
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	if object, ok := v.(map[string]any); ok {
		var t golden.Tensor
		if err := json.Unmarshal(b, &t); err != nil {
			return err
		}
		if _, ok := object["data"]; !ok || len(t.Shape) == 0 {
			return fmt.Errorf("a tensor without data or shape")
		}
		m.Data, m.Cols = t.Data, t.Shape[len(t.Shape)-1]
		return nil
	}
	return m.flatten(v)
}

func (m *matrix) flatten(v any) error {
	switch v := v.(type) {
	case nil:
	case float64:
		m.Data = append(m.Data, v)
	case []any:
		for _, e := range v {
			if _, ok := e.(float64); ok {
				m.Cols = len(v)
			}
			if err := m.flatten(e); err != nil {
				return err
			}
		}
	default:
		return fmt.Errorf("%T in a tensor", v)
	}
	return nil
}
