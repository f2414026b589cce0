package models

// VSE-infinity in region mode (Chen, Hu, Wu, Jiang, Wang: "Learning the Best Pooling Strategy for Visual Semantic
// Embedding", CVPR 2021; woodfrog/vse_infty, branches bigru and master: lib/encoders.py, lib/modules/mlp.py,
// lib/modules/aggr/gpo.py):
//
//	image    h_r = W v_r + b + W₂ ReLU(BN(W₁ v_r + b₁)) + b₂    i = l2(GPO(h_1 … h_n))     n of the R regions
//	caption  x_t = (→GRU_t + ←GRU_t)/2 over embed(w_1 … w_L)    c = l2(GPO(x_1 … x_L))
//	         or x_t = W h_t + b, h the last hidden states of BERT over word pieces (branch master)
//	score    S = I Cᵀ
//
// In training, size augmentation drops regions, and masks, replaces or drops words (package data). The remaining
// regions are concatenated. The zero rows that the reference pads with are not computed, but they count in the
// statistics of BN with the value b₁ (quirk Q4; option bn_ignore_padding).

import (
	"fmt"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/graph"
	"vsetrain/internal/system/options"
	"vsetrain/models/nn"
)

// VSEInf is VSE-infinity.
const VSEInf = "vseinf"

func init() {
	registry[VSEInf] = entry{build: newVSEInf, defaults: func(o *Options) {
		o.VSEInf = VSEInfOptions{SizeAugment: true}
	}, traits: func(o *Options) Traits {
		return Traits{Title: "VSE-infinity", Variant: encoderTitle(o), Order: 5, Section: "vseinf",
			TextEncoders: []string{TextBert, "bigru"}, Embeds: true, AnyRegions: true, Counts: true, Span: cosines,
			SizeAugment: o.VSEInf.SizeAugment, MaskWord: true, WarmupReference: "vse_mean_warmup_epochs"}
	}}
}

// VSEInfOptions are the options of VSE-infinity in region mode.
type VSEInfOptions struct {
	BNIgnorePadding bool `yaml:"bn_ignore_padding" doc:"keep zero padding rows out of batch norm statistics; false as published"`
	SizeAugment     bool `yaml:"size_augment" doc:"drop 20 % of regions and mask or drop 20 % of words in training" reference:"+drop"`
}

type vseinf struct {
	collected
	dotProduct
	opt   VSEInfOptions
	dims  Dims
	Image struct {
		FC  nn.Linear `param:"fc"`
		MLP struct {
			Layers [2]nn.Linear    `param:"layers"`
			Norms  [2]nn.BatchNorm `param:"bns"` // the second is stored and never used
		} `param:"mlp"`
		Pool nn.GPO `param:"gpool"`
	} `param:"img"`
	Text struct {
		Words wordEncoder `param:""` // the last word is <mask>
		Pool  nn.GPO      `param:"gpool"`
	} `param:"txt"`
}

// vseinfSizes are the sizes that are not options.
type vseinfSizes struct{ mlp, encode, hidden int }

func newVSEInf(o Options, d Dims) (Network, error) {
	return newVSEInfOf(o, d, vseinfSizes{mlp: o.EmbedDim / 2, encode: 32, hidden: 32})
}

func newVSEInfOf(o Options, d Dims, s vseinfSizes) (*vseinf, error) {
	if s.mlp < 1 {
		return nil, &options.Error{Key: "embed_dim", Expected: "at least 2 for network vseinf",
			Found: fmt.Sprint(o.EmbedDim)}
	}
	n := &vseinf{opt: o.VSEInf, dims: d}
	n.Image.FC = nn.NewXavierLinear(d.Feature, o.EmbedDim)
	n.Image.MLP.Layers = [2]nn.Linear{nn.NewLinear(d.Feature, s.mlp), nn.NewLinear(s.mlp, o.EmbedDim)}
	n.Image.MLP.Norms = [2]nn.BatchNorm{nn.NewBatchNorm(s.mlp), nn.NewBatchNorm(o.EmbedDim)}
	n.Image.Pool = nn.NewGPO(s.encode, s.hidden)
	n.Text.Words = newWordEncoder(o, d, 1)
	n.Text.Pool = nn.NewGPO(s.encode, s.hidden)
	n.collect(n, "img", "txt")
	return n, nil
}

// Images embeds regions [B, R·D]. With counts, they are concatenated (InputRegionCounts).
func (n *vseinf) Images(g *graph.Graph, regions *graph.Node) *graph.Node {
	b, r := graph.Dim(regions, 0), n.dims.Regions
	if n.dims.counted(g, n.opt.SizeAugment) {
		return n.images(g, regions, g.InputInts(InputRegionCounts, b))
	}
	return n.images(g, regions, regionCounts(g, b, r))
}

// images embeds concatenated regions with counts [B].
func (n *vseinf) images(g *graph.Graph, regions, counts *graph.Node) *graph.Node {
	m := &n.Image.MLP
	x := g.Reshape(regions, graph.Dim(regions, 0)*n.dims.Regions, n.dims.Feature)
	h := g.LinearRows(counts, m.Layers[0].Term(g, x))
	var pad *graph.Node
	if !n.opt.BNIgnorePadding {
		pad = m.Layers[0].Bias.Node(g)
	}
	h = g.Activate(device.ReLU, g.BatchNormRows(h, counts, pad, m.Norms[0].Weights(g)))
	h = g.LinearRows(counts, n.Image.FC.Term(g, x), m.Layers[1].Term(g, h))
	return g.L2Norm(n.Image.Pool.Forward(g, h, counts, n.dims.Regions, false), 1, 1e-8)
}

// Captions embeds words, packed for the BiGRU and concatenated for BERT.
func (n *vseinf) Captions(g *graph.Graph, c Captions) *graph.Node {
	x, packed := n.Text.Words.states(g, c)
	return g.L2Norm(n.Text.Pool.Forward(g, x, c.Lengths, graph.Dim(c.Words, 1), packed), 1, 1e-8)
}
