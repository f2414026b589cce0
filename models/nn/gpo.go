package nn

import (
	"fmt"
	"math"

	"vsetrain/internal/compute/graph"
)

// GPO is the generalised pooling operator (Chen, Hu, Wu, Jiang, Wang: "Learning the Best Pooling Strategy for Visual
// Semantic Embedding", CVPR 2021, section 3; woodfrog/vse_infty, lib/modules/aggr/gpo.py: GPO): the values of each
// channel, sorted in descending order, are summed with weights θ that depend on the position in that order and on the
// number of values n alone:
//
//	P[p, 2i] = sin(p·ω_i)    P[p, 2i+1] = cos(p·ω_i)    ω_i = 10000^(-2i/d)    p = 0 … n-1
//	θ = softmax(w·BiGRU(P) / 0.1)
//	y_c = Σ_p θ_p · sorted_p(x_c)
//
// Because θ depends on n alone, it is computed once for every length: a table [K, K] whose row K - n holds the weights
// of n values, longest first as in packed sequences. P is exact; the reference rounds it to float32 (quirk Q13). The
// reference masks with -10000 before softmax and sorting, which is the same as leaving out.
type GPO struct {
	GRU    BiGRU  `param:"gru"`
	Linear Linear `param:"linear"`
	encode int    // d
}

const poolTemperature = 0.1

// NewGPO returns an operator with positional encodings of size d.
func NewGPO(d, hidden int) GPO {
	return GPO{GRU: NewBiGRU(d, hidden), encode: d,
		Linear: Linear{Weight: Param{Shape: []int{1, hidden}, Init: fanIn(hidden)}}}
}

// Table returns the weights of the lengths longest, longest-1, …, 1: [longest, longest].
func (l *GPO) Table(g *graph.Graph, longest int) *graph.Node {
	lengths := make([]int32, longest)
	for i := range lengths {
		lengths[i] = int32(longest - i)
	}
	var encodings []float64
	for p := range longest {
		row := PositionalEncoding(p, l.encode)
		for range longest - p { // the sequences that have a position p
			encodings = append(encodings, row...)
		}
	}
	n := g.ConstInts(fmt.Sprintf("const.gpo.lengths.%d", longest), lengths)
	x := g.Const(fmt.Sprintf("const.gpo.positions.%d.%d", longest, l.encode), encodings, len(encodings)/l.encode,
		l.encode)
	return g.PoolWeights(l.Linear.Forward(g, l.GRU.Mean(g, x, n)), n, longest, poolTemperature)
}

// Forward pools the rows of every item, packed or concatenated: rows [capacity, D] with lengths [B] of at most longest
// → [B, D].
func (l *GPO) Forward(g *graph.Graph, rows, lengths *graph.Node, longest int, packed bool) *graph.Node {
	return g.SortPool(rows, lengths, l.Table(g, longest), packed)
}

// PositionalEncoding returns the encoding of position p in d values.
func PositionalEncoding(p, d int) []float64 {
	out := make([]float64, d)
	for i := range out {
		angle := float64(p) * encodingFrequency(i, d)
		if i%2 == 0 {
			out[i] = math.Sin(angle)
		} else {
			out[i] = math.Cos(angle)
		}
	}
	return out
}

// encodingFrequency is ω of value i of d.
func encodingFrequency(i, d int) float64 {
	return math.Exp(-float64(i/2*2) * math.Log(10000) / float64(d))
}
