package loss

// LSEH, semantically-enhanced hard negatives (Gong, Cosma: "Improving visual-semantic embeddings by learning
// semantically-enhanced hard negatives for cross-modal information retrieval", Pattern Recognition 2023; code
// yangong23/VSEnetworksLSEH, loss.py). The margin of a negative pair grows with the semantic similarity of the two
// captions:
//
//	M_ij = α + λ Sim_ij,   Sim_ij = s_i·s_j / max_k s_i·s_k   (rowmax, as released)  or  cos(s_i, s_j)  (as written)
//
// and is 0 on the diagonal and, with same_image zero_margin, for two captions of one image. Nothing flows back into
// the semantic vectors s. The released code compares m_i with c_j // 5 instead of image identities, which differs for data
// with one caption per image; image identities are compared here
// (quirk Q20).

import (
	"fmt"

	"gorgonia.org/tensor"

	"vsetrain/internal/device"
	"vsetrain/internal/graph"
)

// Margins adds the margins M [n, n] of LSEH to a graph. Other losses have a constant margin: nil.
func (o Options) Margins(g *graph.Graph, c Context, n int) *graph.Node {
	if o.Name != LSEH {
		return nil
	}
	if c.Semantics == nil || c.Images == nil || c.Captions == nil {
		graph.Failf("loss lseh needs the semantic vectors and image identities of the batch")
	}
	k := graph.Dim(c.Semantics, 1)
	op := &graph.Op{Name: fmt.Sprintf("lseh margins %d×%d", n, k), Outs: []tensor.Shape{{n, n}}, Temp: []int{n * n},
		Wants: []bool{false, false, false}}
	op.Run = func(d device.Device, c *graph.Call) {
		gram := c.Temp[0]
		d.Gemm(device.GemmArgs{TransB: true, M: n, N: n, K: k, Alpha: 1, A: c.In[0], B: c.In[0], C: gram, Exact: true})
		d.SemanticMargins(device.MarginArgs{N: n, Gram: gram, Images: c.In[1], Captions: c.In[2], Alpha: o.Margin, Lambda: o.LSEH.Lambda,
			Cosine: o.LSEH.Similarity == "cosine", ZeroSameImage: o.LSEH.SameImage == "zero_margin", Margins: c.Out[0]})
	}
	return g.Apply(op, c.Semantics, c.Images, c.Captions)
}
