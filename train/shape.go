package train

import (
	"strings"

	"vsetrain/internal/compute/graph"
	"vsetrain/models"
)

// shape identifies a training graph.
type shape struct {
	models.Shape
	semantic int  // length of the semantic vectors that the loss reads, 0 if it reads none
	sum      bool // sum over all violations instead of the hardest (warm-up)
}

// embedded are the embeddings [n, E] of pairs, and the loss of a captioning branch, nil without one.
type embedded struct{ images, captions, captioning *graph.Node }

// embed adds an Embedder to a graph. With several ranks, the encoder with fewer parameters comes first, while the
// other's parameters are gathered.
func embed(g *graph.Graph, m *models.Model, sh models.Shape) (e embedded) {
	net := m.Embedder()
	captions := func() { e.captions = net.Captions(g, m.CaptionInputs(g, sh.N, sh.Bucket, 0)) }
	first := !g.Shard.Alone() && firstEncoder(m.Instance.Params) == textEncoder
	if first {
		captions()
	}
	regions := m.ImageInputs(g, sh.N).Regions
	if c, ok := net.(models.Captioner); ok {
		labels := m.LabelInputs(g, sh.N, labelSteps(sh.Bucket, c.MaxLength()))
		e.images, e.captioning = c.ImagesAndLoss(g, regions, labels)
	} else {
		e.images = net.Images(g, regions)
	}
	if !first {
		captions()
	}
	return e
}

// Prefixes of the names of the encoders' parameters.
const (
	imageEncoder = "img."
	textEncoder  = "txt."
)

// firstEncoder is the encoder with fewer parameters.
func firstEncoder(p *graph.Params) string {
	text := 0
	for _, s := range p.Specs {
		if !s.State && strings.HasPrefix(s.Name, textEncoder) {
			text += s.Size()
		}
	}
	if 2*text < p.Count() {
		return textEncoder
	}
	return imageEncoder
}

// labelSteps returns the largest number of steps in a graph for captions in a bucket.
func labelSteps(bucket, maxLength int) int { return min(bucket, maxLength-1) }
