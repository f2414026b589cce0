package train

import (
	"vsetrain/internal/compute/graph"
	"vsetrain/models"
)

// shape is what a training graph depends on.
type shape struct {
	n, bucket, semantic int  // n pairs, of several ranks those of this one
	capacity            int  // of a PairScorer in words, 0 for other networks
	all, allCapacity    int  // n and capacity of all ranks
	sum                 bool // sum over all violations instead of the hardest (warm-up)
}

// embedded are the embeddings [n, E] of pairs, and the loss of a captioning branch, nil without one.
type embedded struct{ images, captions, captioning *graph.Node }

// embed adds an Embedder to a graph.
func embed(g *graph.Graph, m *models.Model, sh shape) (e embedded) {
	captions := m.CaptionInputs(g, sh.n, sh.bucket, 0)
	net, regions := m.Embedder(), m.ImageInputs(g, sh.n).Regions
	if c, ok := net.(models.Captioner); ok {
		e.images, e.captioning = c.ImagesAndLoss(g, regions, m.LabelInputs(g, sh.n, labelSteps(sh, c.MaxLength())))
	} else {
		e.images = net.Images(g, regions)
	}
	e.captions = net.Captions(g, captions)
	return e
}

// labelSteps is the largest number of steps in a graph.
func labelSteps(sh shape, maxLength int) int { return min(sh.bucket, maxLength-1) }
