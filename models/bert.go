package models

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"vsetrain/internal/files/jsontext"
	"vsetrain/internal/files/pickle"
	"vsetrain/internal/files/regular"
	"vsetrain/internal/files/safetensors"
	"vsetrain/internal/files/torchfile"
	"vsetrain/models/nn"
)

// Hugging Face stores a pretrained BERT encoder in a folder with vocab.txt and model.safetensors or pytorch_model.bin.
// The tensors have the names of package nn, with the prefix "bert." if the file also holds heads for pre-training
// (cls.…). Early versions call the parameters of layer norms gamma and beta.

// bertWords is the name of the tensor of word vectors.
const bertWords = "embeddings.word_embeddings.weight"

func (o *BertOptions) sizes(vocab int) nn.BertSizes {
	return nn.BertSizes{Vocab: vocab, Layers: o.Layers, Hidden: o.Hidden, Heads: o.Heads, Intermediate: o.Intermediate,
		Positions: o.Positions, Dropout: o.Dropout}
}

// bertParams returns the parameters of the BERT encoder of a network. Their names end in the names of Hugging Face.
func bertParams(n Network) []*nn.Param {
	return slices.DeleteFunc(slices.Clone(n.Params()), func(p *nn.Param) bool { return p.Group != nn.BertGroup })
}

// bertFile is an open file of weights.
type bertFile struct {
	path   string
	shapes map[string][]int // by the names of package nn
	read   func(name string) ([]float32, error)
	close  func() error
}

// LoadBert reads the parameters of a model's BERT encoder from a folder and ignores tensors of pre-training heads. It
// returns an error if a parameter is missing or has another shape, or if config.json contradicts the options of the
// model.
func LoadBert(m *Model, dir string) error {
	c, err := readBertConfig(dir, m.Options.Bert.Heads)
	if err == nil {
		err = c.check(m.Options.Bert.Heads)
	}
	if err != nil {
		return err
	}
	return loadBert(dir, bertParams(m.Network), m.Dims.Vocab, m.upload)
}

func loadBert(dir string, params []*nn.Param, vocab int, set func(p *nn.Param, values []float32)) error {
	if len(params) == 0 {
		return fmt.Errorf("%s: the network has no BERT encoder", dir)
	}
	f, err := openBert(dir)
	if err != nil {
		return err
	}
	defer f.close()
	if s := f.shapes[bertWords]; len(s) == 2 && s[0] != vocab {
		return fmt.Errorf("%s has vectors for %d word pieces, vocab.txt has %d: vocabulary and weights belong to "+
			"different models", f.path, s[0], vocab)
	}
	for _, p := range params { // all are checked before the first is set
		name := bertName(p.Name)
		s, ok := f.shapes[name]
		if !ok {
			return fmt.Errorf("%s: tensor %s is missing%s", f.path, name, missingLayers(name))
		}
		if !slices.Equal(s, p.Shape) {
			return fmt.Errorf("%s: tensor %s has shape %v, the network wants %v; set model.bert.hidden, intermediate "+
				"and positions to the sizes of the encoder", f.path, name, s, p.Shape)
		}
	}
	if next := fmt.Sprintf("encoder.layer.%d.output.dense.weight", bertLayers(params)); f.shapes[next] != nil {
		return fmt.Errorf("%s has a tensor %s, more layers than the %d of the network; set model.bert.layers", f.path,
			next, bertLayers(params))
	}
	for _, p := range params {
		values, err := f.read(bertName(p.Name))
		if err != nil {
			return fmt.Errorf("%s: tensor %s: %w", f.path, bertName(p.Name), err)
		}
		set(p, values)
	}
	return nil
}

// maxBertConfig is the largest size of config.json in bytes.
const maxBertConfig = 1 << 20

// bertConfig is the part of config.json that does not follow from the tensors.
type bertConfig struct {
	Heads int     `json:"num_attention_heads"`
	Act   string  `json:"hidden_act"`
	Eps   float64 `json:"layer_norm_eps"`
	path  string
}

// readBertConfig reads config.json of a folder, which may be missing. heads is the number of heads if the file has
// none.
func readBertConfig(dir string, heads int) (bertConfig, error) {
	c := bertConfig{Heads: heads, Act: "gelu", Eps: nn.BertEps, path: filepath.Join(dir, "config.json")}
	b, err := regular.ReadFile(c.path, maxBertConfig, "the configuration of a BERT")
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err == nil {
		err = jsontext.Unmarshal(b, &c)
	}
	if err != nil {
		return c, fmt.Errorf("BERT: %s: %w", c.path, err)
	}
	return c, nil
}

// check returns an error if the encoder is another one than a network with that many heads computes.
func (c *bertConfig) check(heads int) error {
	if c.Heads != heads {
		return fmt.Errorf("%s: %d attention heads, the network has %d; set model.bert.heads", c.path, c.Heads, heads)
	}
	if c.Act != "gelu" || c.Eps != nn.BertEps {
		return fmt.Errorf("%s: activation %q and layer norm ε %v, expected \"gelu\" and %v: this is another kind of "+
			"encoder", c.path, c.Act, c.Eps, nn.BertEps)
	}
	return nil
}

func missingLayers(name string) string {
	if strings.HasPrefix(name, "encoder.layer.") {
		return "; set model.bert.layers to the number of layers of the encoder"
	}
	return ""
}

func bertLayers(params []*nn.Param) (n int) {
	for _, p := range params {
		if strings.HasSuffix(p.Name, ".output.dense.weight") && !strings.Contains(p.Name, ".attention.") {
			n++
		}
	}
	return n
}

// bertName returns the name of a parameter inside its encoder, without the part of the network.
func bertName(param string) string {
	for _, top := range []string{"embeddings.", "encoder.", "pooler."} {
		if i := strings.Index(param, top); i == 0 || i > 0 && param[i-1] == '.' {
			return param[i:]
		}
	}
	return param
}

// tensorName returns the name in package nn of a tensor in a file.
func tensorName(name string) string {
	name = strings.TrimPrefix(unwrapped(name), "bert.")
	return strings.NewReplacer("LayerNorm.gamma", "LayerNorm.weight", "LayerNorm.beta", "LayerNorm.bias").Replace(name)
}

func openBert(dir string) (*bertFile, error) {
	for _, c := range []struct {
		name string
		open func(path string) (*bertFile, error)
	}{{HubName, openBertSafetensors}, {"pytorch_model.bin", openBertTorch}} {
		path := filepath.Join(dir, c.name)
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		return c.open(path)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("BERT: %s: %w; name the folder of the encoder in model.bert.dir", dir, withoutPath(err))
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return nil, fmt.Errorf("BERT: %s has neither model.safetensors nor pytorch_model.bin; it has %s", dir,
		orNothing(names))
}

func orNothing(names []string) string {
	if len(names) == 0 {
		return "no files"
	}
	if len(names) > 8 {
		names = append(names[:8:8], "…")
	}
	return strings.Join(names, ", ")
}

func openBertSafetensors(path string) (*bertFile, error) {
	f, err := safetensors.Open(path)
	if err != nil {
		return nil, err
	}
	b := &bertFile{path: path, shapes: map[string][]int{}, close: f.Close}
	stored := map[string]string{}
	for _, name := range f.Names() {
		t, _ := f.Tensor(name)
		stored[tensorName(name)], b.shapes[tensorName(name)] = name, t.Shape
	}
	b.read = func(name string) ([]float32, error) {
		t, _ := f.Tensor(stored[name])
		out := make([]float32, t.Len())
		return out, f.Float32s(stored[name], out)
	}
	return b, nil
}

func openBertTorch(path string) (*bertFile, error) {
	v, err := torchfile.Load(path)
	if err != nil {
		return nil, err
	}
	d, ok := v.(*torchfile.Dict)
	if !ok {
		return nil, fmt.Errorf("%s: expected a dict of tensors, found a %s", path, pickle.TypeName(v))
	}
	b := &bertFile{path: path, shapes: map[string][]int{}, close: func() error { return nil }}
	tensors := map[string]*torchfile.Tensor{}
	for k, v := range d.All() {
		name, okName := pickle.Text(k)
		t, okTensor := v.(*torchfile.Tensor)
		if !okName || !okTensor {
			return nil, fmt.Errorf("%s: expected tensors by name, found a %s under %v", path, pickle.TypeName(v), k)
		}
		tensors[tensorName(name)], b.shapes[tensorName(name)] = t, t.Shape
	}
	b.read = func(name string) ([]float32, error) { return tensors[name].Float32s() }
	return b, nil
}
