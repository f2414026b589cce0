package nn_test

import (
	"slices"
	"testing"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cpu"
	"vsetrain/internal/compute/device/cuda"
	"vsetrain/internal/compute/graph"
	"vsetrain/lab/emulator"
	"vsetrain/lab/golden"
	"vsetrain/lab/try"
	"vsetrain/models/nn"
)

type bertCase struct {
	Config struct {
		Vocab, Hidden, Heads, Intermediate, Layers int
		Positions                                  int `json:"max_position"`
	}
	IDs        golden.Tensor `json:"input_ids"`
	Params     map[string]golden.Tensor
	Weights    golden.Tensor `json:"loss_weights"`
	PooledLoss golden.Tensor `json:"loss_weights_pooled"`
	Expected   struct {
		Hidden golden.Tensor `json:"last_hidden"`
		Pooled golden.Tensor `json:"pooler_output"`
		Loss   float64
		Grads  map[string]golden.Tensor
	}
}

// BERT through the graph: hidden states, pooler and every gradient, of a batch with padding.
func TestGoldenBert(t *testing.T) {
	c := new(bertCase)
	golden.Load(t, "bert.json", c)
	for _, p := range []struct {
		name      string
		out, grad golden.Tolerance
	}{{cpu.FP64, golden.FP64, golden.FP64}, {cpu.FP32, golden.FP32, golden.FP32Grad}} {
		t.Run(p.name, func(t *testing.T) {
			dev := try.Get(cpu.New(cpu.Options{Threads: 2, Precision: p.name}))(t)
			goldenBert(t, c, dev, p.out, p.grad)
		})
	}
	t.Run("cuda", func(t *testing.T) {
		lib := emulator.Library(t)
		dev := try.Get(cuda.Open(cuda.Options{Driver: lib, BLAS: []string{lib}}))(t)
		goldenBert(t, c, dev, golden.FP32, golden.FP32Grad)
	})
}

func goldenBert(t *testing.T, c *bertCase, dev device.Device, out, grad golden.Tolerance) {
	defer dev.Close()
	n, l, d := c.IDs.Shape[0], c.IDs.Shape[1], c.Config.Hidden
	words, lengths := make([]int32, n*l), make([]int32, n)
	var valid []int // rows of the padded tensors in the order of the concatenated ones
	weights := slices.Clone(c.Weights.Data)
	for i, id := range c.IDs.Data {
		words[i] = int32(id)
		if id != 0 {
			lengths[i/l] = int32(i%l) + 1
		} else {
			clear(weights[i*d : (i+1)*d])
		}
	}
	for b, length := range lengths {
		for i := range int(length) {
			valid = append(valid, b*l+i)
		}
	}
	var net struct {
		Bert nn.Bert `param:""`
	}
	net.Bert = nn.NewBert(nn.BertSizes{Vocab: c.Config.Vocab, Layers: c.Config.Layers, Hidden: d, Heads: c.Config.Heads,
		Intermediate: c.Config.Intermediate, Positions: c.Config.Positions, Dropout: 0.1})
	var specs []graph.ParamSpec
	for _, p := range nn.Collect(&net) {
		specs = append(specs, graph.ParamSpec{Name: p.Name, Shape: p.Shape, Group: p.Group})
	}
	s := try.Get(graph.NewInstance(dev, specs))(t)
	g := s.Graph() // in evaluation: the case has no dropout
	var names []string
	var wrt []*graph.Node
	for _, spec := range specs {
		v, ok := c.Params[spec.Name]
		if !ok {
			t.Fatalf("the case has no parameter %s", spec.Name)
		}
		dev.UploadDoubles(s.Params.Value(spec.Name), v.Data)
		names, wrt = append(names, spec.Name), append(wrt, g.Param(spec.Name, spec.Shape...))
	}
	try.Do(t, s.FeedInts("words", words))
	try.Do(t, s.FeedInts("lengths", lengths))
	rows := append(golden.Rows(weights, d, valid), make([]float64, (n*l-len(valid))*d)...)
	try.Do(t, s.FeedDoubles("w", rows))
	try.Do(t, s.FeedDoubles("wp", c.PooledLoss.Data))
	length := g.InputInts("lengths", n)
	hidden := net.Bert.Forward(g, g.InputInts("words", n, l), length)
	pooled := net.Bert.Pooled(g, hidden, length)
	cost := g.Add(g.WeightedSum(hidden, g.Input("w", n*l, d)), g.WeightedSum(pooled, g.Input("wp", n, d)))
	grads := try.Get(g.Gradients(cost, wrt...))(t)
	prog := try.Get(graph.Compile(s, g, append([]*graph.Node{hidden, pooled, cost}, grads...), nil))(t)
	for range 2 {
		try.Do(t, prog.RunAll())
	}
	golden.Close(t, "hidden states", prog.Doubles(hidden)[:len(valid)*d], golden.Rows(c.Expected.Hidden.Data, d, valid),
		out)
	golden.Close(t, "pooled", prog.Doubles(pooled), c.Expected.Pooled.Data, out)
	golden.Close(t, "loss", prog.Doubles(cost), []float64{c.Expected.Loss}, out)
	if len(c.Expected.Grads) != len(names) {
		t.Errorf("the case has gradients of %d parameters, the network %d", len(c.Expected.Grads), len(names))
	}
	for i, name := range names {
		golden.Close(t, name+" gradient", prog.Doubles(grads[i]), c.Expected.Grads[name].Data, grad)
	}
}

// The weights of queries, keys and values lie side by side in memory, and so do their biases, so that they are one
// product; the names are the names in checkpoints.
func TestBertQueriesKeysAndValuesLieSideBySide(t *testing.T) {
	dev := try.Get(cpu.New(cpu.Options{Threads: 1}))(t)
	defer dev.Close()
	net := nn.NewBert(nn.BertSizes{Vocab: 3, Layers: 2, Hidden: 32, Heads: 2, Intermediate: 5, Positions: 4})
	var specs []graph.ParamSpec
	for _, p := range nn.Collect(&net) {
		specs = append(specs, graph.ParamSpec{Name: p.Name, Shape: p.Shape})
	}
	s := try.Get(graph.NewInstance(dev, specs))(t)
	for _, kind := range []string{"weight", "bias"} {
		end := -1
		for _, part := range []string{"query", "key", "value"} {
			lo, hi := s.Params.Range("encoder.layer.1.attention.self." + part + "." + kind)
			if end >= 0 && lo != end {
				t.Errorf("the %s of %s begins at %d, expected %d", kind, part, lo, end)
			}
			end = hi
		}
	}
}
