package train

import (
	"vsetrain/internal/compute/graph"
	"vsetrain/models"
)

// shape is what a training graph depends on.
type shape struct {
	models.Shape
	semantic int  // length of the semantic vectors that the loss reads, 0 without
	sum      bool // sum over all violations instead of the hardest (warm-up)
}

// embedded are the embeddings [n, E] of pairs, and the loss of a captioning branch, nil without one.
type embedded struct{ images, captions, captioning *graph.Node }

// embed adds an Embedder to a graph.
func embed(g *graph.Graph, m *models.Model, sh models.Shape) (e embedded) {
	captions := m.CaptionInputs(g, sh.N, sh.Bucket, 0)
	net, regions := m.Embedder(), m.ImageInputs(g, sh.N).Regions
	if c, ok := net.(models.Captioner); ok {
		labels := m.LabelInputs(g, sh.N, labelSteps(sh.Bucket, c.MaxLength()))
		e.images, e.captioning = c.ImagesAndLoss(g, regions, labels)
	} else {
		e.images = net.Images(g, regions)
	}
	e.captions = net.Captions(g, captions)
	return e
}

// labelSteps is the largest number of steps in a graph of captions in a bucket.
func labelSteps(bucket, maxLength int) int { return min(bucket, maxLength-1) }
