package models

// VSRN (Li, Zhang, Li, Li, Fu: "Visual Semantic Reasoning for Image-Text Matching", ICCV 2019; KunpengLi1994/VSRN,
// model.py, GCN_lib/Rs_GCN.py). With regions V [B, R, D], features F [B, R, E]:
//
//	F = V Wᵀ + b                                   coco mode: F ← l2(F) over the regions (quirk Q2)
//	F ← F + BN(W_r (θ(F) φ(F)ᵀ/R · g(F)))          four times; θ, φ, g, W_r linear, BN starts as 0
//	G = l2(F) over the regions (quirk Q2)          also the input of the captioning branch
//	h = GRU(G_1 … G_R)                             f30k mode: h ← BN(h)
//	i = l2(h)
//
// Captions are embedded as in VSE++. The score is the dot product.

import (
	"strings"

	"vsetrain/internal/compute/graph"
	"vsetrain/models/nn"
)

// VSRN is visual semantic reasoning.
const VSRN = "vsrn"

func init() {
	registry[VSRN] = entry{build: newVSRN, defaults: func(o *Options) {
		o.VSRN = VSRNOptions{Mode: "f30k", L2Axis: "region", Caption: true, Hidden: 512, Dropout: 0.2}
	}, traits: func(*Options) Traits {
		return Traits{Title: "VSRN", Order: 2, Section: "vsrn", TextEncoders: []string{"gru"}, Embeds: true,
			Span: cosines, AnyRegions: true, Attention: true}
	}}
}

// VSRNOptions are the options of VSRN.
type VSRNOptions struct {
	Mode            string `yaml:"mode" enum:"f30k|coco" doc:"f30k ends in a batch norm (Flickr30K, Flickr8K, IAPR TC-12); coco normalises the regions first instead"`
	L2Axis          string `yaml:"l2_axis" enum:"region|feature" doc:"axis of the L2 normalisation of region vectors; region as published"`
	DuplicateParams bool   `yaml:"duplicate_params" doc:"count the captioning parameters twice in clipping and Adam, as the reference does"`
	Caption         bool   `yaml:"caption" doc:"also train the captioning branch"`
	Hidden          int    `yaml:"caption_hidden" min:"1" max:"65536" doc:"values of a hidden state of the captioning branch; 512 as published (dim_hidden)" reference:"+dim_hidden"`
	// Dropout is input_dropout_p of the reference. It applies to the encoder's inputs, and to the decoder's words and
	// contexts.
	Dropout float64 `yaml:"dropout" min:"0" below:"1" doc:"dropout of the captioning branch in training; 0 turns it off" reference:"+input_dropout_p"`
}

const modeCOCO = "coco"

type vsrn struct {
	collected
	dotProduct
	opt   VSRNOptions
	dims  Dims
	embed int
	Image struct {
		FC   nn.Linear    `param:"fc"`
		GCN1 relation     `param:"Rs_GCN_1"`
		GCN2 relation     `param:"Rs_GCN_2"`
		GCN3 relation     `param:"Rs_GCN_3"`
		GCN4 relation     `param:"Rs_GCN_4"`
		RNN  nn.GRU       `param:"img_rnn"`
		Norm nn.BatchNorm `param:"bn"` // f30k mode
	} `param:"img"`
	Text    lastState     `param:"txt"`
	Caption captionBranch `param:"cap"` // training only
}

func newVSRN(o Options, d Dims) (Network, error) {
	n := &vsrn{opt: o.VSRN, dims: d, embed: o.EmbedDim}
	im := &n.Image
	im.FC = nn.NewXavierLinear(d.Feature, o.EmbedDim)
	for _, r := range n.relations() {
		*r = newRelation(o.EmbedDim)
	}
	im.RNN = nn.NewGRU(o.EmbedDim, o.EmbedDim)
	if o.VSRN.Mode != modeCOCO {
		im.Norm = nn.NewBatchNorm(o.EmbedDim)
	}
	n.Text = newLastState(d.Vocab, o.WordDim, o.EmbedDim)
	if o.VSRN.Caption {
		n.Caption = newCaptionBranch(o.EmbedDim, o.VSRN.Hidden, o.WordDim, d.Vocab, captionLength, o.VSRN.Dropout)
	}
	n.collect(n, "img", "txt")
	if !o.VSRN.Caption {
		return n, nil
	}
	for _, p := range n.params {
		p.Twice = o.VSRN.DuplicateParams && strings.HasPrefix(p.Name, "cap.")
	}
	return &captioningVSRN{n}, nil
}

func (n *vsrn) relations() []*relation {
	return []*relation{&n.Image.GCN1, &n.Image.GCN2, &n.Image.GCN3, &n.Image.GCN4}
}

// Images embeds regions [B, R·D].
func (n *vsrn) Images(g *graph.Graph, regions *graph.Node) *graph.Node {
	embedding, _, _ := n.reason(g, regions)
	return embedding
}

// ImagesAndRegions implements RegionEncoder.
func (n *vsrn) ImagesAndRegions(g *graph.Graph, regions *graph.Node) (images, features *graph.Node) {
	images, features, _ = n.reason(g, regions)
	return images, features
}

// reason returns the embeddings [B, E] and the features of the regions, as G [B, R, E] and packed as sequences [R·B,
// E].
func (n *vsrn) reason(g *graph.Graph, regions *graph.Node) (embedding, features, sequences *graph.Node) {
	b, r, e, axis := graph.Dim(regions, 0), n.dims.Regions, n.embed, n.axis()
	f := n.Image.FC.Forward(g, g.Reshape(regions, b*r, n.dims.Feature))
	if n.opt.Mode == modeCOCO {
		f = g.Reshape(g.L2Norm(g.Reshape(f, b, r, e), axis, 0), b*r, e)
	}
	for _, block := range n.relations() {
		f = block.Forward(g, f, b)
	}
	features = g.L2Norm(g.Reshape(f, b, r, e), axis, 0)
	sequences = timeMajor(g, features)
	h := n.Image.RNN.Final(g, sequences, regionCounts(g, b, r))
	if n.opt.Mode != modeCOCO {
		h = g.BatchNorm(h, 1, n.Image.Norm.Weights(g))
	}
	return g.L2Norm(h, 1, 0), features, sequences
}

// axis is the axis of [B, R, E] along which regions are normalised.
func (n *vsrn) axis() int {
	if n.opt.L2Axis == "feature" {
		return 2
	}
	return 1
}

// timeMajor packs [B, R, E] as the sequences of a GRU: [R·B, E].
func timeMajor(g *graph.Graph, x *graph.Node) *graph.Node {
	return g.Reshape(g.SwapAxes(x), graph.Dim(x, 0)*graph.Dim(x, 1), graph.Dim(x, 2))
}

// Captions embeds words.
func (n *vsrn) Captions(g *graph.Graph, c Captions) *graph.Node { return n.Text.Forward(g, c) }

// relation is one block of reasoning between regions (Rs_GCN).
type relation struct {
	G     nn.Conv `param:"g"`
	Theta nn.Conv `param:"theta"`
	Phi   nn.Conv `param:"phi"`
	W     struct {
		Conv nn.Conv      `param:"0"`
		Norm nn.BatchNorm `param:"1"`
	} `param:"W"`
}

func newRelation(e int) relation {
	r := relation{G: nn.NewConv(e, e), Theta: nn.NewConv(e, e), Phi: nn.NewConv(e, e)}
	r.W.Conv, r.W.Norm = nn.NewConv(e, e), nn.NewBatchNorm(e)
	r.W.Norm.Weight.Init = nn.Constant(0) // so the block starts as the identity
	return r
}

// Forward adds relations between the regions of each of B images to their features f [B·R, E].
func (l *relation) Forward(g *graph.Graph, f *graph.Node, b int) *graph.Node {
	rows, e := graph.Dim(f, 0), graph.Dim(f, 1)
	split := func(x *graph.Node) *graph.Node { return g.Reshape(x, b, rows/b, e) }
	y := g.Relate(split(l.Theta.Forward(g, f)), split(l.Phi.Forward(g, f)), split(l.G.Forward(g, f)))
	return g.BatchNormPlus(l.W.Conv.Forward(g, g.Reshape(y, rows, e)), 1, l.W.Norm.Weights(g), f)
}

// captioningVSRN is VSRN with the captioning branch.
type captioningVSRN struct{ *vsrn }

// MaxLength is max_len.
func (n *captioningVSRN) MaxLength() int { return n.Caption.length }

// ImagesAndLoss implements Captioner.
func (n *captioningVSRN) ImagesAndLoss(g *graph.Graph, regions *graph.Node, l Labels) (images, loss *graph.Node) {
	images, _, sequences := n.reason(g, regions)
	return images, n.Caption.Loss(g, sequences, l)
}
