package devicetest

import (
	"sort"

	"vsetrain/internal/compute/device"
)

// goldenGRU runs one layer of gru.json, one or both directions.
func goldenGRU(g *goldenCase) {
	var c struct {
		Config struct {
			Input         int `json:"input_size"`
			Hidden        int `json:"hidden_size"`
			Bidirectional bool
		}
		Lengths  []int32
		Inputs   struct{ X matrix }
		Params   map[string]matrix
		Weights  matrix `json:"loss_weights"`
		Expected struct {
			Output   matrix
			Loss     float64
			Grads    map[string]matrix
			Final    matrix `json:"final_hidden"`
			Forward  matrix `json:"final_forward"`
			Backward matrix `json:"final_backward"`
			Mean     matrix `json:"mean_of_directions"`
		}
	}
	g.decode(&c)
	in, n := c.Config.Input, c.Config.Hidden
	directions := []string{""}
	if c.Config.Bidirectional {
		directions = append(directions, "_reverse")
	}
	wide := n * len(directions)
	p := newPermutation(c.Lengths)
	x := g.in(p.pack(c.Inputs.X.Data, in, 0, in))
	lengths := g.inInts(p.lengths)
	dx := g.inout(make([]float64, len(p.rows)*in))
	sum := g.inout(make([]float64, len(p.rows)*n))
	loss := 0.0
	for k, suffix := range directions {
		param := func(name string) device.View { return g.in(c.Params[name+suffix].Data) }
		a := device.GRU{I: in, H: n, Lengths: lengths, Reverse: k == 1, X: x,
			GRUDirection: device.GRUDirection{WIH: param("weight_ih_l0"), WHH: param("weight_hh_l0"),
				BIH: param("bias_ih_l0"), BHH: param("bias_hh_l0")},
			Final: g.out(len(c.Lengths) * n)}
		g.outputs(&a)
		g.run("GRU", func() { device.Do(g.d, a) })
		g.output("output"+suffix, a.Y, p.pack(c.Expected.Output.Data, wide, k*n, n))
		final := c.Expected.Final
		if c.Config.Bidirectional {
			final = c.Expected.Forward
			if k == 1 {
				final = c.Expected.Backward
			}
		}
		g.output("final"+suffix, a.Final, p.sorted(final.Data, n))
		device.Do(g.d, device.Add{Dst: sum, A: sum, B: a.Y})

		weights := p.pack(c.Weights.Data, wide, k*n, n)
		for i, y := range g.read(a.Y) {
			loss += y * weights[i]
		}
		a.DY, a.DX = g.in(weights), g.out(len(p.rows)*in)
		a.Gates = g.inout(g.read(a.Gates))
		g.gradOutputs(&a)
		g.run("GRUGrad", func() { device.DoGrad(g.d, a) })
		for name, v := range map[string]device.View{"weight_ih_l0": a.DWIH, "weight_hh_l0": a.DWHH,
			"bias_ih_l0": a.DBIH, "bias_hh_l0": a.DBHH} {
			g.gradient("gradient of "+name+suffix, v, c.Expected.Grads[name+suffix].Data)
		}
		device.Do(g.d, device.Add{Dst: dx, A: dx, B: a.DX})
	}
	g.gradient("gradient of x", dx, p.pack(c.Expected.Grads["x"].Data, in, 0, in))
	g.output("loss", g.in([]float64{loss}), []float64{c.Expected.Loss})
	if c.Config.Bidirectional {
		device.Do(g.d, device.Scale{Dst: sum, X: sum, Factor: g.in([]float64{0.5})})
		g.output("mean of the directions", sum, p.pack(c.Expected.Mean.Data, n, 0, n))
	}
}

// permutation sorts captions by descending length.
type permutation struct {
	order   []int
	lengths []int32
	rows    [][2]int // (sorted caption, step) of the packed rows
	steps   int
}

func newPermutation(lengths []int32) *permutation {
	p := &permutation{order: make([]int, len(lengths))}
	for i := range p.order {
		p.order[i] = i
	}
	sort.SliceStable(p.order, func(a, b int) bool { return lengths[p.order[a]] > lengths[p.order[b]] })
	for _, o := range p.order {
		p.lengths = append(p.lengths, lengths[o])
	}
	p.rows, p.steps = packed(p.lengths), int(p.lengths[0])
	return p
}

// pack reads columns [lo, lo+n) of a padded [B, L, width] tensor in packed order. L may exceed the longest length.
func (p *permutation) pack(x []float64, width, lo, n int) (out []float64) {
	longest := len(x) / len(p.order) / width
	for _, r := range p.rows {
		at := (p.order[r[0]]*longest+r[1])*width + lo
		out = append(out, x[at:at+n]...)
	}
	return out
}

// sorted reads the rows of [B, n] in sorted order.
func (p *permutation) sorted(x []float64, n int) (out []float64) {
	for _, o := range p.order {
		out = append(out, x[o*n:(o+1)*n]...)
	}
	return out
}
