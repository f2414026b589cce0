package models

import (
	"fmt"

	"vsetrain/internal/graph"
)

// RegionEncoder is a network that sees an image as features of its regions in the space of the embeddings, VSRN: their products with the
// embedding say which regions it attends to.
type RegionEncoder interface {
	Embedder
	// ImagesAndRegions embeds regions [B, R·D] as Images does, and returns the features of the regions [B, R, E] after the reasoning.
	ImagesAndRegions(g *graph.Graph, regions *graph.Node) (images, features *graph.Node)
}

// ImagesAndRegions implements RegionEncoder.
func (n *vsrn) ImagesAndRegions(g *graph.Graph, regions *graph.Node) (images, features *graph.Node) {
	return n.reason(g, regions)
}

// EncodeRegions embeds n images of a RegionEncoder: regions [n, R, D] → images [n, E] and features [n, R, E].
func (m *Model) EncodeRegions(images, features, regions []float32, n int) error {
	e, ok := m.Network.(RegionEncoder)
	if !ok {
		return fmt.Errorf("network %s has no features of regions in the space of its embeddings; vsrn has", m.Options.Network)
	}
	g := m.Session.Graph()
	var prog *graph.Program
	var out [2]*graph.Node
	err := graph.Build(func() (err error) {
		out[0], out[1] = e.ImagesAndRegions(g, m.RegionsNode(g, n))
		prog, err = graph.Compile(m.Session, g, out[:], nil)
		return err
	})
	if err != nil {
		return fmt.Errorf("network %s: %w", m.Options.Network, err)
	}
	if err := m.Session.Feed(InputRegions, regions); err != nil {
		return err
	}
	if err := prog.RunAll(); err != nil {
		return fmt.Errorf("network %s: %w", m.Options.Network, err)
	}
	for i, dst := range [][]float32{images, features} {
		v := prog.View(out[i])
		if len(dst) != v.N {
			return fmt.Errorf("network %s: %d values, room for %d", m.Options.Network, v.N, len(dst))
		}
		m.Session.Dev.DownloadFloats(dst, v)
	}
	return nil
}
