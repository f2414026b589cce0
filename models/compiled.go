package models

import (
	"fmt"
	"slices"

	"vsetrain/internal/compute/graph"
)

// encoder is a compiled evaluation graph for one shape.
type encoder struct {
	prog   *graph.Program
	values []*graph.Node // results with a row per image or caption
	words  []*graph.Node // results with a row per word
}

// cached returns the program of a shape. build adds it to a graph if there is none yet.
func cached[K comparable](m *Model, programs map[K]*encoder, shape K, build func(*graph.Graph) *encoder) (*encoder,
	error) {
	if e := programs[shape]; e != nil {
		return e, nil
	}
	e, err := m.compile(build)
	if err == nil {
		programs[shape] = e
	}
	return e, err
}

func (m *Model) compile(build func(*graph.Graph) *encoder) (e *encoder, err error) {
	g := m.Instance.Graph()
	err = graph.Build(func() (err error) {
		e = build(g)
		e.prog, err = graph.Compile(m.Instance, g, slices.Concat(e.values, e.words), nil)
		return err
	})
	return e, m.explain(err)
}

// results is an encoder of results with a row per image or caption.
func results(values ...*graph.Node) *encoder { return &encoder{values: values} }

// run runs a program and downloads its values.
func (m *Model) run(e *encoder, dst ...[]float32) error {
	if err := e.prog.RunAll(); err != nil {
		return m.explain(err)
	}
	for i, n := range e.values {
		v := e.prog.View(n)
		if len(dst[i]) != v.N {
			return fmt.Errorf("network %s: expected room for %d values, found room for %d", m.Options.Network, v.N,
				len(dst[i]))
		}
		m.Instance.Dev.DownloadFloats(dst[i], v)
	}
	return m.Instance.Dev.Sync()
}
