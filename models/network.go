package models

import (
	"slices"
	"strings"

	"vsetrain/internal/compute/graph"
	"vsetrain/models/nn"
)

// Dims are the sizes that come from the data.
type Dims struct {
	Regions int // R, 36
	Feature int // D, 2048
	Vocab   int // V, special words included
	// Counted says that images may have fewer than R regions (InputRegionCounts). No weight depends on it.
	Counted bool `json:"-"`
}

// Captions are the inputs of a text encoder: word ids [B, L] and lengths [B] in descending order.
type Captions struct {
	Words, Lengths *graph.Node
	// Capacity is the number of rows of values with a row per word, at least Σ lengths; 0 is B·L.
	Capacity int
	// Edges are the dependencies between words, pairs of positions in a caption, int32 [capacity, 2]. Caption c has the
	// pairs from EdgeStart[c] to EdgeStart[c+1]; EdgeStart is int32 [B + 1]. Both are nil unless Traits.ReadsEdges.
	Edges, EdgeStart *graph.Node
}

// capacity returns the number of rows of values with a row per word.
func (c Captions) capacity() int {
	if c.Capacity > 0 {
		return c.Capacity
	}
	return graph.Dim(c.Words, 0) * graph.Dim(c.Words, 1)
}

// Network is the common part of Embedder and PairScorer: the stored parameters, with the names of the reference's
// checkpoints.
type Network interface {
	// Params returns the parameters in a fixed order, named PART.NAME with PART one of Parts.
	Params() []*nn.Param
	// Parts are the state dicts of a reference checkpoint, in its order: "img", "txt", ... Parameters of other parts
	// serve training only.
	Parts() []string
}

// collected implements Network for the networks that embed it.
type collected struct {
	params []*nn.Param
	parts  []string
}

// collect collects the parameters of a network, a pointer to its struct.
func (c *collected) collect(network any, parts ...string) {
	c.params, c.parts = nn.Collect(network), parts
}

func (c *collected) Params() []*nn.Param { return c.params }
func (c *collected) Parts() []string     { return c.parts }

// trainingOnly reports whether no part of a reference checkpoint holds a parameter.
func trainingOnly(n Network, param string) bool {
	part, _, _ := strings.Cut(param, ".")
	return !slices.Contains(n.Parts(), part)
}

// Embedder is a network whose scores are a function of one embedding per image and one per caption.
type Embedder interface {
	Network
	// Images embeds regions [B, R·D]: [B, E].
	Images(g *graph.Graph, regions *graph.Node) *graph.Node
	// Captions embeds captions: [B, E].
	Captions(g *graph.Graph, c Captions) *graph.Node
	// DotProduct reports whether the score of a pair is the dot product of its embeddings.
	DotProduct() bool
	// Scores returns the similarity of every image with every caption: [Bi, Bc].
	Scores(g *graph.Graph, images, captions *graph.Node) *graph.Node
}

// dotProduct scores pairs by the dot product of their embeddings. An Embedder may embed it.
type dotProduct struct{}

func (dotProduct) DotProduct() bool { return true }

func (dotProduct) Scores(g *graph.Graph, images, captions *graph.Node) *graph.Node {
	return g.MatMulT(images, captions, true)
}

// Captioner is a network that also writes a caption for every image in training and learns from it.
type Captioner interface {
	Embedder
	// ImagesAndLoss embeds regions as Images does. It also returns the loss of the captioning branch, which is added to
	// the loss of retrieval.
	ImagesAndLoss(g *graph.Graph, regions *graph.Node, l Labels) (images, loss *graph.Node)
	// MaxLength is the length of the longest caption that the branch writes, <start> and <end> included.
	MaxLength() int
}

// Labels are the inputs of a captioning branch, int32: step t of caption b, of Steps[b], sees the word Words[b, t] and
// predicts Words[b, t+1] with the weight Mask[b, t+1] (KunpengLi1994/VSRN, misc/utils.py: LanguageModelCriterion).
type Labels struct {
	Words, Mask *graph.Node // [B, S+1]
	Steps       *graph.Node // [B], in descending order
	// Lengths [B] are the numbers of steps of the captions if Steps is the same for all; the steps after them are
	// masked. Otherwise it is nil.
	Lengths *graph.Node
}

// specs describes parameters for package graph.
func specs(params []*nn.Param) []graph.ParamSpec {
	var out []graph.ParamSpec
	for _, p := range params {
		out = append(out, graph.ParamSpec{Name: p.Name, Shape: p.Shape, State: p.State, Twice: p.Twice, Group: p.Group,
			Within: p.Within})
	}
	return out
}
