package models

import (
	"encoding/binary"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"vsetrain/internal/compute/device/cpu"
	"vsetrain/internal/files/safetensors"
	"vsetrain/lab/try"
)

func bertOptions() Options {
	o := vseinfOptions(8, 5)
	o.TextEncoder = TextBert
	o.Bert = BertOptions{Init: BertRandom, Layers: 2, Hidden: 6, Heads: 2, Intermediate: 10, Positions: 12,
		Dropout: 0.1}
	return o
}

// An embedding does not depend on the other captions of a batch.
func TestBertEmbedsAlone(t *testing.T) {
	m := try.Get(NewModel(newDevice(t, cpu.FP64), bertOptions(), Dims{Regions: 6, Feature: 7, Vocab: 20}))(t)
	m.Init(5, nil)
	run := NewRunner(m, nil).Embeds
	captionsAlone(t, run, []int32{2, 7, 8, 9, 4, 5, 6, 7, 11, 3}, []int32{2, 5, 0, 6, 3}, []int32{2, 19, 3})
	try.Fails(t, run.Captions(make([]float32, 8), captionBatch(make([]int32, 13), []int32{13}, 13)), "12 positions")
}

// A folder with safetensors, names and layer norms of today and of early versions, in float32 and half precision.
func TestLoadBertSafetensors(t *testing.T) {
	for _, c := range []struct{ prefix, weight, bias, dtype string }{{"", "weight", "bias", "F32"},
		{"bert.", "gamma", "beta", "F32"}, {"bert.", "weight", "bias", "BF16"}} {
		m := try.Get(NewModel(newDevice(t, cpu.FP32), bertOptions(), Dims{Regions: 6, Feature: 7, Vocab: 20}))(t)
		m.Init(5, nil)
		before := map[string][]float64{}
		for _, p := range m.Network.Params() {
			before[p.Name] = m.doubles(p.Name)
		}
		dir := t.TempDir()
		var tensors []safetensors.Tensor
		want := map[string][]float64{}
		for k, p := range bertParams(m.Network) {
			values := normals(p.Name, m.Instance.Params.Value(p.Name).N)
			for i := range values {
				values[i] = float32(math.Round(float64(values[i])*8)/8) + float32(k%3) // exact in half precision
				want[p.Name] = append(want[p.Name], float64(values[i]))
			}
			name := c.prefix + bertName(p.Name)
			name = strings.Replace(strings.Replace(name, "LayerNorm.weight", "LayerNorm."+c.weight, 1),
				"LayerNorm.bias", "LayerNorm."+c.bias, 1)
			tensors = append(tensors, safetensors.Tensor{Name: name, DType: c.dtype, Shape: p.Shape,
				Data: encode(values, c.dtype)})
		}
		tensors = append(tensors, safetensors.Tensor{Name: "cls.predictions.bias", DType: "F32", Shape: []int{1},
			Data: make([]byte, 4)})
		f := try.Get(os.Create(filepath.Join(dir, "model.safetensors")))(t)
		try.Do(t, safetensors.Write(f, tensors, nil, nil))
		try.Do(t, f.Close())
		try.Do(t, LoadBert(m, dir))
		maps.Copy(before, want)
		for name, values := range before {
			if !slices.Equal(m.doubles(name), values) {
				t.Errorf("%+v: parameter %s is not what it should be", c, name)
			}
		}
	}
}

func encode(values []float32, dtype string) (out []byte) {
	for _, v := range values {
		bits := math.Float32bits(v)
		if dtype == "BF16" {
			out = binary.LittleEndian.AppendUint16(out, uint16(bits>>16))
		} else {
			out = binary.LittleEndian.AppendUint32(out, bits)
		}
	}
	return out
}
