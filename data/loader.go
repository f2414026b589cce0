package data

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"vsetrain/batch"
	"vsetrain/data/text"
)

// LoaderOptions says which batches a loader delivers and how it prefetches them.
type LoaderOptions struct {
	Batch int // pairs in a batch; at least 1

	Seed     uint64 // of the permutations
	Shuffle  bool   // a new permutation each epoch; else file order
	DropLast bool   // leave out the incomplete batch at the end of an epoch
	Epochs   int    // number of epochs, those before StartEpoch included; 0 never ends
	Captions int    // number of captions to train on, from the first; 0 is all

	Repeat int // number of batches of epoch 0 to repeat (Sampler.Repeat); 0 is all batches

	StartEpoch, StartIter int // position of the first batch

	// Rank is the rank whose images a batch has, from 0 to Ranks-1 (Batch); 0 ranks are one.
	Rank, Ranks int

	// Fields are the fields of the batches besides words and indices. nil is FieldFeatures, FieldBoxes and
	// FieldSemantics, if the split has them. Leave out what is in device memory: it need not be read.
	Fields []Field
	// Boxes are the boxes of image batches; nil is the images' own, divided once.
	Boxes *StoredBoxes

	// Stages are memory for the features of batches: Prefetch+1 stages of Batch·R·D values each, float16 if the
	// features are. Without stages the loader allocates memory. Only loaders of training batches use them.
	Stages []batch.Stage

	Workers  int // goroutines that assemble batches; 0 is 2
	Prefetch int // batches assembled ahead of the oldest batch that is not released; 0 is Workers+1
}

func (o *LoaderOptions) setDefaults() error {
	if o.Batch < 1 || o.Workers < 0 || o.Prefetch < 0 || o.StartEpoch < 0 || o.StartIter < 0 || o.Epochs < 0 {
		return fmt.Errorf("data: loader of batch %d, workers %d, ahead %d, epochs %d, from epoch %d iteration %d: "+
			"batch must be at least 1, the others not negative",
			o.Batch, o.Workers, o.Prefetch, o.Epochs, o.StartEpoch, o.StartIter)
	}
	if o.Rank < 0 || o.Rank >= max(1, o.Ranks) {
		return fmt.Errorf("data: rank %d of %d", o.Rank, o.Ranks)
	}
	o.Workers = cmp.Or(o.Workers, 2)
	o.Prefetch = cmp.Or(o.Prefetch, o.Workers+1)
	if n := len(o.Stages); n != 0 && n != o.Prefetch+1 {
		return fmt.Errorf("data: %d stages for %d batches", n, o.Prefetch+1)
	}
	return nil
}

// checkStages returns an error for the first stage without room for a batch.
func (o *LoaderOptions) checkStages(s *Split) error {
	want := o.Batch * s.regions * s.dim
	for _, x := range o.Stages {
		have := len(x.Floats())
		if s.HalfFeatures() {
			have = len(x.Halves())
		}
		if have < want {
			return fmt.Errorf("data: a stage has room for %d values, expected %d (float16: %t)", have, want,
				s.HalfFeatures())
		}
	}
	return nil
}

// Field is a part of a batch that a loader reads or computes.
type Field string

// The fields. Augmentation and DecayedBoxes belong to training batches.
const (
	FieldFeatures  Field = "features"  // Batch.Images
	FieldBoxes     Field = "boxes"     // Batch.Boxes
	FieldSemantics Field = "semantics" // Batch.Semantics
	// FieldAugmentation drops 20 % of the regions and masks, replaces or drops 20 % of the words of every pair, with
	// new draws each epoch (VSE-infinity). It sets Batch.Counts, and without FieldFeatures Batch.RegionRows. See
	// text.AugmentIDs.
	FieldAugmentation Field = "augmentation"
	// FieldDecayedBoxes, in place of FieldBoxes, are boxes that every use of the image since the beginning of training
	// divided by the size of the picture, as in GSMN's loader (quirk Q9).
	FieldDecayedBoxes Field = "decayed boxes"
)

// has reports whether the batches have a field.
func (o *LoaderOptions) has(f Field) bool {
	if o.Fields == nil {
		return f == FieldFeatures || f == FieldBoxes || f == FieldSemantics
	}
	return slices.Contains(o.Fields, f)
}

// Loader assembles batches in background goroutines and delivers them in order. Only one goroutine may use it.
type Loader struct {
	split   *Split
	vocab   text.Tokenizer // nil for image batches
	opts    LoaderOptions
	batches int // per epoch
	items   func(epoch, iter int) []int32
	sampler *Sampler // nil for passes over a split
	images  bool     // deliver the fields of images
	end     int      // first position that is not delivered; -1 if there is no end

	mu   sync.Mutex
	next int // position that a worker takes next; position = epoch*batches + iter

	free  chan *Batch
	ready []chan *Batch // ring: position p is delivered in ready[p % len]
	stop  chan struct{}
	done  sync.WaitGroup

	at     int // position that Next delivers next
	held   int // batches delivered and not released
	failed error
}

// NewLoader returns a loader of training batches: captions in sampler order, each with its image and semantic vector.
func NewLoader(s *Split, v text.Tokenizer, o LoaderOptions) (*Loader, error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	if v == nil {
		return nil, errors.New("data: a loader of captions needs a vocabulary")
	}
	if err := errors.Join(s.fits(v), o.checkStages(s)); err != nil {
		return nil, err
	}
	if o.has(FieldAugmentation) && s.words != nil {
		return nil, fmt.Errorf("data: %s: stored word ids cannot be augmented; augmentation draws from the words of "+
			"the captions", s.words.path)
	}
	if o.Captions < 0 || o.Captions > s.NumCaptions() {
		return nil, fmt.Errorf("data: the first %d captions of %d", o.Captions, s.NumCaptions())
	}
	sampler, err := NewSampler(cmp.Or(o.Captions, s.NumCaptions()), o.Batch, o.Seed, o.Shuffle, o.DropLast)
	if err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	if s.arrange != nil {
		sampler.arrange = func(order []int32) []int32 { return s.arrange(order, o.Batch) }
	}
	if o.Repeat != 0 {
		if err := sampler.Repeat(o.Repeat); err != nil {
			return nil, fmt.Errorf("data: %w", err)
		}
	}
	if least := sampler.smallest(); o.Ranks > least {
		return nil, fmt.Errorf("data: a batch has %d pairs, fewer than the %d ranks; expected one for each: choose a "+
			"larger train.batch, drop the last batch of an epoch with train.drop_last, or start fewer ranks",
			least, o.Ranks)
	}
	l := &Loader{split: s, vocab: v, opts: o, batches: sampler.BatchesPerEpoch(), items: sampler.Batch,
		sampler: sampler, images: true}
	return l.start()
}

// start launches the workers.
func (l *Loader) start() (*Loader, error) {
	o := &l.opts
	if o.StartIter > l.batches {
		return nil, fmt.Errorf("data: iteration %d of an epoch of %d batches; the data set or the batch size has "+
			"changed since the start of the run", o.StartIter, l.batches)
	}
	l.at = o.StartEpoch*l.batches + o.StartIter
	l.next, l.end = l.at, -1
	if o.Epochs > 0 {
		l.end = o.Epochs * l.batches
	}
	buffers := o.Prefetch + 1
	l.free, l.stop = make(chan *Batch, buffers), make(chan struct{})
	l.ready = make([]chan *Batch, buffers)
	for i := range l.ready {
		l.ready[i] = make(chan *Batch, 1)
		b := &Batch{Full: o.Batch, Rank: o.Rank, Ranks: o.Ranks}
		if len(o.Stages) > 0 {
			b.Stage = o.Stages[i]
		}
		l.free <- b
	}
	for range o.Workers {
		l.done.Go(l.work)
	}
	return l, nil
}

// work assembles one batch after another. It takes a position only after a buffer, so the positions that are taken and
// not yet delivered never exceed the ring.
func (l *Loader) work() {
	var w worker
	if l.vocab != nil {
		w.encoder = l.vocab.NewEncoder()
	}
	if l.opts.has(FieldAugmentation) {
		w.aug = newAugmenter(l.opts.Seed)
	}
	for {
		var b *Batch
		select {
		case <-l.stop:
			return
		case b = <-l.free:
		}
		l.mu.Lock()
		p := l.next
		if l.end >= 0 && p >= l.end {
			l.mu.Unlock()
			return
		}
		l.next++
		l.mu.Unlock()
		b.Epoch, b.Iter = p/l.batches, p%l.batches
		b.err = w.assemble(l, b, l.items(b.Epoch, b.Iter))
		l.ready[p%len(l.ready)] <- b
	}
}

// BatchesPerEpoch returns the number of iterations of an epoch.
func (l *Loader) BatchesPerEpoch() int { return l.batches }

// Next returns the next batch, or io.EOF after the last one. At most Prefetch+1 batches may be unreleased at a time.
// Batch.Wait is how long Next waited.
func (l *Loader) Next() (*Batch, error) {
	if l.failed != nil {
		return nil, l.failed
	}
	if l.end >= 0 && l.at >= l.end {
		return nil, io.EOF
	}
	if l.held == len(l.ready) {
		return nil, fmt.Errorf("data: %d batches are in use; release one before asking for the next", l.held)
	}
	var b *Batch
	var wait time.Duration
	ready := l.ready[l.at%len(l.ready)]
	select {
	case b = <-ready:
	default:
		began := time.Now()
		select {
		case b = <-ready:
		case <-l.stop:
			return nil, errors.New("data: the loader is closed")
		}
		wait = time.Since(began)
	}
	if l.failed = b.err; b.err != nil {
		return nil, b.err
	}
	b.Wait = wait
	l.at++
	l.held++
	return b, nil
}

// Release returns a batch to the loader for reuse.
func (l *Loader) Release(b *Batch) {
	l.held--
	l.free <- b
}

// Close stops the workers and waits for them. The split stays open.
func (l *Loader) Close() {
	select {
	case <-l.stop:
	default:
		close(l.stop)
	}
	l.done.Wait()
	if l.failed == nil {
		l.failed = errors.New("data: the loader is closed")
	}
}
