package models

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"vsetrain/internal/compute/device/cpu"
	"vsetrain/internal/files/safetensors"
	"vsetrain/internal/files/torchfile"
	"vsetrain/lab/try"
)

func tinyModel(t testing.TB, precision string, change func(*Options, *Dims)) *Model {
	t.Helper()
	o, d := DefaultOptions(), Dims{Regions: 2, Feature: 3, Vocab: 7}
	o.EmbedDim, o.WordDim = 4, 3
	if change != nil {
		change(&o, &d)
	}
	m := try.Get(NewModel(newDevice(t, precision), o, d))(t)
	m.Init(1, nil)
	return m
}

func writeCheckpoint(t testing.TB, m *Model, info Info, extra ...Extra) string {
	t.Helper()
	var b bytes.Buffer
	try.Do(t, WriteCheckpoint(&b, m, m.Instance.Dev, info, extra))
	path := filepath.Join(t.TempDir(), "c.safetensors")
	try.Do(t, os.WriteFile(path, b.Bytes(), 0o666))
	return path
}

func values(m *Model) []float64 {
	v := m.Instance.Params.Values()
	out := make([]float64, v.N)
	m.Instance.Dev.DownloadDoubles(out, v)
	return out
}

// doubles are the values of a parameter.
func (m *Model) doubles(name string) []float64 {
	v := m.Instance.Params.Value(name)
	out := make([]float64, v.N)
	m.Instance.Dev.DownloadDoubles(out, v)
	return out
}

func TestCheckpointKeepsEveryBit(t *testing.T) {
	for _, precision := range []string{cpu.FP32, cpu.BF16, cpu.FP64} {
		t.Run(precision, func(t *testing.T) {
			m := tinyModel(t, precision, nil)
			if m.Instance.Dev.Float64() { // values that float32 cannot hold
				x := values(m)
				for i := range x {
					x[i] /= 3
				}
				m.Instance.Dev.UploadDoubles(m.Instance.Params.Values(), x)
			}
			c, err := OpenCheckpoint(writeCheckpoint(t, m, Info{Vocabulary: "abc", Step: 12, Epoch: 1.5, Score: 40}))
			try.Do(t, err)
			defer c.Close()
			other := tinyModel(t, precision, nil)
			other.Init(2, nil)
			try.Do(t, c.Restore(other))
			if !slices.Equal(values(other), values(m)) {
				t.Error("the weights changed")
			}
			if i := c.Info; i.Vocabulary != "abc" || i.Step != 12 || i.Epoch != 1.5 || i.Score != 40 ||
				i.Model != m.Options || i.Dims != m.Dims {
				t.Errorf("description %+v", i)
			}
			if want := c.Path + ": vsepp after step 12 (epoch 1.50), validation score 40.00"; c.Describe() != want {
				t.Errorf("described as %q", c.Describe())
			}
		})
	}
}

// A checkpoint opens only if its tensors are the tensors of the network it describes; sizes of the description alone
// allocate nothing.
func TestCheckpointThatIsNotWhatItSays(t *testing.T) {
	m := tinyModel(t, cpu.FP32, nil)
	path := writeCheckpoint(t, m, Info{})
	extra := safetensors.FromFloat32s("img.extra", []int{1}, []float32{1})
	for _, c := range []struct {
		name    string
		change  func(i *Info)
		tensors func(x []safetensors.Tensor) []safetensors.Tensor
		words   string
	}{
		{"huge sizes", func(i *Info) { i.Dims.Vocab = 1 << 50 }, nil, "network vsepp of these sizes has a tensor " +
			"txt.embed.weight of shape [1125899906842624 3], the file one of shape [7 3]"},
		{"sizes that overflow", func(i *Info) { i.Dims.Regions, i.Dims.Feature = 1<<33, 1<<33 }, nil, "img.fc.weight"},
		{"negative sizes", func(i *Info) { i.Dims.Regions = -2 }, nil, "regions -2"},
		{"impossible option", func(i *Info) { i.Model.EmbedDim = -1 }, nil, "embed_dim"},
		{"unknown network", func(i *Info) { i.Model.Network, i.Model.TextEncoder = "clip", "bigru" }, nil,
			"network: expected one of"},
		{"unknown format", func(i *Info) { i.Format = 3 }, nil, "checkpoint format 3, this vsetrain reads 1 to 2"},
		{"missing tensor", nil, func(x []safetensors.Tensor) []safetensors.Tensor { return x[1:] },
			"the file has none"},
		{"tensor too many", nil, func(x []safetensors.Tensor) []safetensors.Tensor { return append(x, extra) },
			"network vsepp has no tensor img.extra"},
	} {
		t.Run(c.name, func(t *testing.T) {
			changed := rewrite(t, path, func(i *Info, x []safetensors.Tensor) []safetensors.Tensor {
				if c.tensors != nil {
					return c.tensors(x)
				}
				c.change(i)
				return x
			})
			try.Refuses(OpenCheckpoint(changed))(t, c.words, ".safetensors: ")
		})
	}
	t.Run("of another program", func(t *testing.T) {
		var b bytes.Buffer
		try.Do(t, safetensors.Write(&b, []safetensors.Tensor{extra}, nil, nil))
		path := filepath.Join(t.TempDir(), "x.safetensors")
		try.Do(t, os.WriteFile(path, b.Bytes(), 0o666))
		try.Refuses(OpenCheckpoint(path))(t, "was not written by vsetrain")
	})
}

// rewrite changes description and tensors of a checkpoint.
func rewrite(t testing.TB, path string, change func(*Info, []safetensors.Tensor) []safetensors.Tensor) string {
	t.Helper()
	f := try.Get(safetensors.Open(path))(t)
	defer f.Close()
	var info Info
	try.Do(t, json.Unmarshal([]byte(f.Metadata()[metadataInfo]), &info))
	var tensors []safetensors.Tensor
	for _, name := range f.Names() {
		x, _ := f.Tensor(name)
		tensors = append(tensors, x)
	}
	tensors = change(&info, tensors)
	desc, err := json.Marshal(info)
	try.Do(t, err)
	var b bytes.Buffer
	metadata, data := map[string]string{metadataInfo: string(desc)}, func(i int, w io.Writer) error {
		_, err := w.Write(tensors[i].Data)
		return err
	}
	if info.Format == firstFormat {
		err = safetensors.Write(&b, tensors, metadata, data)
	} else {
		err = safetensors.WriteSealed(&b, tensors, metadata, data)
	}
	try.Do(t, err)
	out := filepath.Join(t.TempDir(), "c.safetensors")
	try.Do(t, os.WriteFile(out, b.Bytes(), 0o666))
	return out
}

// A checkpoint of an earlier version, whose description lacks options that came later, has their defaults. It has no
// checksum.
func TestCheckpointOfAnEarlierVersion(t *testing.T) {
	m := tinyModel(t, cpu.FP32, nil)
	path := writeCheckpoint(t, m, Info{})
	b := try.Get(os.ReadFile(path))(t)
	const field = `\"Mode\":\"f30k\",`
	if !bytes.Contains(b, []byte(field)) {
		t.Fatalf("the description does not hold %s", field)
	}
	old := bytes.Replace(b, []byte(field), bytes.Repeat([]byte(" "), len(field)), 1)
	old = bytes.Replace(old, []byte(`\"format\":2`), []byte(`\"format\":1`), 1)
	old = bytes.Replace(old, []byte("vsetrain.sha256"), []byte("of other tool 1"), 1)
	try.Do(t, os.WriteFile(path, old, 0o644))
	c := try.Get(OpenCheckpoint(path))(t)
	defer c.Close()
	if got := c.Network(); got != m.Options {
		t.Errorf("options %+v, want %+v", got, m.Options)
	}
}

// FuzzOpenWeights: a damaged checkpoint is refused or describes tensors it has; nothing panics and nothing large is
// allocated.
func FuzzOpenWeights(f *testing.F) {
	m := tinyModel(f, cpu.FP32, nil)
	ours := try.Get(os.ReadFile(writeCheckpoint(f, m, Info{Step: 3})))(f)
	f.Add(ours, true)
	f.Add(ours[:len(ours)-4], true)
	for _, name := range []string{"checkpoint.pth.tar", "checkpoint_legacy.pth.tar"} {
		b := try.Get(os.ReadFile(filepath.Join("..", "testdata", "torch", "vsepp", name)))(f)
		f.Add(b, false)
	}
	f.Fuzz(func(t *testing.T, b []byte, own bool) {
		path := filepath.Join(t.TempDir(), map[bool]string{true: "c.safetensors", false: "c.pth"}[own])
		try.Do(t, os.WriteFile(path, b, 0o666))
		w, err := OpenWeights(path, nil)
		if err != nil {
			return
		}
		defer w.Close()
		model, err := NewModel(newDevice(t, cpu.FP32), w.Network(), w.Sizes())
		if err != nil {
			return
		}
		if n := model.Instance.Params.Count(); n > len(b) {
			t.Fatalf("%d parameters from a file of %d bytes", n, len(b))
		}
		_ = w.Restore(model)
	})
}

// A file of torch.save that no reference repository wrote is named with what it holds.
func TestOtherTorchFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "other.pt")
	for _, c := range []struct {
		keys []string
		want string
	}{
		{nil, `under the key "model", found an empty dict`},
		{[]string{"fc.weight", "fc.bias"}, `found a dict with the keys "fc.weight", "fc.bias"`},
		{[]string{"model"}, `under the key "model", found a int there`},
	} {
		d := &torchfile.Dict{}
		for i, k := range c.keys {
			d.Set(k, int64(i))
		}
		try.Do(t, torchfile.Save(path, d))
		try.Refuses(OpenWeights(path, nil))(t, path+": not a checkpoint of a reference repository: ", c.want)
	}
	tensor := try.Get(torchfile.FromFloat32s([]int{1}, []float32{1}))(t)
	try.Do(t, torchfile.Save(path, tensor))
	if _, err := OpenWeights(path, nil); err == nil || !strings.HasSuffix(err.Error(), ", found a tensor") {
		t.Errorf("%v; expected it to end with a tensor", err)
	}
}

// The best checkpoint of a run is found, and before the first validation the last one. A best one that cannot be read
// is not passed over for the last one.
func TestFindCheckpoint(t *testing.T) {
	dir := t.TempDir()
	try.Do(t, os.Mkdir(filepath.Join(dir, "checkpoints"), 0o777))
	last, best := filepath.Join(dir, "checkpoints", "last.safetensors"), filepath.Join(dir, "checkpoints",
		"best.safetensors")
	try.Refuses(FindCheckpoint(dir))(t, "no checkpoint in this directory: expected a run directory")
	for _, want := range []string{last, best} {
		try.Do(t, os.WriteFile(want, nil, 0o666))
		if got, err := FindCheckpoint(dir); got != want || err != nil {
			t.Errorf("found %s, %v, want %s", got, err, want)
		}
		if got, err := FindCheckpoint(filepath.Join(dir, "checkpoints")); got != want || err != nil {
			t.Errorf("in the folder of checkpoints: %s, %v, want %s", got, err, want)
		}
	}
	try.Do(t, os.Remove(best))
	if err := os.Symlink(filepath.Join(dir, "not", "mounted"), best); err != nil {
		t.Skip(err)
	}
	if got, err := FindCheckpoint(dir); got != best || err != nil {
		t.Errorf("found %s, %v, want %s", got, err, best)
	}
	try.Refuses(OpenCheckpoint(dir))(t, "best.safetensors")
}

// A checkpoint tells every changed byte of its weights, its training state and its description; without its checksum it
// is refused.
func TestDamagedCheckpoint(t *testing.T) {
	m := tinyModel(t, cpu.FP32, nil)
	n := m.Instance.Params.Values().N
	path := writeCheckpoint(t, m, Info{Step: 7, Train: json.RawMessage(`{"position":{"step":7}}`)},
		Extra{Name: extraPrefix + "m", Shape: []int{n}, View: m.Instance.Params.Values()})
	whole := try.Get(os.ReadFile(path))(t)
	open := func(b []byte) error {
		t.Helper()
		try.Do(t, os.WriteFile(path, b, 0o666))
		c, err := OpenCheckpoint(path)
		if err == nil {
			c.Close()
		}
		return err
	}
	try.Do(t, open(whole))
	elements := 8 + int(binary.LittleEndian.Uint64(whole))
	for at := elements; at < len(whole); at += 7 {
		b := slices.Clone(whole)
		b[at] ^= 1
		if err := open(b); !errors.Is(err, safetensors.ErrDamaged) || !strings.HasPrefix(err.Error(), path+": ") {
			t.Fatalf("byte %d of %d changed: %v", at, len(whole), err)
		}
	}
	b := bytes.ReplaceAll(whole, []byte(`\"step\":7`), []byte(`\"step\":9`))
	if err := open(b); bytes.Equal(b, whole) || !errors.Is(err, safetensors.ErrDamaged) {
		t.Errorf("an edited description: %v", err)
	}
	b = bytes.Replace(whole, []byte("vsetrain.sha256"), []byte("vsetrain.sha512"), 1)
	try.Fails(t, open(b), "without its checksum")
}

// Weights that are not finite are refused, whether or not the file has a checksum.
func TestCheckpointWithoutFiniteWeights(t *testing.T) {
	for _, precision := range []string{cpu.FP32, cpu.FP64} {
		for _, format := range []int{firstFormat, infoFormat} {
			m := tinyModel(t, precision, nil)
			x := values(m)
			x[4] = math.Inf(-1)
			m.Instance.Dev.UploadDoubles(m.Instance.Params.Values(), x)
			change := func(i *Info, x []safetensors.Tensor) []safetensors.Tensor {
				i.Format = format
				return x
			}
			path := rewrite(t, writeCheckpoint(t, m, Info{}), change)
			c := try.Get(OpenCheckpoint(path))(t)
			try.Fails(t, c.Restore(m), "element 4 is -Inf", path)
			c.Close()
		}
	}
}
