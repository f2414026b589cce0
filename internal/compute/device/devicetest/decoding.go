package devicetest

import (
	"fmt"
	"math"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/philox"
)

// decodingCase is the definition of Decoder on the host, with as many units as features and values of attention.
// moved is added to what the steps make, so that its gradients can be found: to queries [T, H], and to the inputs of n,
// r, z and W_hn h + b_hn [T, 4H].
type decodingCase struct {
	h, r                                                 int
	lengths, words                                       []int32
	rate                                                 float64
	drop                                                 philox.Key
	keys, regions, initial, score, attend, wih, whh, bhh []float64
	inputs                                               []float64 // of r, z, n and nothing, [T, 4H]
	movedQuery, movedGates                               []float64
	query, weights, context, gates, prev, states         []float64
}

const decodingStep = 5 // of the dropout

// factor is what dropout multiplies value k of the context of sequence b in step t by; row is its place.
func (c *decodingCase) factor(t, b, row, k int) float64 {
	if c.rate == 0 {
		return 1
	}
	if c.words != nil { // the place in the packing of the words
		if t >= int(c.words[b]) {
			return 0
		}
		row = b
		for _, n := range c.words {
			row += min(t, int(n))
		}
	}
	i := uint64(row*c.h + k)
	if c.drop.Block(decodingStep, i/4)[i%4] < uint32(c.rate*(1<<32)) {
		return 0
	}
	return 1 / (1 - c.rate)
}

func (c *decodingCase) forward() {
	h, r := c.h, c.r
	rows := packed(c.lengths)
	t := len(rows)
	c.query, c.weights, c.context = make([]float64, t*h), make([]float64, t*r), make([]float64, t*h)
	c.gates, c.prev, c.states = make([]float64, t*4*h), make([]float64, t*h), make([]float64, t*h)
	state := append([]float64(nil), c.initial...)
	product := func(w, x []float64) (s float64) {
		for i, v := range x {
			s += w[i] * v
		}
		return s
	}
	sigmoid := func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	for p, row := range rows {
		b, before := row[0], state[row[0]*h:][:h]
		query, weights, context := c.query[p*h:][:h], c.weights[p*r:][:r], c.context[p*h:][:h]
		copy(c.prev[p*h:], before)
		for k := range query {
			query[k] = product(c.attend[k*2*h:], before) + c.movedQuery[p*h+k]
		}
		var total float64
		for i := range weights {
			var s float64
			for k, u := range c.score {
				s += u * math.Tanh(c.keys[(b*r+i)*h+k]+query[k])
			}
			weights[i] = math.Exp(s)
			total += weights[i]
		}
		for i := range weights {
			weights[i] /= total
			for k := range context {
				context[k] += weights[i] * c.regions[(b*r+i)*h+k] * c.factor(row[1], b, p, k)
			}
		}
		gates, in, moved := c.gates[p*4*h:][:4*h], c.inputs[p*4*h:], c.movedGates[p*4*h:]
		for k := range h {
			seen := func(g int) float64 { return in[g*h+k] + product(c.wih[(g*h+k)*(h+1):], context) }
			hidden := func(g int) float64 { return product(c.whh[(g*h+k)*h:], before) + c.bhh[g*h+k] }
			reset := sigmoid(seen(0) + hidden(0) + moved[h+k])
			update := sigmoid(seen(1) + hidden(1) + moved[2*h+k])
			own := hidden(2) + moved[3*h+k]
			candidate := math.Tanh(seen(2) + reset*own + moved[k])
			gates[k], gates[h+k], gates[2*h+k], gates[3*h+k] = reset, update, candidate, own
			c.states[p*h+k] = (1-update)*candidate + update*before[k]
		}
		copy(before, c.states[p*h:][:h])
	}
}

// testDecoder compares all steps of a decoder with attention at once.
func testDecoder(h *harness) {
	for _, c := range []*decodingCase{
		{h: 32, r: 3, lengths: []int32{3, 2, 1}},
		{h: 64, r: 36, lengths: []int32{3, 3, 3, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, rate: 0.25},
		{h: 64, r: 5, lengths: []int32{3, 3, 3}, words: []int32{3, 2, 1}, rate: 0.5},
	} {
		h.decoding(c)
	}
}

// decoding tests a case.
func (h *harness) decoding(c *decodingCase) {
	n, r, b, small := c.h, c.r, len(c.lengths), 1/math.Sqrt(float64(c.h))
	rows := 0
	for _, l := range c.lengths {
		rows += int(l)
	}
	c.keys, c.regions, c.initial = h.normal(b*r*n, 1), h.normal(b*r*n, 1), h.normal(b*n, 1)
	c.score, c.attend = h.normal(n, 3*small), h.normal(n*2*n, small)
	c.whh, c.wih, c.bhh = h.normal(3*n*n, small), h.normal(3*n*(n+1), small), h.normal(3*n, small)
	c.inputs, c.movedQuery, c.movedGates = h.normal(rows*4*n, 1), make([]float64, rows*n), make([]float64, rows*4*n)
	c.drop = philox.NewKey(3, "context")
	c.forward()
	a := device.Decoder{R: r, H: n, A: n, E: n, Lengths: h.inInts(c.lengths), Keys: h.in(c.keys),
		Regions: h.in(c.regions), Initial: h.in(c.initial), Score: h.in(c.score), Attend: h.in(c.attend),
		LDAttend: 2 * n, WHH: h.in(c.whh), WIH: h.in(c.wih), LDWIH: n + 1, BHH: h.in(c.bhh), Gates: h.inout(c.inputs),
		Prev: h.out(rows * n), Context: h.out(rows * n), Weights: h.out(rows * r), Query: h.out(rows * n),
		States: h.out(rows * n)}
	if c.rate > 0 {
		a.Drop = device.Drops{Rate: c.rate, Key: c.drop, Step: h.inInts([]int32{decodingStep, 0})}
	}
	if c.words != nil {
		a.WordLengths = h.inInts(c.words)
	}
	what := fmt.Sprintf("decoder of %d units, %d regions, %v", n, r, c.lengths)
	h.run(what, func() { device.Do(h.d, a) })
	for _, v := range []struct {
		name string
		view device.View
		want []float64
	}{{"Prev", a.Prev, c.prev}, {"Query", a.Query, c.query}, {"Weights", a.Weights, c.weights},
		{"Context", a.Context, c.context}, {"Gates", a.Gates, c.gates}, {"States", a.States, c.states}} {
		h.equal(what+": "+v.name, v.view, v.want, h.tol.reduced)
	}
	h.release()

	dStates := h.normal(rows*n, 1)
	a = device.Decoder{R: r, H: n, A: n, E: n, Lengths: h.inInts(c.lengths), Keys: h.in(c.keys),
		Regions: h.in(c.regions), Score: h.in(c.score), Attend: h.in(c.attend), LDAttend: 2 * n, WHH: h.in(c.whh),
		WIH: h.in(c.wih), LDWIH: n + 1, Gates: h.inout(c.gates), Prev: h.in(c.prev), Weights: h.in(c.weights),
		Query: h.in(c.query), DStates: h.in(dStates), DInitial: h.out(b * n), DQuery: h.out(rows * n),
		DKeys: h.out(b * r * n), DRegions: h.out(b * r * n), DVector: h.out(b * n), Drop: a.Drop}
	if c.rate > 0 {
		a.Drop.Step = h.inInts([]int32{decodingStep, 0})
	}
	if c.words != nil {
		a.WordLengths = h.inInts(c.words)
	}
	h.run(what+" gradient", func() { device.DoGrad(h.d, a) })
	total := make([]float64, n)
	for i, v := range h.read(a.DVector) {
		total[i%n] += v
	}
	for _, v := range []struct {
		name  string
		value []float64
		grad  device.View
	}{{"Gates", c.movedGates, a.Gates}, {"DQuery", c.movedQuery, a.DQuery}, {"DInitial", c.initial, a.DInitial},
		{"DKeys", c.keys, a.DKeys}, {"DRegions", c.regions, a.DRegions}, {"DVector", c.score, h.in(total)}} {
		h.equalDifferences(what+": "+v.name, v.value, v.grad, usual, func() (s float64) {
			c.forward()
			for i, v := range c.states {
				s += v * dStates[i]
			}
			return s
		})
	}
	h.release()
}
