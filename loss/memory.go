package loss

import (
	"slices"

	"vsetrain/internal/compute/graph"
	"vsetrain/internal/compute/philox"
)

// Memory is the state of a loss on the host: what it draws for a step, and what it remembers of earlier steps. What it
// draws is a function of the seed and the step.
type Memory interface {
	// Feed sets the inputs of a step on a batch. It does not change the memory.
	Feed(s *graph.Instance, b *Batch) error
	// Take stores the values of Context.Remember after a step on a batch, concatenated. There are none if the form of
	// the loss remembers nothing.
	Take(b *Batch, values []float64)
	// State returns the numbers that a resumed run needs, by name; it may be nil. Restoring a run replaces them.
	State() map[string]*[]float64
}

// Batch is what the host knows about the batch of a step.
type Batch struct {
	N        int
	Full     int     // pairs of a full batch (train.batch), at least N: the last batch of an epoch may be smaller
	Captions []int32 // number of the caption of each pair in its split
	Seed     uint64  // of the run
	Step     int64   // number of earlier steps
	Epoch    int     // from 0
	Iter     int     // number of earlier steps in the epoch
	WarmUp   bool    // the loss has its warm-up form
}

// caption returns the number of the caption of pair i, or i if the batch does not have it.
func (b *Batch) caption(i int) int {
	if len(b.Captions) == 0 {
		return i
	}
	return int(b.Captions[i])
}

// draws returns the stream of random numbers of a step for a purpose.
func (b *Batch) draws(purpose string) *philox.Stream {
	return philox.NewKey(b.Seed, "loss "+purpose).Stream(uint64(b.Step))
}

// stateless is a memory that draws and remembers nothing: a function that sets the inputs of a step.
type stateless func(s *graph.Instance, b *Batch) error

func (f stateless) Feed(s *graph.Instance, b *Batch) error { return f(s, b) }
func (stateless) Take(*Batch, []float64)                   {}
func (stateless) State() map[string]*[]float64             { return nil }

// perCaption holds a number for each caption, initially first. It grows with the captions that are seen.
type perCaption struct {
	first  float64
	values []float64
}

func (p *perCaption) set(caption int, v float64) {
	for len(p.values) <= caption {
		p.values = append(p.values, p.first)
	}
	p.values[caption] = v
}

// of returns the numbers of the captions of a batch.
func (p *perCaption) of(b *Batch) []float64 {
	out := slices.Repeat([]float64{p.first}, b.N)
	for i := range out {
		if c := b.caption(i); c < len(p.values) {
			out[i] = p.values[c]
		}
	}
	return out
}
