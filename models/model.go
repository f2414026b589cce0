package models

import (
	"fmt"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/graph"
	"vsetrain/internal/compute/par"
	"vsetrain/models/nn"
)

// Model is a network with its parameters on a device. Training (package train) and evaluation (Runner) compile its
// graphs and run them; a Feeder sets their inputs.
type Model struct {
	Network  Network
	Options  Options
	Dims     Dims
	Instance *graph.Instance
	Words    *Words // where the word vectors began; nil where they were drawn
}

// NewModel builds a network and allocates its parameters, zeroed, on a device.
func NewModel(dev device.Device, o Options, d Dims) (*Model, error) {
	n, err := newNetwork(o, d)
	if err != nil {
		return nil, err
	}
	return newModel(dev, n, o, d)
}

func newModel(dev device.Device, n Network, o Options, d Dims) (*Model, error) {
	s, err := graph.NewInstance(dev, specs(n))
	if err != nil {
		return nil, fmt.Errorf("network %s: %w", o.Network, err)
	}
	return &Model{Network: n, Options: o, Dims: d, Instance: s}, nil
}

// Init draws all parameters from the seed, with all threads of pool (nil is the caller alone). The values depend on the
// seed and the names alone.
func (m *Model) Init(seed uint64, pool *par.Pool) {
	buf := make([]float32, nn.FillPiece)
	for _, p := range m.Network.Params() {
		v := m.Instance.Params.Value(p.Name)
		for lo := 0; lo < v.N; lo += len(buf) {
			piece := buf[:min(len(buf), v.N-lo)]
			p.Fill(piece, lo, seed, pool)
			m.Instance.Dev.UploadFloats(v.Slice(lo, lo+len(piece)), piece)
		}
	}
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
