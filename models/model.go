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

// Model is a network with its parameters on a device. Package train and Runner compile and run its graphs; a Feeder
// sets their inputs.
type Model struct {
	Network  Network
	Options  Options
	Dims     Dims
	Instance *graph.Instance
	Words    *Words            // pretrained word vectors; nil if they were drawn
	Noise    *runfs.NoiseIndex // of the training captions; nil if every caption has its own image
	Mined    string            // SHA-256 of the mined negatives of the training; "" if there are none
	learned  []*nn.Param
}

// NewModel builds a network and allocates its parameters on a device, set to zero. learned are additional parameters
// that the loss learns (Learned).
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

// Learned returns a scalar that a loss learns, with its name in the loss, initial value, and range.
func Learned(name string, start, least, most float64) *nn.Param {
	return &nn.Param{Name: LearnedPart + name, Shape: []int{1}, Init: nn.Constant(start),
		Within: &[2]float64{least, most}}
}

// Params returns all stored parameters: the network's, then the loss's.
func (m *Model) Params() []*nn.Param { return slices.Concat(m.Network.Params(), m.learned) }

// Init draws all parameters with the threads of pool; nil is the calling goroutine. The values depend only on the seed
// and the names.
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

// StartWords sets the vectors of words: V rows of W values. A word whose row is nil keeps its drawn vector.
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

// Embedder returns the network as an Embedder, which it must be.
func (m *Model) Embedder() Embedder {
	e, ok := m.Network.(Embedder)
	if !ok {
		graph.Failf("network %s scores pairs, it does not embed", m.Options.Network)
	}
	return e
}

// PairScorer returns the network as a PairScorer and reports whether it is one.
func (m *Model) PairScorer() (PairScorer, bool) {
	p, ok := m.Network.(PairScorer)
	return p, ok
}

// explain adds the name of the network to an error; nil stays nil.
func (m *Model) explain(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("network %s: %w", m.Options.Network, err)
}
