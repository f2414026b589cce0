package loss

// FNE, false negatives eliminated by Bayes' rule (Li et al.: "Your negative may not be true negative:
// boosting image-text matching with false negative elimination", ACM MM 2023; code LuminosityX/FNE, loss.py:
// HardTripletLoss). Each anchor draws one negative j; the costs are the costs of LMH:
//
//	loss = 1/N (Σ_i [α + S_ij(i) - S_ii]+ + Σ_j [α + S_i(j)j - S_jj]+)
//
// Pairs that are each other's best form two normal distributions over the epoch: of their scores (µ+, v+), and of their
// hardest negatives' (µ-, v-). A negative of another image with score s has the weight e^(-τ (s - S_ii)²), or, where it
// looks like a match by q = P/(P + (K-1) Q) > 0.001 for the densities P and Q of the two, e^(-τ q). It has none at or
// below µ+ - α. A row without a weight takes its hardest negative. Warm-up epochs are LMH divided by N, or LSH.
// Constants: τ = 0.5, K = 10000, densities count after 200 pairs.
//
// The reference draws from a queue of 8,224 captions as well; here the batch has all candidates (quirks L12, L13).

import (
	"fmt"
	"math"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/graph"
)

func init() {
	registry["fne"] = traits{about: "one negative drawn, few of them false by Bayes' rule", order: 13,
		titles: []string{"FNE"}, hinges: asTheyAre, mean: true, warmUp: 1, build: drawn, images: always,
		memory: func(*Options) Memory { return &fneMemory{sums: make([]float64, fneSums)} }}
}

var fneConstants = declare("fne", fneOptions{Warmup: LMH})

type fneOptions struct {
	Warmup string `yaml:"warmup" enum:"lmh|lsh" doc:"what warm-up epochs are: lmh as published, or lsh, which gets past the plateau of lmh"`
}

// The statistics of FNE, in the order in which they are remembered.
const (
	fnePositives = iota // Σ of scores of matches
	fneMatches          // their number; there are two hardest negatives for each
	fneNegatives        // Σ of scores of hardest negatives
	fnePositiveSquares
	fneNegativeSquares
	fneSums
)

const (
	inputSums        = "in.loss.sums"         // [5]
	inputDrawRows    = "in.loss.draw.rows"    // [N] uniform in [0, 1)
	inputDrawColumns = "in.loss.draw.columns" // [N]
)

func drawn(o Options, g *graph.Graph, scores *graph.Node, c Context, warmUp bool) *graph.Node {
	n := graph.Dim(scores, 0)
	rows, match, share := graph.AlongRows(n), matches(g, scores), 1/float64(n)
	if warmUp {
		cost := func(scores *graph.Node) *graph.Node {
			costs := violations(g, scores, match, o.Margin)
			return g.Scale(sumOrMax(g, costs, fneConstants.of(&o).Warmup == LSH), share)
		}
		return fromCosts(g, "fne", o.Margin, scores, cost(scores), cost(g.SwapAxes(scores)))
	}
	s, apart := g.StopGradient(scores), different(g, c, n)
	found := statisticsOf(g, c, s)
	cost := func(scores, s *graph.Node, draw string) *graph.Node {
		below := g.Broadcast(g.Minus(match, filled(g, o.Margin, n)), rows, n, n)
		costs := g.Multiply(hinged(g, g.Minus(scores, below)), apart)
		weights := found.weights(g, s, costs, apart, o.Margin)
		return g.Scale(g.Sum(g.Multiply(costs, drawOne(g, weights, g.Input(draw, n))), rows), share)
	}
	return fromCosts(g, "fne", o.Margin, scores, cost(scores, s, inputDrawRows),
		cost(g.SwapAxes(scores), g.SwapAxes(s), inputDrawColumns))
}

// statistics are the mean and variance of the scores of matches and of hardest negatives, over the epoch and the batch,
// and whether they are trusted: [1, 1] each.
type statistics struct{ up, down, upSpread, downSpread, trusted *graph.Node }

func statisticsOf(g *graph.Graph, c Context, s *graph.Node) statistics {
	n := graph.Dim(s, 0)
	rows := graph.AlongRows(n)
	turned := g.SwapAxes(s)
	before := g.Input(inputSums, fneSums)
	sum := func(i int) *graph.Node { return g.SliceRows(g.Reshape(before, fneSums, 1), i, i+1) }
	total := func(x *graph.Node) *graph.Node { return g.Reshape(g.Sum(x, graph.AlongRows(n)), 1, 1) }
	square := func(x *graph.Node) *graph.Node { return g.Multiply(x, x) }
	pairs := matches(g, s)
	at := func(x *graph.Node) *graph.Node { return repeated(g, g.Reshape(x, 1), pairs) } // [N]
	mutual := g.Multiply(matches(g, largest(g, s)), matches(g, largest(g, turned)))
	hardest := func(s *graph.Node) *graph.Node { return g.Max(g.Multiply(s, others(g, n)), rows) }
	one, other := hardest(s), hardest(turned)

	positives, count := total(g.Multiply(mutual, pairs)), total(mutual)
	negatives := total(g.Multiply(mutual, g.Add(one, other)))
	counts := g.Add(sum(fneMatches), count)
	mean := func(sum, counts *graph.Node) *graph.Node { return g.Multiply(sum, g.Map(device.Inverse, 0.5, counts)) }
	up := mean(g.Add(sum(fnePositives), positives), counts)
	down := mean(g.Add(sum(fneNegatives), negatives), g.Scale(counts, 2))
	upSquares := total(g.Multiply(mutual, square(g.Minus(pairs, at(up)))))
	downSquares := total(g.Multiply(mutual, g.Add(square(g.Minus(one, at(down))), square(g.Minus(other, at(down))))))
	c.Remember(positives, count, negatives, upSquares, downSquares)
	unit := filled(g, 1, 1, 1)
	upSpread := mean(g.Add(sum(fnePositiveSquares), upSquares), g.Minus(counts, unit))
	downSpread := mean(g.Add(sum(fneNegativeSquares), downSquares), g.Minus(g.Scale(counts, 2), unit))
	const enough = 200
	wide := g.Multiply(above(g, upSpread), above(g, downSpread))
	return statistics{up, down, upSpread, downSpread,
		g.Multiply(above(g, g.Minus(counts, filled(g, enough, 1, 1))), wide)}
}

// weights returns the weights by which each row draws its negative, given its costs: [N, N].
func (t statistics) weights(g *graph.Graph, s, costs, apart *graph.Node, margin float64) *graph.Node {
	n := graph.Dim(s, 0)
	rows, square := graph.AlongRows(n), func(x *graph.Node) *graph.Node { return g.Multiply(x, x) }
	const tau, candidates, seen = 0.5, 10000, 0.001
	ones := filled(g, 1, n, n)
	all := func(x *graph.Node) *graph.Node { return repeated(g, g.Reshape(x, 1), s) } // [N, N]
	weights := g.Map(device.Exp, 0, g.Scale(square(g.Minus(s, g.Broadcast(matches(g, s), rows, n, n))), -tau))
	// ln Q/P of the densities
	form := func(mean, spread *graph.Node) *graph.Node { // -2 ln of a density, but for a constant
		narrow := g.Map(device.Inverse, 1e-12, spread)
		return g.Minus(g.Multiply(square(g.Minus(s, all(mean))), all(narrow)), all(g.Map(device.Log, 0, narrow)))
	}
	odds := g.Scale(g.Minus(form(t.up, t.upSpread), form(t.down, t.downSpread)), 0.5)
	q := g.Activate(device.Sigmoid, g.Scale(g.Add(odds, filled(g, math.Log(candidates-1), n, n)), -1))
	looks := g.Multiply(above(g, g.Minus(q, filled(g, seen, n, n))), all(t.trusted))
	weights = g.Add(g.Multiply(looks, g.Map(device.Exp, 0, g.Scale(q, -tau))),
		g.Multiply(g.Minus(ones, looks), weights))
	cut := g.Minus(s, g.Minus(all(t.up), filled(g, margin, n, n)))
	weights = g.Multiply(g.Multiply(weights, above(g, cut)), apart)
	none := g.Broadcast(g.Minus(filled(g, 1, n), above(g, g.Sum(weights, rows))), rows, n, n)
	return g.Add(weights, g.Multiply(none, largest(g, g.StopGradient(costs))))
}

// drawOne draws a column of each row of weights [n, n] with probabilities proportional to the weights, given u [n]
// uniform in [0, 1): the first j with w_0 + … + w_j > u Σ w. The result is 1 there and 0 elsewhere.
func drawOne(g *graph.Graph, weights, u *graph.Node) *graph.Node {
	n := graph.Dim(weights, 0)
	upTo, last := make([]float64, n*n), make([]float64, n)
	for j := range n {
		for k := range j + 1 {
			upTo[j*n+k] = 1
		}
	}
	last[n-1] = 1
	rows := graph.AlongRows(n)
	sums := g.MatMulT(g.StopGradient(weights), g.Const(fmt.Sprintf("const.up.to.%d", n), upTo, n, n), true)
	whole := g.Sum(g.Multiply(sums, g.Repeat(g.Const(fmt.Sprintf("const.last.%d", n), last, n), n)), rows)
	return largest(g, above(g, g.Minus(sums, g.Broadcast(g.Multiply(u, whole), rows, n, n))))
}

// fneMemory holds the sums over an epoch. The first step of an epoch starts from 0 (train.py resets its meters there).
type fneMemory struct{ sums []float64 }

func (m *fneMemory) before(b *Batch) []float64 {
	if b.Iter == 0 {
		return make([]float64, fneSums)
	}
	return m.sums
}

func (m *fneMemory) Feed(s *graph.Instance, b *Batch) error {
	r := b.draws("fne")
	for _, name := range []string{inputDrawRows, inputDrawColumns} {
		u := make([]float64, b.N)
		for i := range u {
			u[i] = float64(r.IntN(1<<20)) / (1 << 20) // below 1 in float32 too
		}
		if err := s.FeedDoubles(name, u); err != nil {
			return err
		}
	}
	return s.FeedDoubles(inputSums, m.before(b))
}

func (m *fneMemory) Take(b *Batch, values []float64) {
	m.sums = m.before(b)
	for i, v := range values {
		m.sums[i] += v
	}
}

func (m *fneMemory) State() map[string]*[]float64 { return map[string]*[]float64{"sums": &m.sums} }
