package models

import (
	"fmt"

	"vsetrain/internal/compute/graph"
)

// encoder is a compiled evaluation graph for one shape.
type encoder struct {
	prog *graph.Program
	out  *graph.Node
}

// cached returns the program of a shape, which build adds to a graph if there is none yet.
func cached[K comparable](m *Model, programs map[K]*encoder, shape K, build func(*graph.Graph) *graph.Node) (*encoder,
	error) {
	if e := programs[shape]; e != nil {
		return e, nil
	}
	g := m.Instance.Graph()
	e, err := m.compile(g, func() *graph.Node { return build(g) })
	if err == nil {
		programs[shape] = e
	}
	return e, err
}

func (m *Model) compile(g *graph.Graph, build func() *graph.Node) (*encoder, error) {
	e := &encoder{}
	err := graph.Build(func() error {
		e.out = build()
		var err error
		e.prog, err = graph.Compile(m.Instance, g, []*graph.Node{e.out}, nil)
		return err
	})
	return e, m.explain(err)
}

func (m *Model) run(e *encoder, dst []float32) error {
	if err := e.prog.RunAll(); err != nil {
		return m.explain(err)
	}
	v := e.prog.View(e.out)
	if len(dst) != v.N {
		return fmt.Errorf("network %s: embeddings have %d values, expected at most %d", m.Options.Network, v.N,
			len(dst))
	}
	m.Instance.Dev.DownloadFloats(dst, v)
	return m.Instance.Dev.Sync()
}
