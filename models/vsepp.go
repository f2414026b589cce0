package models

// VSE++ (Faghri, Fleet, Kiros, Fidler: "VSE++: Improving Visual-Semantic Embeddings with Hard Negatives", BMVC 2018),
// in the form of the LSEH paper (yangong23/VSEnetworksLSEH, VSEpp_LSEH/model.py), which flattens the regions (quirk
// Q1):
//
//	image    i = l2(W vec(V) + b)           V [R, D] raw region features, W [E, R·D]
//	caption  c = l2(GRU(embed(w_1 … w_L)))  state after the last word
//	score    S = I Cᵀ                       or -‖max(0, c - i)‖₂ with measure order
//
// One feature vector per image, [B, D], is the case R = 1.

import (
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/graph"
	"vsetrain/models/nn"
)

// VSEPP is VSE++ on flattened regions.
const VSEPP = "vsepp"

func init() {
	registry[VSEPP] = entry{build: newVSEPP, defaults: func(o *Options) {
		o.VSEPP = VSEPPOptions{Measure: "cosine"}
	}, traits: func(o *Options) Traits {
		t := Traits{Title: "VSE++", Order: 1, Section: "vsepp", TextEncoders: []string{"gru"}, Embeds: true,
			Span: cosines}
		switch {
		case o.VSEPP.NoImgNorm:
			t.Span = 0
		case o.VSEPP.UseAbs:
			t.Span = 1
		}
		return t
	}}
}

// VSEPPOptions are the options of VSE++.
type VSEPPOptions struct {
	Measure   string `yaml:"measure" enum:"cosine|order" doc:"similarity: cosine, or order embeddings -|max(0, c - i)|" reference:"measure"`
	UseAbs    bool   `yaml:"use_abs" doc:"take the absolute value of both embeddings" reference:"use_abs"`
	NoImgNorm bool   `yaml:"no_imgnorm" doc:"do not L2-normalise the image embedding" reference:"no_imgnorm"`
}

type vsepp struct {
	collected
	opt   VSEPPOptions
	dims  Dims
	Image struct {
		FC nn.Linear `param:"fc"`
	} `param:"img"`
	Text lastState `param:"txt"`
}

func newVSEPP(o Options, d Dims) (Network, error) {
	n := &vsepp{opt: o.VSEPP, dims: d}
	n.Image.FC = nn.NewXavierLinear(d.Regions*d.Feature, o.EmbedDim)
	n.Text = newLastState(d.Vocab, o.WordDim, o.EmbedDim)
	n.collect(n, "img", "txt")
	return n, nil
}

// Images embeds flattened regions [B, R·D].
func (n *vsepp) Images(g *graph.Graph, regions *graph.Node) *graph.Node {
	x := n.Image.FC.Forward(g, regions)
	if !n.opt.NoImgNorm {
		x = g.L2Norm(x, 1, 0)
	}
	return n.abs(g, x)
}

// Captions embeds words.
func (n *vsepp) Captions(g *graph.Graph, c Captions) *graph.Node {
	return n.abs(g, n.Text.Forward(g, c))
}

func (n *vsepp) abs(g *graph.Graph, x *graph.Node) *graph.Node {
	if n.opt.UseAbs {
		return g.Activate(device.Abs, x)
	}
	return x
}

// DotProduct implements Embedder.
func (n *vsepp) DotProduct() bool { return n.opt.Measure != "order" }

// Scores implements Embedder: dot products or order violations.
func (n *vsepp) Scores(g *graph.Graph, images, captions *graph.Node) *graph.Node {
	if n.DotProduct() {
		return g.MatMulT(images, captions, true)
	}
	return g.OrderScores(images, captions)
}

// lastState is the text encoder of VSE++ and VSRN:
//
//	c = l2(GRU(embed(w_1 … w_L)))    state after the last word, [B, E]
type lastState struct {
	Embed nn.Embedding `param:"embed"`
	RNN   nn.GRU       `param:"rnn"`
}

func newLastState(vocab, word, embed int) lastState {
	return lastState{Embed: nn.NewEmbedding(vocab, word), RNN: nn.NewGRU(word, embed)}
}

// Forward embeds captions.
func (t *lastState) Forward(g *graph.Graph, c Captions) *graph.Node {
	return g.L2Norm(t.RNN.Final(g, t.Embed.Forward(g, c.Words, c.Lengths), c.Lengths), 1, 0)
}
