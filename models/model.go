package models

import (
	"fmt"
	"slices"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/graph"
	"vsetrain/internal/compute/par"
	"vsetrain/internal/files/runfs"
	"vsetrain/models/nn"
)

// Model is a network with its parameters on a device. Training (package train) and evaluation (Runner) compile its
// graphs and run them; a Feeder sets their inputs.
type Model struct {
	Network  Network
	Options  Options
	Dims     Dims
	Instance *graph.Instance
	Words    *Words            // where the word vectors began; nil where they were drawn
	Noise    *runfs.NoiseIndex // of the training captions; nil where every caption has its image
	Mined    string            // SHA-256 of the mined negatives of its training, "" without
	learned  []*nn.Param
}

// NewModel builds a network and allocates its parameters, zeroed, on a device. learned are parameters beside the
// parameters of the network, which its loss learns (Learned).
func NewModel(dev device.Device, o Options, d Dims, learned ...*nn.Param) (*Model, error) {
	n, err := newNetwork(o, d)
	if err != nil {
		return nil, err
	}
	return newModel(dev, n, o, d, learned...)
}

func newModel(dev device.Device, n Network, o Options, d Dims, learned ...*nn.Param) (*Model, error) {
	m := &Model{Network: n, Options: o, Dims: d, learned: learned}
	var err error
	if m.Instance, err = graph.NewInstance(dev, specs(m.Params())); err != nil {
		return nil, fmt.Errorf("network %s: %w", o.Network, err)
	}
	return m, nil
}

// LearnedPart begins the names of the parameters of a loss.
const LearnedPart = "loss."

// Learned is a scalar that a loss learns, with its name there, its value at first, and the range it is kept in.
func Learned(name string, start, least, most float64) *nn.Param {
	return &nn.Param{Name: LearnedPart + name, Shape: []int{1}, Init: nn.Constant(start),
		Within: &[2]float64{least, most}}
}

// Params returns all stored parameters: the parameters of the network, and after them what its loss learns.
func (m *Model) Params() []*nn.Param { return slices.Concat(m.Network.Params(), m.learned) }

// Init draws all parameters from the seed, with all threads of pool (nil is the caller alone). The values depend on the
// seed and the names alone.
func (m *Model) Init(seed uint64, pool *par.Pool) {
	buf := make([]float32, nn.FillPiece)
	for _, p := range m.Params() {
		v := m.Instance.Params.Value(p.Name)
		for lo := 0; lo < v.N; lo += len(buf) {
			piece := buf[:min(len(buf), v.N-lo)]
			p.Fill(piece, lo, seed, pool)
			m.Instance.Dev.UploadFloats(v.Slice(lo, lo+len(piece)), piece)
		}
	}
}

// upload sets a parameter.
func (m *Model) upload(p *nn.Param, values []float32) {
	m.Instance.Dev.UploadFloats(m.Instance.Params.Value(p.Name), values)
}

// StartWords sets the vectors of words: rows [V] of W values each, nil for a word that keeps what was drawn.
func (m *Model) StartWords(rows [][]float32, from Words) error {
	p, err := wordsOf(m.Network)
	if err != nil {
		return err
	}
	size := p.Shape[1]
	if len(rows) != p.Shape[0] {
		return fmt.Errorf("vectors of %d words, the network has %d", len(rows), p.Shape[0])
	}
	table := m.Instance.Params.Value(wordTable)
	for i, row := range rows {
		if row != nil {
			m.Instance.Dev.UploadFloats(table.Slice(i*size, (i+1)*size), row)
		}
	}
	m.Words = &from
	return nil
}

// Embedder returns the network as an Embedder. Only a model whose network is one may be asked to embed.
func (m *Model) Embedder() Embedder {
	e, ok := m.Network.(Embedder)
	if !ok {
		graph.Failf("network %s scores pairs, it does not embed", m.Options.Network)
	}
	return e
}

// PairScorer returns the network as a PairScorer, and whether it is one.
func (m *Model) PairScorer() (PairScorer, bool) {
	p, ok := m.Network.(PairScorer)
	return p, ok
}

// explain names the network in an error of its graphs.
func (m *Model) explain(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("network %s: %w", m.Options.Network, err)
}
