package nn_test

import (
	"testing"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cpu"
	"vsetrain/internal/compute/graph"
	"vsetrain/lab/definitions"
	"vsetrain/lab/golden"
	"vsetrain/lab/reference"
	"vsetrain/lab/try"
)

type gruCase struct {
	Name        string
	Config      map[string]any `json:"config"`
	Lengths     []int32
	Inputs      struct{ X golden.Tensor }
	Params      map[string]golden.Tensor
	LossWeights golden.Tensor `json:"loss_weights"`
	Expected    struct {
		Output        golden.Tensor
		Loss          float64
		Grads         map[string]golden.Tensor
		FinalHidden   golden.Tensor `json:"final_hidden"`
		FinalForward  golden.Tensor `json:"final_forward"`
		FinalBackward golden.Tensor `json:"final_backward"`
	}
}

// layout moves values between the padded layout of the golden cases, batch first in the order of the file, and the
// packed layout of the graph: captions sorted by length, time-major.
type layout struct {
	order []int // caption of the file at each position of the batch
	lens  []int32
	pack  device.Packing
	steps int // padded length
}

func newLayout(lengths []int32, steps int) *layout {
	l := &layout{steps: steps, order: golden.ByLength(lengths)}
	l.lens = golden.Rows(lengths, 1, l.order)
	l.pack.Pack(l.lens)
	return l
}

// each calls f with the packed row and the padded row of every word.
func (l *layout) each(f func(packed, padded int)) {
	for t := range l.pack.Steps() {
		for b := range l.pack.Active(t) {
			f(l.pack.Start(t)+b, l.order[b]*l.steps+t)
		}
	}
}

// packed copies columns [from, from+d) of padded rows of width w.
func (l *layout) packed(x []float64, w, from, d int) []float64 {
	out := make([]float64, len(l.order)*l.steps*d)
	l.each(func(p, q int) { copy(out[p*d:(p+1)*d], x[q*w+from:q*w+from+d]) })
	return out
}

// padded is the inverse of packed; rows without a word are zero.
func (l *layout) padded(x []float64, d int) []float64 {
	out := make([]float64, len(l.order)*l.steps*d)
	l.each(func(p, q int) { copy(out[q*d:(q+1)*d], x[p*d:(p+1)*d]) })
	return out
}

// The GRU layer, one direction and both, through the graph: states, final states and every gradient.
func TestGoldenGRU(t *testing.T) {
	var file struct{ Cases []gruCase }
	golden.Load(t, "gru.json", &file)
	for _, c := range file.Cases {
		for _, p := range []struct {
			name      string
			out, grad golden.Tolerance
		}{{cpu.FP64, golden.FP64, golden.FP64}, {cpu.FP32, golden.FP32, golden.FP32Grad},
			{"definition", golden.FP64, golden.FP64}} {
			t.Run(c.Name+"/"+p.name, func(t *testing.T) {
				var dev device.Device = definitions.Over(reference.New())
				if p.name != "definition" {
					dev = try.Get(cpu.New(cpu.Options{Threads: 2, Precision: p.name}))(t)
				}
				defer dev.Close()
				directions := []string{""}
				if c.Config["bidirectional"] == true {
					directions = append(directions, "_reverse")
				}
				sumX := make([]float64, len(c.Inputs.X.Data))
				loss := 0.0
				for i, suffix := range directions {
					loss += c.direction(t, dev, suffix, i, len(directions), sumX, p.out, p.grad)
				}
				golden.Close(t, "loss", []float64{loss}, []float64{c.Expected.Loss}, p.out)
				golden.Close(t, "x gradient", sumX, c.Expected.Grads["x"].Data, p.grad)
			})
		}
	}
}

// direction checks one direction, adds its part of the gradient of x and returns its part of the loss.
func (c *gruCase) direction(t *testing.T, dev device.Device, suffix string, i, n int, sumX []float64, out,
	grad golden.Tolerance) float64 {
	b, steps, in := c.Inputs.X.Shape[0], c.Inputs.X.Shape[1], c.Inputs.X.Shape[2]
	h := c.Params["weight_hh_l0"].Shape[1]
	l := newLayout(c.Lengths, steps)
	s := try.Get(graph.NewInstance(dev, nil))(t)
	g := s.Graph()
	names := []string{"weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"}
	x := g.Input("x", b*steps, in)
	try.Do(t, s.FeedDoubles("x", l.packed(c.Inputs.X.Data, in, 0, in)))
	wrt := []*graph.Node{x}
	for _, name := range names {
		v := c.Params[name+suffix]
		wrt = append(wrt, g.Input(name, v.Shape...))
		try.Do(t, s.FeedDoubles(name, v.Data))
	}
	w := graph.GRUWeights{WIH: wrt[1], WHH: wrt[2], BIH: wrt[3], BHH: wrt[4]}
	lengths := g.InputInts("lengths", b)
	try.Do(t, s.FeedInts("lengths", l.lens))
	states := g.GRU(x, lengths, w, suffix != "", false)
	final := g.GRU(x, lengths, w, suffix != "", true)
	weights := g.Input("weights", b*steps, h)
	try.Do(t, s.FeedDoubles("weights", l.packed(c.LossWeights.Data, n*h, i*h, h)))
	cost := g.WeightedSum(states, weights)
	grads := try.Get(g.Gradients(cost, wrt...))(t)
	prog := try.Get(graph.Compile(s, g, append([]*graph.Node{states, final, cost}, grads...), nil))(t)
	try.Do(t, prog.RunAll())

	want := make([]float64, b*steps*h)
	for r := range b * steps {
		copy(want[r*h:(r+1)*h], c.Expected.Output.Data[r*n*h+i*h:])
	}
	golden.Close(t, "states"+suffix, l.padded(prog.Doubles(states), h), want, out)
	finals := c.Expected.FinalHidden
	if n > 1 {
		finals = []golden.Tensor{c.Expected.FinalForward, c.Expected.FinalBackward}[i]
	}
	got := make([]float64, b*h)
	for position, caption := range l.order {
		copy(got[caption*h:(caption+1)*h], prog.Doubles(final)[position*h:])
	}
	golden.Close(t, "final states"+suffix, got, finals.Data, out)
	for k, name := range names {
		golden.Close(t, name+suffix+" gradient", prog.Doubles(grads[k+1]), c.Expected.Grads[name+suffix].Data, grad)
	}
	for j, v := range l.padded(prog.Doubles(grads[0]), in) {
		sumX[j] += v
	}
	return prog.Doubles(cost)[0]
}
