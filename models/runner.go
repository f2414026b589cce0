package models

import (
	"fmt"

	"vsetrain/batch"
	"vsetrain/internal/compute/graph"
)

// Runner runs a network in evaluation mode: an EmbedRunner or a PairRunner, whichever the network is. It keeps the
// programs it has compiled. It is used by one goroutine at a time.
type Runner struct {
	Model  *Model
	Embeds *EmbedRunner // nil if the network scores pairs
	Pairs  *PairRunner  // nil if it embeds
}

// NewRunner returns the runner of a model for a split of which r stays on the device; nil is nothing.
func NewRunner(m *Model, r *Resident) *Runner {
	feeder := NewFeeder(m, r, false)
	feeder.evaluates = true
	if p, ok := m.PairScorer(); ok {
		return &Runner{Model: m, Pairs: &PairRunner{Model: m, net: p, Resident: r, feeder: feeder,
			images: map[int]*pairEncoder{}, captions: map[[2]int]*pairEncoder{}, tiles: map[tileShape]*encoder{}}}
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
	e, err := cached(r.Model, r.images, b.N, func(g *graph.Graph) *graph.Node {
		return r.net.Images(g, r.Model.ImageInputs(g, b.N).Regions)
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
	e, err := cached(r.Model, r.captions, [2]int{n, bucket}, func(g *graph.Graph) *graph.Node {
		return r.net.Captions(g, r.Model.CaptionInputs(g, n, bucket, 0))
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
	e, err := cached(r.Model, r.scores, [2]int{ni, nc}, func(g *graph.Graph) *graph.Node {
		return r.net.Scores(g, g.Input(inImages, ni, r.Dim()), g.Input(inCaptions, nc, r.Dim()))
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

// RegionEncoder is a network that sees an image as features of its regions in the space of the embeddings, VSRN: their
// products with the embedding show which regions it attends to.
type RegionEncoder interface {
	Embedder
	// ImagesAndRegions embeds regions [B, R·D] as Images does, and returns the features of the regions [B, R, E] after
	// the reasoning.
	ImagesAndRegions(g *graph.Graph, regions *graph.Node) (images, features *graph.Node)
}

// Regions embeds images of a RegionEncoder, and returns the features of their regions: images [N, E], features
// [N, R, E].
func (r *EmbedRunner) Regions(images, features []float32, b batch.Images) error {
	m := r.Model
	net, ok := r.net.(RegionEncoder)
	if !ok {
		return fmt.Errorf("network %s has no features of regions in the space of its embeddings; vsrn has",
			m.Options.Network)
	}
	g := m.Instance.Graph()
	var prog *graph.Program
	var out [2]*graph.Node
	err := graph.Build(func() (err error) {
		out[0], out[1] = net.ImagesAndRegions(g, m.ImageInputs(g, b.N).Regions)
		prog, err = graph.Compile(m.Instance, g, out[:], nil)
		return err
	})
	if err != nil {
		return m.explain(err)
	}
	if err := r.feeder.Images(b); err != nil {
		return err
	}
	if err := prog.RunAll(); err != nil {
		return m.explain(err)
	}
	for i, dst := range [][]float32{images, features} {
		v := prog.View(out[i])
		if len(dst) != v.N {
			return fmt.Errorf("network %s: %d values, expected at most %d", m.Options.Network, v.N, len(dst))
		}
		m.Instance.Dev.DownloadFloats(dst, v)
	}
	return nil
}
