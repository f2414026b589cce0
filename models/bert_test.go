package models

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"vsetrain/internal/compute/device/cpu"
	"vsetrain/internal/files/safetensors"
	"vsetrain/lab/try"
	"vsetrain/models/nn"
)

func bertOptions() Options {
	o := vseinfOptions(8, 5)
	o.TextEncoder = TextBert
	o.Bert = BertOptions{Init: BertRandom, Layers: 2, Hidden: 6, Heads: 2, Intermediate: 10, Positions: 12,
		Dropout: 0.1}
	return o
}

// The numbers of parameters of VSE-infinity with BERT, and of bert-base-uncased.
func TestBertSize(t *testing.T) {
	o := vseinfOptions(1024, 300)
	o.TextEncoder = TextBert
	n := try.Get(newNetwork(o, Dims{Regions: 36, Feature: 2048, Vocab: 30522}))(t)
	all, bert := 0, 0
	for _, s := range specs(n.Params()) {
		if s.State {
			continue
		}
		all += s.Size()
		if s.Group == nn.BertGroup {
			bert += s.Size()
		}
	}
	if all != 113_970_752 || bert != 109_482_240 {
		t.Errorf("%d parameters, %d of them of BERT, want 113,970,752 and 109,482,240", all, bert)
	}
	if p := bertParams(n); len(p) != 199 || bertName(p[0].Name) != bertWords ||
		bertName(p[198].Name) != "pooler.dense.bias" {
		t.Errorf("%d tensors of BERT, the first %s", len(p), p[0].Name)
	}
}

// An embedding does not depend on the other captions of a batch, nor on the capacity.
func TestBertEmbedsAlone(t *testing.T) {
	m := try.Get(NewModel(newDevice(t, cpu.FP64), bertOptions(), Dims{Regions: 6, Feature: 7, Vocab: 20}))(t)
	m.Init(5, nil)
	words := []int32{2, 7, 8, 9, 4, 5, 6, 7, 11, 3, 2, 5, 0, 6, 3, 0, 0, 0, 0, 0, 2, 19, 3, 0, 0, 0, 0, 0, 0, 0}
	lengths, all, one := []int32{10, 5, 3}, make([]float32, 24), make([]float32, 8)
	run := NewRunner(m, nil).Embeds
	try.Do(t, run.Captions(all, captionBatch(words, lengths, 10)))
	for i, l := range lengths {
		try.Do(t, run.Captions(one, captionBatch(words[i*10:], []int32{l}, 10)))
		nearly(t, "a caption alone", one, all[i*8:(i+1)*8])
	}
	try.Fails(t, run.Captions(one, captionBatch(make([]int32, 13), []int32{13}, 13)), "12 positions")
}

// A folder with safetensors, names and layer norms of today and of early versions, in float32 and half precision.
func TestLoadBertSafetensors(t *testing.T) {
	for _, c := range []struct{ prefix, weight, bias, dtype string }{{"", "weight", "bias", "F32"},
		{"bert.", "gamma", "beta", "F32"}, {"bert.", "weight", "bias", "BF16"}} {
		m := try.Get(NewModel(newDevice(t, cpu.FP32), bertOptions(), Dims{Regions: 6, Feature: 7, Vocab: 20}))(t)
		m.Init(5, nil)
		before := contents(m)
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
		try.Do(t, safetensors.Write(f, tensors, nil))
		try.Do(t, f.Close())
		try.Do(t, LoadBert(m, dir))
		at := 0
		for _, p := range m.Network.Params() {
			v := m.Instance.Params.Value(p.Name)
			got := make([]float64, v.N)
			m.Instance.Dev.DownloadDoubles(got, v)
			if w, ok := want[p.Name]; ok && !slices.Equal(got, w) || !ok && !slices.Equal(got, before[at:at+v.N]) {
				t.Errorf("%+v: parameter %s is not what it should be", c, p.Name)
			}
			at += v.N
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
