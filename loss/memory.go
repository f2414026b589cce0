package loss

import (
	"vsetrain/internal/compute/graph"
	"vsetrain/internal/compute/philox"
)

// Memory is what a loss keeps on the host: what it draws for a step, and what it remembers of the steps before. What
// it draws is a function of the seed and the step.
type Memory interface {
	// Feed sets the inputs of a step on a batch. It changes nothing.
	Feed(s *graph.Instance, b *Batch) error
	// Take remembers what a step on a batch computed: the values of Context.Remember, one after the other. No values
	// are the values of a form that remembers nothing.
	Take(b *Batch, values []float64)
	// State are the numbers that a resumed run needs, by name; nil is none. What is read replaces them.
	State() map[string]*[]float64
}

// Batch is what the host knows of the batch of a step.
type Batch struct {
	N        int
	Full     int     // pairs of a full batch (train.batch), N at least: the last one of an epoch may have fewer
	Captions []int32 // number of the caption of each pair in its split
	Seed     uint64  // of the run
	Step     int64   // steps before it
	Epoch    int     // from 0
	Iter     int     // steps of its epoch before it
	WarmUp   bool    // the loss has its warm-up form
}

// caption is the number of the caption of pair i; a batch that does not know it numbers its pairs.
func (b *Batch) caption(i int) int {
	if len(b.Captions) == 0 {
		return i
	}
	return int(b.Captions[i])
}

// draws is the stream of random numbers of a step for a purpose.
func (b *Batch) draws(purpose string) *philox.Stream {
	return philox.NewKey(b.Seed, "loss "+purpose).Stream(uint64(b.Step))
}

// stateless is a memory that draws and remembers nothing: a function that sets the inputs of a step.
type stateless func(s *graph.Instance, b *Batch) error

func (f stateless) Feed(s *graph.Instance, b *Batch) error { return f(s, b) }
func (stateless) Take(*Batch, []float64)                   {}
func (stateless) State() map[string]*[]float64             { return nil }

// perCaption is a number for each caption, first where it was never set. It grows with the captions that are seen.
type perCaption struct {
	first  float64
	values []float64
}

func (p *perCaption) get(caption int) float64 {
	if caption < len(p.values) {
		return p.values[caption]
	}
	return p.first
}

func (p *perCaption) set(caption int, v float64) {
	for len(p.values) <= caption {
		p.values = append(p.values, p.first)
	}
	p.values[caption] = v
}

// of are the numbers of the captions of a batch.
func (p *perCaption) of(b *Batch) []float64 {
	out := make([]float64, b.N)
	for i := range out {
		out[i] = p.get(b.caption(i))
	}
	return out
}
