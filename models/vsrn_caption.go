package models

// The captioning branch of VSRN is used in training only (KunpengLi1994/VSRN, misc/EncoderRNN.py, DecoderRNN.py,
// Attention.py, utils.py LanguageModelCriterion). With the region features G [B, R, E], dropout (VSRNOptions.Dropout)
// and H = VSRNOptions.Hidden:
//
//	U = GRU(drop(G Wᵀ + b))          states u_1 … u_R over the regions, last state h_0
//	h_t = GRU([drop(embed(w_t)) ; drop(attend(U, h_t-1))], h_t-1)
//	loss = 1/B Σ_b Σ_t -log softmax(W_o h_t + b_o)[w_t+1]
//
// The reference runs max_len - 1 steps on every caption and masks the loss after the first <pad>. Masked steps affect
// neither the loss nor a gradient, so they are not computed: sequences are packed by their number of steps. Only on a
// device that records steps (device.Recorder) all sequences have the same number, because a recording cannot follow
// their lengths.

import (
	"vsetrain/internal/compute/graph"
	"vsetrain/models/nn"
)

// captionLength is max_len of the reference, <start> and <end> included.
const captionLength = 60

type captionBranch struct {
	hidden, length int
	dropout        float64
	Encoder        struct {
		Vid2Hid nn.Linear `param:"vid2hid"`
		RNN     nn.GRU    `param:"rnn"`
	} `param:"encoder"`
	Decoder struct {
		Embedding nn.Embedding `param:"embedding"`
		Attention struct {
			Linear1 nn.Linear `param:"linear1"`
			Linear2 nn.Linear `param:"linear2"` // without bias
		} `param:"attention"`
		RNN nn.GRU    `param:"rnn"`
		Out nn.Linear `param:"out"`
	} `param:"decoder"`
}

func newCaptionBranch(feature, hidden, word, vocab, length int, dropout float64) captionBranch {
	c := captionBranch{hidden: hidden, length: length, dropout: dropout}
	c.Encoder.Vid2Hid = nn.NewLinear(feature, hidden)
	c.Encoder.Vid2Hid.Weight.Init = nn.XavierNormal(feature, hidden)
	c.Encoder.RNN = nn.NewGRU(hidden, hidden)
	d := &c.Decoder
	d.Embedding = nn.NewEmbedding(vocab, word)
	d.Embedding.Weight.Init = nn.Normal(1)
	d.Attention.Linear1, d.Attention.Linear2 = nn.NewLinear(2*hidden, hidden), nn.NewLinear(hidden, 1)
	d.Attention.Linear2.Bias = nn.Param{}
	d.RNN = nn.NewGRU(word+hidden, hidden)
	d.Out = nn.NewLinear(hidden, vocab)
	d.Out.Weight.Init = nn.XavierNormal(hidden, vocab)
	return c
}

// Loss returns the scalar loss of the branch on the captions of B images with packed region features [R·B, E].
func (c *captionBranch) Loss(g *graph.Graph, features *graph.Node, l Labels) *graph.Node {
	o := &c.Decoder.Out
	return g.LinearCrossEntropy(c.states(g, features, l), o.Weight.Node(g), o.Bias.Node(g), l.Words, l.Mask, l.Steps)
}

// states returns the states of the decoder, packed by l.Steps: [B·(S+1), H].
func (c *captionBranch) states(g *graph.Graph, features *graph.Node, l Labels) *graph.Node {
	b := graph.Dim(l.Steps, 0)
	r := graph.Dim(features, 0) / b
	x := c.Encoder.Vid2Hid.Forward(g, features)
	counts := regionCounts(g, b, r)
	x = g.Dropout(x, g.RowIndices(r*b, graph.Packed, counts, nil), c.dropout, "caption encoder")
	u := c.Encoder.RNN.States(g, x, counts)
	last := g.SliceRows(u, (r-1)*b, r*b)
	u = g.SwapAxes(g.Reshape(u, r, b, c.hidden))

	d := &c.Decoder
	words := d.Embedding.Forward(g, l.Words, l.Steps)
	numbers := g.RowIndices(graph.Dim(words, 0), graph.Packed, l.Steps, l.Lengths)
	words = g.Dropout(words, numbers, c.dropout, "caption words")
	return g.AttentionGRU(words, u, last, l.Steps, numbers, graph.DecoderWeights{
		Attend: d.Attention.Linear1.Weight.Node(g), AttendBias: d.Attention.Linear1.Bias.Node(g),
		Score: d.Attention.Linear2.Weight.Node(g), WIH: d.RNN.WIH.Node(g), WHH: d.RNN.WHH.Node(g),
		BIH: d.RNN.BIH.Node(g), BHH: d.RNN.BHH.Node(g),
	}, c.dropout, "caption context")
}
