package models

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"vsetrain/internal/compute/graph"
	"vsetrain/internal/system/options"
	"vsetrain/lab/golden"
	"vsetrain/lab/try"
)

// networkCase is what a reference computed of a whole network.
type networkCase struct {
	Name string
	// Settings are the options by their keys under model, such as "scan.attention".
	Settings map[string]json.RawMessage
	Vocab    int
	Lengths  []int32       // [N]
	Captions golden.Tensor // [N, L] word ids; what lies after a caption is not read
	Inputs   struct {
		Images golden.Tensor  // [N, R, D]
		Boxes  *golden.Tensor // [N, R, 4], of networks that read boxes
	}
	Params   map[string]golden.Tensor // by their stored names, "img.fc.weight"
	Weights  golden.Tensor            `json:"loss_weights"` // [N, N]; the loss is their sum with the scores
	Expected struct {
		ImageEmb, TextEmb *golden.Tensor           // [N, E], of embedders that tell them
		Scores            golden.Tensor            // [N, N]
		Loss              *float64                 // nil, as Grads, for a case of scores alone
		Grads             map[string]golden.Tensor // of all parameters
		GradImages        golden.Tensor            `json:"grad_images"` // may be missing
	}

	counts          []int32                  // regions of each image; nil if none is padding
	evaluation      bool                     // instead of training
	stats, newStats map[string]golden.Tensor // running statistics before and after the step
}

// partedInputs and partedResults are the form of cases of whole networks with an object of tensors for each part.
type partedInputs struct {
	Lengths      []int32
	Captions     golden.Tensor
	Inputs       *struct{ Images golden.Tensor }
	ParamsImage  map[string]golden.Tensor `json:"params_image"`
	ParamsText   map[string]golden.Tensor `json:"params_text"`
	ParamsSim    map[string]golden.Tensor `json:"params_sim"`
	RunningStats map[string]golden.Tensor `json:"running_stats"`
	LossWeights  golden.Tensor            `json:"loss_weights"`
}

type partedResults struct {
	ImageEmb     *golden.Tensor `json:"image_emb"`
	TextEmb      *golden.Tensor `json:"text_emb"`
	Scores       golden.Tensor
	Loss         *float64
	GradImages   golden.Tensor            `json:"grad_images"`
	GradsImage   map[string]golden.Tensor `json:"grads_image"`
	GradsText    map[string]golden.Tensor `json:"grads_text"`
	GradsSim     map[string]golden.Tensor `json:"grads_sim"`
	RunningStats map[string]golden.Tensor `json:"new_running_stats"`
}

// network returns a case in the form of networkCase. Running statistics belong to the part sim.
func (in *partedInputs) network(want *partedResults, vocab int) *networkCase {
	c := &networkCase{Vocab: vocab, Lengths: in.Lengths, Captions: in.Captions, Weights: in.LossWeights,
		Params: parts(in.ParamsImage, in.ParamsText, in.ParamsSim), stats: parts(nil, nil, in.RunningStats),
		newStats: parts(nil, nil, want.RunningStats)}
	c.Inputs.Images, c.Expected.ImageEmb, c.Expected.TextEmb = in.Inputs.Images, want.ImageEmb, want.TextEmb
	c.Expected.Scores = want.Scores
	if want.GradsImage != nil {
		c.Expected.Loss, c.Expected.GradImages = want.Loss, want.GradImages
		c.Expected.Grads = parts(want.GradsImage, want.GradsText, want.GradsSim)
	}
	return c
}

// parts returns the tensors of all parts under their stored names.
func parts(image, text, sim map[string]golden.Tensor) map[string]golden.Tensor {
	all := map[string]golden.Tensor{}
	for part, tensors := range map[string]map[string]golden.Tensor{"img.": image, "txt.": text, "sim.": sim} {
		for name, x := range tensors {
			all[part+name] = x
		}
	}
	return all
}

// present takes the first counts of r rows of every image.
func present(x []float64, counts []int32, r int) (out []float64) {
	width := len(x) / len(counts) / r
	for i, n := range counts {
		out = append(out, x[i*r*width:][:int(n)*width]...)
	}
	return out
}

// A network whose reference wrote testdata/golden/NAME.json with cases in the form of networkCase is compared with all
// of them: scores, loss, and the gradients of every parameter and of the features.
func TestGoldenNetworks(t *testing.T) {
	for _, name := range Available() {
		cases, err := networkCases(t, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // its cases have a form and a test of their own
		}
		try.Do(t, err)
		for _, c := range cases {
			for _, p := range everywhere {
				t.Run(name+" "+c.Name+" "+p.name, func(t *testing.T) { c.run(t, c.options(t, name), p) })
			}
		}
	}
}

// networkCases reads the cases of a network, fs.ErrNotExist where none has this form.
func networkCases(t *testing.T, network string) ([]*networkCase, error) {
	file := network + ".json"
	if _, err := os.Stat(filepath.Join(golden.Dir(t), file)); err != nil {
		return nil, err
	}
	var raw struct{ Cases []json.RawMessage }
	golden.Load(t, file, &raw)
	var cases []*networkCase
	for _, b := range raw.Cases {
		var form struct{ Settings json.RawMessage }
		if err := json.Unmarshal(b, &form); err != nil {
			return nil, err
		}
		if form.Settings == nil {
			continue
		}
		c := new(networkCase)
		if err := json.Unmarshal(b, c); err != nil {
			return nil, err
		}
		if c.Expected.Loss == nil {
			t.Errorf("%s: case %s has no loss and gradients", file, c.Name)
		}
		cases = append(cases, c)
	}
	if len(cases) == 0 {
		return nil, fs.ErrNotExist
	}
	return cases, nil
}

// options are the default ones but for the settings of the case.
func (c *networkCase) options(t *testing.T, network string) Options {
	o := DefaultOptions()
	o.Network = network
	o.TextEncoder = o.Traits().TextEncoders[0]
	for key, value := range c.Settings {
		v := reflect.ValueOf(&o).Elem()
		for part := range strings.SplitSeq(key, ".") {
			i := -1
			if v.Kind() == reflect.Struct {
				i = slices.IndexFunc(options.Fields(v.Type()), func(f reflect.StructField) bool {
					name, _ := options.Key(f)
					return name == part
				})
			}
			if i < 0 {
				t.Fatalf("case %s: no option model.%s", c.Name, key)
			}
			v = v.Field(i)
		}
		if err := json.Unmarshal(value, v.Addr().Interface()); err != nil {
			t.Fatalf("case %s: model.%s: %v", c.Name, key, err)
		}
	}
	try.Do(t, o.Validate())
	return o
}

func (c *networkCase) run(t *testing.T, o Options, p precision) {
	images, n, l := c.Inputs.Images, len(c.Lengths), c.Captions.Shape[1]
	order := golden.ByLength(c.Lengths)
	words, lengths := golden.Rows(ints(c.Captions.Data), l, order), golden.Rows(c.Lengths, 1, order)
	m, err := NewModel(newDevice(t, p.name), o, Dims{Regions: images.Shape[1], Feature: images.Shape[2],
		Vocab: c.Vocab})
	try.Do(t, err)
	setParams(t, m, "", c.Params)
	try.Do(t, m.Instance.Params.AllocGrads())
	g := m.Instance.Graph()
	g.Training = !c.evaluation
	feeder := NewFeeder(m, nil, false)
	in := m.ImageInputs(g, n)
	var scores *graph.Node
	var embeddings []*graph.Node
	if net, ok := m.PairScorer(); ok {
		im := net.Images(g, in)
		txt := net.Words(g, m.CaptionInputs(g, n, Bucket(l), feeder.PairCapacity(lengths, l)))
		embeddings, scores = []*graph.Node{im.Values[0], txt.Words[0]}, net.Pairs(g, im, txt)
	} else {
		e := m.Embedder()
		embeddings = []*graph.Node{e.Images(g, in.Regions), e.Captions(g, m.CaptionInputs(g, n, Bucket(l), 0))}
		scores = e.Scores(g, embeddings[0], embeddings[1])
	}
	loss := g.WeightedSum(scores, g.Input("weights", n, n))
	want, unused := &c.Expected, maps.Clone(c.Expected.Grads)
	var gradients []compared
	features := images.Data
	if c.counts != nil { // concatenated
		features = present(features, c.counts, images.Shape[1])
		features = append(features, make([]float64, len(images.Data)-len(features))...)
		try.Do(t, feeder.regionCounts(c.counts, 0))
	}
	if grad := want.GradImages.Data; grad != nil {
		if c.counts != nil {
			grad = present(grad, c.counts, images.Shape[1])
		}
		gradients = append(gradients, compared{"features", in.Regions, grad, c.counts != nil})
	}
	for _, p := range m.Network.Params() {
		if g.Lookup(p.Name) == nil || p.State {
			continue
		}
		if _, ok := c.Params[p.Name]; !ok {
			t.Fatalf("the case has no parameter %s", p.Name)
		}
		gradients = append(gradients, compared{p.Name, p.Node(g), want.Grads[p.Name].Data, false})
		delete(unused, p.Name)
	}
	results := []compared{{"scores", scores, golden.Columns(want.Scores.Data, n, order), false}}
	if want.ImageEmb != nil && want.TextEmb != nil {
		text := golden.Rows(want.TextEmb.Data, len(want.TextEmb.Data)/n, order)
		if len(want.TextEmb.Shape) == 3 { // words, which are concatenated
			text = present(text, lengths, want.TextEmb.Shape[1])
		}
		results = append(results, compared{"image embeddings", embeddings[0], want.ImageEmb.Data, false},
			compared{"caption embeddings", embeddings[1], text, true})
	}
	if want.Loss == nil {
		gradients = nil
	} else {
		results = append(results, compared{"loss", loss, []float64{*want.Loss}, false})
	}
	try.Do(t, m.Instance.FeedDoubles(InputRegions, features))
	if c.Inputs.Boxes != nil {
		try.Do(t, m.Instance.FeedDoubles(InputBoxes, c.Inputs.Boxes.Data))
	}
	try.Do(t, m.Instance.FeedDoubles("weights", golden.Columns(c.Weights.Data, n, order)))
	try.Do(t, feeder.Captions(captionBatch(words, lengths, l)))
	p.check(t, m.Instance, g, loss, results, gradients, func() { setParams(t, m, "", c.stats) })
	for name, v := range c.newStats {
		golden.Close(t, name, m.doubles(name), v.Data, p.out)
	}
	for name, v := range unused { // parameters that the network does not use
		golden.Close(t, name+" gradient", make([]float64, len(v.Data)), v.Data, golden.Tolerance{})
	}
}

// A case of SCAN in the form of networkCase, written to a file and read again, is the case it was.
func TestFormOfGoldenNetworks(t *testing.T) {
	cases := scanCases(t)
	whole := slices.IndexFunc(cases, func(c *scanCase) bool { return c.Expected.GradsImage != nil })
	c, o := cases[whole].network(), cases[whole].options(t)
	c.Settings = map[string]json.RawMessage{}
	set := func(key string, value any) { c.Settings[key] = try.Get(json.Marshal(value))(t) }
	set("text_encoder", o.TextEncoder)
	set("embed_dim", o.EmbedDim)
	set("word_dim", o.WordDim)
	own := reflect.ValueOf(o.SCAN)
	for _, f := range options.Fields(own.Type()) {
		name, _ := options.Key(f)
		set("scan."+name, own.FieldByIndex(f.Index).Interface())
	}
	b := try.Get(json.Marshal(map[string]any{"cases": []any{c}}))(t)
	dir := t.TempDir()
	t.Setenv("VSETRAIN_GOLDEN", dir)
	try.Do(t, os.WriteFile(filepath.Join(dir, SCAN+".json"), b, 0o666))
	read := try.Get(networkCases(t, SCAN))(t)
	if len(read) != 1 {
		t.Fatalf("%d cases", len(read))
	}
	if got := read[0].options(t, SCAN); got != o {
		t.Errorf("options %+v", got)
	}
	read[0].run(t, o, precisions[0])
	if _, err := networkCases(t, CHAN); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a network without cases: %v", err)
	}
}

// valuesOf is what the values of an option of a repository are called here, by what they are called there.
func valuesOf(network, option string) map[string]string {
	ours, o := map[string]string{}, DefaultOptions()
	o.Network = network
	for _, ref := range o.referenced() {
		for _, p := range ref.values {
			if ref.name == option {
				ours[p[0]] = p[1]
			}
		}
	}
	return ours
}
