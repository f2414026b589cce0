package loss

// DECL, deep evidential cross-modal learning for wrong captions (Qin, Peng, Peng, Wang, Hu: "Deep evidential learning
// with noisy correspondence for cross-modal retrieval", ACM MM 2022; code QinYang79/DECL, model/DECL.py). Scores are
// evidence for a Dirichlet distribution over the candidates of an anchor. With t = tanh S, e = e^(t/τ), α = e + 1,
// A = Σ_j α_ij, m = α/A, the label l_ij = 1 for the match of a pair that counts as right and 0 elsewhere:
//
//	row = Σ_j (l - m)² + Σ_j m (1 - m)/(A + 1) + λ2 KL(Dir(b) ‖ Dir(1)),  b = e (1 - l) + 1
//	loss = mean of the rows + mean of the columns + λ1 Σ_i over right pairs (mean of the k largest hinges of t
//	       in row i + the same for column i),  k = max(B - 0.025 step, 5), N - 1 where N < k
//
// N pairs are in the batch, B in a full one. In warm-up epochs all pairs are right. Later a pair is right where its
// evidence was the largest of its row, both directions added. The reference judges all pairs in its own pass before
// each epoch; here the judgement is the judgement in the step that had the caption last, in the epoch before. It takes
// the scores of SAF and SGR before their sigmoid; here all losses see the scores of the network (quirk L30).

import (
	"fmt"
	"math"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/graph"
	"vsetrain/internal/system/options"
)

func init() {
	registry["decl"] = traits{about: "evidence with wrong pairs left out, for wrong captions", order: 15,
		titles: []string{"DECL"}, warmUp: 5, build: evidential,
		hinges: func(span float64) float64 { return 2 * math.Tanh(span/2) },
		doubts: func(o *Options, span float64, _ int) []*options.Error {
			return even("decl.temperature", declConstants.of(o).Temperature, span)
		},
		memory: func(*Options) Memory { return &declMemory{right: perCaption{first: 1}} }}
}

var declConstants = declare("decl", declOptions{Temperature: 0.1, Hinges: 0.8, Divergence: 0.1})

type declOptions struct {
	Temperature float64 `yaml:"temperature" min:"0.02" max:"100" doc:"temperature tau of the evidence"`
	Hinges      float64 `yaml:"hinges" min:"0" max:"1000" doc:"weight lambda1 of the hardest hinges"`
	Divergence  float64 `yaml:"divergence" min:"0" max:"1000" doc:"weight lambda2 of the evidence for negatives"`
}

const (
	inputRight = "in.loss.right" // [N] 1 where a pair counts as right
	inputPool  = "in.loss.pool"  // [N, N] weights of sorted hinges, in the first row
)

func evidential(o Options, g *graph.Graph, scores *graph.Node, c Context, _ bool) *graph.Node {
	n, own := graph.Dim(scores, 0), declConstants.of(&o)
	rows := graph.AlongRows(n)
	right, pool := g.Input(inputRight, n), g.Input(inputPool, n, n)
	t := g.Activate(device.Tanh, scores)
	match := matches(g, t)
	evidence := g.Map(device.Exp, 0, g.Scale(t, 1/own.Temperature))
	both := g.StopGradient(g.Add(evidence, g.SwapAxes(evidence)))
	c.Remember(matches(g, largest(g, both)))
	ones := filled(g, 1, n, n)
	label := g.Multiply(g.Minus(ones, others(g, n)), g.Broadcast(right, rows, n, n))
	all := g.ConstInts(fmt.Sprintf("const.all.%d", n), []int32{int32(n)})
	cost := func(t, evidence *graph.Node) *graph.Node {
		alpha := g.Add(evidence, ones)
		sum := g.Sum(alpha, rows)
		mean := g.Multiply(alpha, g.Broadcast(g.Map(device.Reciprocal, 0, sum), rows, n, n))
		far := g.Minus(label, mean)
		size := g.Broadcast(g.Map(device.Reciprocal, 1, sum), rows, n, n)
		spread := g.Multiply(g.Multiply(mean, g.Minus(ones, mean)), size)
		row := g.Add(g.Sum(g.Add(g.Multiply(far, far), spread), rows),
			g.Scale(fromUniform(g, g.Add(g.Multiply(evidence, g.Minus(ones, label)), ones)), own.Divergence))
		hardest := g.SortPool(g.SwapAxes(violations(g, t, match, o.Margin)), all, pool, false)
		return g.Add(g.Scale(row, 1/float64(n)), g.Scale(g.Multiply(g.Reshape(hardest, n), right), own.Hinges))
	}
	return fromCosts(g, "decl", o.Margin, scores, cost(t, evidence), cost(g.SwapAxes(t), g.SwapAxes(evidence)))
}

// fromUniform returns the divergence of Dir(b) from Dir(1) for each row of b [n, n], whose values are at least 1:
// lnΓ(B) - Σ lnΓ(b) - lnΓ(n) + Σ (b - 1)(ψ(b) - ψ(B)), B = Σ b.
func fromUniform(g *graph.Graph, b *graph.Node) *graph.Node {
	n := graph.Dim(b, 0)
	rows := graph.AlongRows(n)
	sum := g.Sum(b, rows)
	logOf, slopeOf := gammas(g, b)
	logSum, slopeSum := gammas(g, sum)
	constant, _ := math.Lgamma(float64(n))
	over := g.Multiply(g.Minus(b, filled(g, 1, n, n)), g.Minus(slopeOf, g.Broadcast(slopeSum, rows, n, n)))
	return g.Add(g.Minus(logSum, filled(g, constant, n)), g.Sum(g.Minus(over, logOf), rows))
}

// gammas returns lnΓ(b) and its derivative ψ(b) for b >= 1, to 1e-12: the asymptotic series at x = b + 8, and the
// recurrence down to b (Abramowitz, Stegun: "Handbook of mathematical functions", 6.1.41, 6.3.18, 6.1.16, 6.3.6).
func gammas(g *graph.Graph, b *graph.Node) (log, slope *graph.Node) {
	const shift = 8
	constant := func(v float64) *graph.Node { return filled(g, v, b.Shape()...) }
	x, r := g.Add(b, constant(shift)), g.Map(device.Reciprocal, shift, b)
	squares, ln := g.Multiply(r, r), g.Map(device.Log, 0, x)
	series := func(factors ...float64) *graph.Node { // Σ factor_k r^(2k)
		y := constant(factors[len(factors)-1])
		for i := len(factors) - 2; i >= 0; i-- {
			y = g.Add(g.Multiply(y, squares), constant(factors[i]))
		}
		return y
	}
	down, sum := constant(1), constant(0) // Π (b+k)/x and Σ 1/(b+k)
	for k := range shift {
		down = g.Multiply(down, g.Minus(constant(1), g.Scale(r, float64(shift-k))))
		sum = g.Add(sum, g.Map(device.Reciprocal, float64(k), b))
	}
	log = g.Add(g.Multiply(g.Minus(x, constant(shift+0.5)), ln),
		g.Minus(g.Multiply(r, series(1./12, -1./360, 1./1260, -1./1680, 1./1188)), x))
	log = g.Add(g.Minus(log, g.Map(device.Log, 0, down)), constant(math.Log(2*math.Pi)/2))
	slope = g.Minus(ln, g.Add(g.Scale(r, 0.5), g.Multiply(squares,
		series(1./12, -1./120, 1./252, -1./240, 1./132))))
	return log, g.Minus(slope, sum)
}

// hinges returns the number of the largest hinges of an anchor that count (DECL.py: train_batch). It starts at the size
// of a full batch, even for a smaller batch, and decreases with the steps.
func hinges(b *Batch) int {
	k := max(int(float64(max(b.Full, b.N))-float64(0.025*float64(b.Step+1))), 5)
	if b.N < k {
		return b.N - 1
	}
	return k
}

// declMemory holds the last judgement of every caption.
type declMemory struct{ right perCaption }

func (m *declMemory) Feed(s *graph.Instance, b *Batch) error {
	right, most := m.right.of(b), hinges(b)
	pool := make([]float64, b.N*b.N)
	for i := range right {
		if b.WarmUp {
			right[i] = 1
		}
		if i < most {
			pool[i] = 1 / float64(most)
		}
	}
	if err := s.FeedDoubles(inputPool, pool); err != nil {
		return err
	}
	return s.FeedDoubles(inputRight, right)
}

func (m *declMemory) Take(b *Batch, values []float64) {
	for i, v := range values {
		m.right.set(b.caption(i), v)
	}
}

func (m *declMemory) State() map[string]*[]float64 {
	return map[string]*[]float64{"right": &m.right.values}
}
