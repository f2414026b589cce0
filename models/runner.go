package models

import (
	"fmt"

	"vsetrain/batch"
	"vsetrain/internal/compute/graph"
)

// Runner runs a network in evaluation mode, with an EmbedRunner or a PairRunner, and keeps the programs that it
// compiles. Only one goroutine may use it at a time.
type Runner struct {
	Model  *Model
	Embeds *EmbedRunner // nil if the network scores pairs
	Pairs  *PairRunner  // nil if it embeds
}

// NewRunner returns the runner of a model. r is the part of a split that stays on the device; it may be nil.
func NewRunner(m *Model, r *Resident) *Runner {
	feeder := NewFeeder(m, r, false)
	feeder.evaluates = true
	if p, ok := m.PairScorer(); ok {
		return &Runner{Model: m, Pairs: &PairRunner{Model: m, net: p, Resident: r, feeder: feeder,
			images: map[int]*encoder{}, captions: map[[2]int]*encoder{}, tiles: map[tileShape]*encoder{}}}
	}
	return &Runner{Model: m, Embeds: &EmbedRunner{Model: m, net: m.Embedder(), Resident: r,
		feeder: feeder, images: map[int]*encoder{}, captions: map[[2]int]*encoder{},
		scores: map[[2]int]*encoder{}}}
}

// EmbedRunner embeds images and captions with an Embedder, and scores embeddings.
type EmbedRunner struct {
	Model    *Model
	Resident *Resident // what of the split is on the device; may be nil

	net      Embedder
	feeder   *Feeder
	images   map[int]*encoder    // by number
	captions map[[2]int]*encoder // by number and bucket
	scores   map[[2]int]*encoder // by numbers of images and captions
}

// Dim is the size of an embedding.
func (r *EmbedRunner) Dim() int { return r.Model.Options.EmbedDim }

// DotProduct reports whether the score of a pair is the dot product of its embeddings.
func (r *EmbedRunner) DotProduct() bool { return r.net.DotProduct() }

// Images embeds images: dst [N, E].
func (r *EmbedRunner) Images(dst []float32, b batch.Images) error {
	e, err := cached(r.Model, r.images, b.N, func(g *graph.Graph) *encoder {
		return results(r.net.Images(g, r.Model.ImageInputs(g, b.N).Regions))
	})
	if err != nil {
		return err
	}
	if err := r.feeder.Images(b); err != nil {
		return err
	}
	return r.Model.run(e, dst)
}

// Captions embeds captions: dst [N, E].
func (r *EmbedRunner) Captions(dst []float32, b batch.Captions) error {
	n, bucket := len(b.Lengths), Bucket(b.Longest())
	e, err := cached(r.Model, r.captions, [2]int{n, bucket}, func(g *graph.Graph) *encoder {
		return results(r.net.Captions(g, r.Model.CaptionInputs(g, n, bucket, 0)))
	})
	if err != nil {
		return err
	}
	if err := r.feeder.Captions(b); err != nil {
		return err
	}
	return r.Model.run(e, dst)
}

// Scores computes the scores of ni images and nc captions from their embeddings [ni, E], [nc, E] → dst [ni, nc].
func (r *EmbedRunner) Scores(dst, images, captions []float32, ni, nc int) error {
	const inImages, inCaptions = "in.image_embeddings", "in.caption_embeddings"
	e, err := cached(r.Model, r.scores, [2]int{ni, nc}, func(g *graph.Graph) *encoder {
		return results(r.net.Scores(g, g.Input(inImages, ni, r.Dim()), g.Input(inCaptions, nc, r.Dim())))
	})
	if err != nil {
		return err
	}
	if err := r.Model.Instance.Feed(inImages, images); err != nil {
		return err
	}
	if err := r.Model.Instance.Feed(inCaptions, captions); err != nil {
		return err
	}
	return r.Model.run(e, dst)
}

// RegionEncoder is a network that computes region features in the space of the embeddings. The products of the
// features with the embedding of the image show which regions the network attends to.
type RegionEncoder interface {
	Embedder
	// ImagesAndRegions embeds regions [B, R·D] as Images does, and returns the features of the regions [B, R, E] after
	// the reasoning.
	ImagesAndRegions(g *graph.Graph, regions *graph.Node) (images, features *graph.Node)
}

// Regions embeds images with a RegionEncoder: images [N, E] and the features of their regions [N, R, E].
func (r *EmbedRunner) Regions(images, features []float32, b batch.Images) error {
	m := r.Model
	net, ok := r.net.(RegionEncoder)
	if !ok {
		return fmt.Errorf("network %s has no features of regions in the space of its embeddings; vsrn has",
			m.Options.Network)
	}
	e, err := m.compile(func(g *graph.Graph) *encoder {
		return results(net.ImagesAndRegions(g, m.ImageInputs(g, b.N).Regions))
	})
	if err != nil {
		return err
	}
	if err := r.feeder.Images(b); err != nil {
		return err
	}
	return m.run(e, images, features)
}
