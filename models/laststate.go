package models

import (
	"vsetrain/internal/compute/graph"
	"vsetrain/models/nn"
)

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
