package loss

// LSEH, semantically-enhanced hard negatives (Gong, Cosma: "Improving visual-semantic embeddings by learning
// semantically-enhanced hard negatives for cross-modal information retrieval", Pattern Recognition 2023; code
// yangong23/VSEnetworksLSEH, loss.py). The margin of a negative pair grows with the semantic similarity of the two
// captions:
//
//	M_ij = α + λ Sim_ij,   Sim_ij = s_i·s_j / max_k s_i·s_k   (rowmax, as released)  or  cos(s_i, s_j)  (as written)
//
// and is 0 on the diagonal and, with same_image zero_margin, for two captions of one image. Nothing flows back into
// the semantic vectors s. The released code compares m_i with c_j // 5 instead of image identities, which differs for
// data with one caption per image; image identities are compared here (quirk Q20).

import (
	"fmt"
	"strings"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/graph"
	"vsetrain/internal/system/options"
)

// LSEH is the loss of semantically enhanced hard negatives.
const LSEH = "lseh"

func init() {
	registry[LSEH] = traits{about: "semantically enhanced hard negatives", defaults: func(o *Options) {
		o.LSEH = LSEHOptions{Lambda: 0.025, Similarity: "rowmax", SameImage: "zero_margin", Semantics: "svd"}
	}, order: 5, compared: true, hinges: asTheyAre, doubts: func(o *Options, span float64, _ int) []*options.Error {
		if o.Margin >= span || o.Margin+o.LSEH.Lambda < span {
			return nil
		}
		return []*options.Error{{Key: "lseh.lambda", Found: fmt.Sprint(o.LSEH.Lambda), Remedy: "hinges of captions " +
			"that are alike are active then whatever they score", Expected: fmt.Sprintf("less than %.4g, so that with "+
			"loss.margin it stays below the most by which scores differ, %.4g", span-o.Margin, span)}}
	}, titles: []string{"LSEH-SVD", "LSEH-BERT"},
		title:     func(o *Options) string { return "LSEH-" + strings.ToUpper(o.LSEH.Semantics) },
		reference: func(o *Options, s map[string]any) { s["lambda"] = o.LSEH.Lambda }, semantics: always,
		build: func(o Options, g *graph.Graph, scores *graph.Node, c Context, sum bool) *graph.Node {
			if c.Margins == nil {
				c.Margins = o.Margins(g, c, graph.Dim(scores, 0))
			}
			return hinge(g, scores, c.Margins, o.Margin, !sum)
		}}
}

// LSEHOptions are the constants of the margin alpha + lambda * Sim(i, j) between captions i and j.
type LSEHOptions struct {
	Lambda     float64 `yaml:"lambda" min:"0" max:"100" doc:"weight lambda of the semantic similarity in the margin; 0 is lmh with same-image handling"`
	Similarity string  `yaml:"similarity" enum:"rowmax|cosine" doc:"rowmax as released (row divided by its largest entry), cosine as the paper writes it"`
	SameImage  string  `yaml:"same_image" enum:"zero_margin|normal" doc:"margin of two captions of one image: zero_margin as released, normal like any other pair"`
	Semantics  string  `yaml:"semantics" enum:"svd|bert" doc:"which semantic vectors data.semantics: auto looks for"`
}

// Similarities returns options whose margins are just the semantic similarities: α is 0 and λ is 1.
func (o Options) Similarities() Options {
	o.Name, o.Margin, o.LSEH.Lambda, o.LSEH.SameImage = LSEH, 0, 1, "normal"
	return o
}

// Margins adds the margins M [n, n] of LSEH to a graph. It returns nil for other losses, which have a constant margin.
func (o Options) Margins(g *graph.Graph, c Context, n int) *graph.Node {
	if !o.HasMargins() {
		return nil
	}
	if c.Semantics == nil || c.Images == nil || c.Captions == nil {
		graph.Failf("loss lseh needs the semantic vectors and image identities of the batch")
	}
	k := graph.Dim(c.Semantics, 1)
	op := &graph.Op{Name: fmt.Sprintf("lseh margins %d×%d", n, k), Outs: []graph.Shape{{n, n}}, Temp: []int{n * n},
		NeedsGrad: []bool{false, false, false}}
	op.Make = func(c *graph.Call) {
		const semantics, images, captions, products, margins = 0, 1, 2, 0, 0 // arguments, scratch memory, result
		gram := c.Temp[products]
		graph.Do(c, device.Gemm{TransB: true, M: n, N: n, K: k, Alpha: 1, A: c.In[semantics], B: c.In[semantics],
			C: gram, Exact: true})
		graph.Do(c, device.SemanticMargins{N: n, Gram: gram, Images: c.In[images], Captions: c.In[captions],
			Alpha: o.Margin, Lambda: o.LSEH.Lambda, Cosine: o.LSEH.Similarity == "cosine",
			ZeroSameImage: o.LSEH.SameImage == "zero_margin", Margins: c.Out[margins]})
	}
	return g.Apply(op, c.Semantics, c.Images, c.Captions)
}
