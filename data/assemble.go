package data

import (
	"slices"

	"vsetrain/data/text"
)

// worker is the memory of one goroutine that assembles batches.
type worker struct {
	encoder text.Encoder
	items   []encoded
	aug     *augmenter // nil without size augmentation
	all     []int32    // 0, 1, 2, ..., for regions

	positions      []int32 // of every caption in the order of epoch positionsEpoch, for uses
	positionsEpoch int
	users          []int32 // captions of a row, for uses
}

// encoded is a caption of the batch and its word ids.
type encoded struct {
	caption int32
	words   []int32
}

// assemble fills b with the given captions, or with the given images when the loader has no vocabulary.
func (w *worker) assemble(l *Loader, b *Batch, items []int32) error {
	s := l.split
	b.N, b.L, b.Regions, b.Dim, b.SemanticDim = len(items), 0, s.regions, s.dim, 0
	b.FeatureRows, b.ImageIndices = resize(b.FeatureRows, b.N), resize(b.ImageIndices, b.N)
	if l.vocab != nil {
		w.encode(l, b, items)
		w.fill(s, b)
		readEdges(s, b)
		if err := l.readSemantics(b); err != nil {
			return err
		}
	} else {
		for i, image := range items {
			b.ImageIndices[i], b.FeatureRows[i] = image, int32(s.RowOf(int(image)))
		}
	}
	if !l.images {
		b.Features = b.Features[:0]
		return nil
	}
	w.keepOwn(s, b)
	if err := w.readBoxes(l, b); err != nil {
		return err
	}
	if w.aug != nil || s.counts != nil {
		b.Counts = resize(b.Counts, b.N)
	}
	if !l.opts.has(FieldFeatures) {
		b.Features = b.Features[:0]
		if b.Counts != nil {
			w.listRegions(s, b)
		}
		return nil
	}
	if b.Stage == nil {
		b.Features = resize(b.Features, b.N*s.regions*s.dim)
		n, err := readImages(w, s, b, b.Features, s.ReadImage)
		b.Features = b.Features[:n]
		return err
	}
	if x := b.Stage.Halves(); x != nil {
		_, err := readImages(w, s, b, x, s.ReadHalves)
		return err
	}
	_, err := readImages(w, s, b, b.Stage.Floats(), s.ReadImage)
	return err
}

// keepOwn keeps the images of the batch's rank, and finds the largest number of regions of an image of all ranks.
func (w *worker) keepOwn(s *Split, b *Batch) {
	if b.Ranks < 2 {
		return
	}
	b.MostRegions = 0
	for i, row := range b.FeatureRows {
		if w.aug != nil || s.counts != nil {
			b.MostRegions = max(b.MostRegions, int32(len(w.regions(s, b, row, i))))
		}
	}
	own := 0
	for i := b.Rank; i < b.N; i += b.Ranks {
		b.FeatureRows[own] = b.FeatureRows[i]
		own++
	}
	b.N, b.FeatureRows = own, b.FeatureRows[:own]
}

// regions returns the regions of pair i of a batch, whose image is a feature row, in ascending order: the regions that
// are not padding and that size augmentation keeps. The result is valid until the next call.
func (w *worker) regions(s *Split, b *Batch, row int32, i int) []int32 {
	n := regionCount(s, int(row))
	if w.aug != nil {
		return w.aug.keptRegions(n, b.Epoch, b.Indices[i])
	}
	if len(w.all) < n {
		w.all = upTo(n)
	}
	return w.all[:n]
}

// readImages reads the features of the regions of each image, one image after the other, and returns the number of
// values.
func readImages[T float32 | uint16](w *worker, s *Split, b *Batch, to []T, read func([]T, int) error) (int, error) {
	at, size := 0, s.regions*s.dim
	for i, row := range b.FeatureRows {
		x, n := to[at:at+size], s.regions
		if err := read(x, int(row)); err != nil {
			return at, err
		}
		if b.Counts != nil {
			n = keepRows(x, w.regions(s, b, row, b.pair(i)), s.dim)
			b.Counts[i] = int32(n)
		}
		at += n * s.dim
	}
	return at, nil
}

// listRegions lists the regions of each image.
func (w *worker) listRegions(s *Split, b *Batch) {
	b.RegionRows = b.RegionRows[:0]
	for i, row := range b.FeatureRows {
		kept := w.regions(s, b, row, b.pair(i))
		for _, r := range kept {
			b.RegionRows = append(b.RegionRows, row*int32(s.regions)+r)
		}
		b.Counts[i] = int32(len(kept))
	}
}

// encode tokenises the captions, augments them if asked, and sorts them by length, longest first. The sort is stable.
func (w *worker) encode(l *Loader, b *Batch, captions []int32) {
	b.ids, w.items = b.ids[:0], w.items[:0]
	for _, c := range captions {
		lo := len(b.ids)
		var words []int32
		if w.aug != nil {
			b.ids = w.encoder.AppendAugmented(b.ids, l.split.Caption(int(c)), w.aug.wordDraws(b.Epoch, c))
			words = b.ids[lo:]
		} else {
			b.ids, words, _, _ = l.split.wordsOf(b.ids, w.encoder, int(c))
		}
		w.items = append(w.items, encoded{c, words})
		b.L = max(b.L, len(words))
	}
	slices.SortStableFunc(w.items, func(x, y encoded) int { return len(y.words) - len(x.words) })
}

// fill lists the encoded captions in the batch.
func (w *worker) fill(s *Split, b *Batch) {
	b.Words, b.Lengths, b.Indices = b.Words[:0], b.Lengths[:0], resize(b.Indices, b.N)
	for i, e := range w.items {
		b.Add(e.words)
		c := int(e.caption)
		b.Indices[i] = e.caption
		b.FeatureRows[i], b.ImageIndices[i] = int32(s.ImageRow(c)), int32(s.ImageOf(c))
	}
}

func (l *Loader) readSemantics(b *Batch) error {
	s := l.split
	b.Semantics = b.Semantics[:0]
	if s.semantics == nil {
		return nil
	}
	k := s.SemanticDim()
	b.SemanticDim = k
	if !l.opts.has(FieldSemantics) {
		return nil
	}
	b.Semantics = resize(b.Semantics, b.N*k)
	for i, c := range b.Indices {
		if err := s.ReadSemantics(b.Semantics[i*k:(i+1)*k], int(c)); err != nil {
			return err
		}
	}
	return nil
}

func (w *worker) readBoxes(l *Loader, b *Batch) error {
	s := l.split
	b.Boxes = b.Boxes[:0]
	decayed := l.opts.has(FieldDecayedBoxes)
	if s.boxes == nil || !l.opts.has(FieldBoxes) && !decayed {
		return nil
	}
	size := 4 * s.regions
	b.Boxes = resize(b.Boxes, b.N*size)
	for i := range b.N {
		row, times := int(b.FeatureRows[i]), 1
		if decayed {
			times = w.uses(l, b, i)
		} else if l.opts.Boxes != nil {
			row, times = s.stored(int(b.ImageIndices[b.pair(i)]), l.opts.Boxes)
		}
		if err := s.readBoxes(b.Boxes[i*size:(i+1)*size], row, times); err != nil {
			return err
		}
	}
	return nil
}

// uses returns how often the reference has divided the boxes of pair i of a training batch (FieldDecayedBoxes).
func (w *worker) uses(l *Loader, b *Batch, i int) int {
	s := l.split
	if w.positionsEpoch != b.Epoch || w.positions == nil {
		w.positions, w.positionsEpoch = resize(w.positions, s.n), b.Epoch
		for at, c := range l.sampler.order(b.Epoch) {
			w.positions[c] = int32(at)
		}
	}
	last := w.positions[b.Indices[b.pair(i)]]
	if s.boxes.shared {
		last = int32((b.Iter+1)*l.opts.Batch - 1)
	}
	w.users = users(w.users[:0], s, int(b.FeatureRows[i]))
	n := b.Epoch * len(w.users)
	for _, c := range w.users {
		if w.positions[c] <= last {
			n++
		}
	}
	return n
}

func readEdges(s *Split, b *Batch) {
	b.Edges, b.EdgeStart = b.Edges[:0], b.EdgeStart[:0]
	if s.dependencies == nil {
		return
	}
	b.EdgeStart = append(b.EdgeStart, 0)
	for i, c := range b.Indices {
		e := s.dependencies.Of(int(c))
		for k := 0; k < len(e); k += 2 {
			if e[k] < b.Lengths[i] && e[k+1] < b.Lengths[i] {
				b.Edges = append(b.Edges, e[k], e[k+1])
			}
		}
		b.EdgeStart = append(b.EdgeStart, int32(len(b.Edges)/2))
	}
}
