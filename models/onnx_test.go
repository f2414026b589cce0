package models

import (
	"bytes"
	"slices"
	"testing"

	"vsetrain/internal/compute/device/cpu"
	"vsetrain/lab/try"
)

// Every network that is written for it has two models of ONNX, of the same bytes each time; every other one says why it
// has none.
func TestONNXOfEveryNetwork(t *testing.T) {
	var written []string
	for _, name := range Available() {
		o := DefaultOptions()
		o.Network, o.EmbedDim, o.WordDim = name, 32, 8
		o.TextEncoder = o.Traits().TextEncoders[0]
		if o.TextEncoder == TextBert {
			o.Bert.Layers, o.Bert.Hidden, o.Bert.Heads, o.Bert.Intermediate, o.Bert.Positions = 1, 4, 1, 4, 8
		}
		m := try.Get(NewModel(newDevice(t, cpu.FP32), o, Dims{Regions: 3, Feature: 5, Vocab: 9}))(t)
		m.Init(7, nil)
		if !m.HasONNX() {
			try.Refuses(m.ONNX())(t, "network "+name+" scores pairs")
			continue
		}
		written = append(written, name)
		var files [2][2]bytes.Buffer
		for i := range files {
			e := try.Get(m.ONNX())(t)
			try.Do(t, e.Images.Encode(&files[i][0]))
			try.Do(t, e.Captions.Encode(&files[i][1]))
		}
		for i := range files[0] {
			if !bytes.Equal(files[0][i].Bytes(), files[1][i].Bytes()) || files[0][i].Len() < 1000 {
				t.Errorf("%s: model %d of %d and %d bytes", name, i, files[0][i].Len(), files[1][i].Len())
			}
		}
	}
	for _, name := range []string{VSEPP, VSRN, VSEInf} {
		if !slices.Contains(written, name) {
			t.Errorf("%s has no form in ONNX", name)
		}
	}
}
