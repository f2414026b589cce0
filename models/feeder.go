package models

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"vsetrain/batch"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/graph"
)

// Resident are the parts of a split that stay on a device. Other parts are copied with each batch.
type Resident struct {
	Device device.Resident
	// Features [rows, R·D] and Boxes [rows, R·4] of all rows of the feature file; Semantics [captions, k].
	Features, Boxes, Semantics device.Table
	// Words are the concatenated ids of all captions, int32. Caption c has the ids from Starts[c] to Starts[c+1];
	// Starts is int32 [captions + 1].
	Words, Starts device.View
}

// HasFeatures, HasBoxes and HasSemantics report which parts are resident. r may be nil.
func (r *Resident) HasFeatures() bool  { return r != nil && r.Features != nil }
func (r *Resident) HasBoxes() bool     { return r != nil && r.Boxes != nil }
func (r *Resident) HasSemantics() bool { return r != nil && r.Semantics != nil }

// Feeder sets the inputs of a network's graphs from batches. Resident parts of a split are read on the device by index;
// other values are copied from the batches. The slices of a batch must stay unchanged until the programs have run.
type Feeder struct {
	instance *graph.Instance
	network  string
	dims     Dims
	// bounds gives graphs only an upper bound of lengths and region counts (graph.Instance.FeedBounded), so that all
	// batches of one shape make the same calls.
	bounds        bool
	boxed, counts bool        // the network reads boxes, and counts of regions
	edges         bool        // the network reads dependencies
	pairs         bool        // the network is a PairScorer
	counter       countReader // the network, if it is a countReader
	evaluates     bool        // missing regions are never attended to
	positions     int         // longest caption in words, 0 without a limit

	features, boxes, semantics rows
	lists                      *Resident // the words on the device; nil if they are copied

	words, all, edgeList, edgeStart []int32 // staging
	limits                          [3][]int32
}

// NewFeeder returns the feeder of a model. r is the part of a split that stays on the device; it may be nil. With
// bounds, programs know only an upper bound of lengths and counts, as devices that record steps need.
func NewFeeder(m *Model, r *Resident, bounds bool) *Feeder {
	o := &m.Options
	t := o.Traits()
	if r == nil {
		r = &Resident{}
	}
	f := &Feeder{instance: m.Instance, network: o.Network, dims: m.Dims, bounds: bounds, boxed: t.Boxes,
		counts: t.SizeAugment || m.Dims.Counted, edges: t.ReadsEdges, features: rowsOf(r.Features),
		boxes: rowsOf(r.Boxes), semantics: rowsOf(r.Semantics)}
	f.counter, _ = m.Network.(countReader)
	_, f.pairs = m.Network.(PairScorer)
	if o.TextEncoder == TextBert {
		f.positions = o.Bert.Positions
	}
	if r.Words.Present() {
		f.lists = r
	}
	return f
}

// rows sets the beginning of a float input of n elements to count rows of a width: the values of a batch, or the rows
// of a table on the device with the given indices.
type rows interface {
	feed(s *graph.Instance, input string, values []float32, indices []int32, count, width, n int) error
}

func rowsOf(t device.Table) rows {
	if t == nil {
		return hostRows{}
	}
	return tableRows{t}
}

type hostRows struct{}

func (hostRows) feed(s *graph.Instance, input string, values []float32, _ []int32, count, width, n int) error {
	if len(values) != count*width {
		return fmt.Errorf("input %s: %d values, expected %d rows of %d", input, len(values), count, width)
	}
	return s.FeedPart(input, values, n)
}

type tableRows struct {
	table device.Table
}

func (t tableRows) feed(s *graph.Instance, input string, _ []float32, indices []int32, count, width, n int) error {
	if len(indices) != count {
		return fmt.Errorf("input %s: indices of %d rows, expected %d", input, len(indices), count)
	}
	return s.FeedRows(input, t.table, indices, width, n)
}

// ReadFeatures reads the features of batches that hold only the indices of their rows. read sets dst to the R·D values
// of a row of the feature file; several goroutines call it.
func (f *Feeder) ReadFeatures(read func(dst []float32, row int) error) {
	f.features = &fileRows{read: read, regions: f.dims.Regions, feature: f.dims.Feature}
}

// fileRows are rows of images or regions that are read when they are fed.
type fileRows struct {
	read             func(dst []float32, row int) error
	regions, feature int
	values           []float32
}

func (r *fileRows) feed(s *graph.Instance, input string, values []float32, indices []int32, count, width, n int) error {
	if len(values) > 0 {
		return hostRows{}.feed(s, input, values, indices, count, width, n)
	}
	if len(indices) != count {
		return fmt.Errorf("input %s: indices of %d rows, expected %d", input, len(indices), count)
	}
	r.values = slices.Grow(r.values[:0], n)[:count*width]
	size := r.regions * r.feature
	threads := min(runtime.GOMAXPROCS(0), max(1, n/shareOfReading))
	failed := make([]error, threads)
	var done sync.WaitGroup
	for t := range threads {
		lo, hi := count*t/threads, count*(t+1)/threads
		done.Go(func() {
			if width == size {
				for i := lo; i < hi && failed[t] == nil; i++ {
					failed[t] = r.read(r.values[i*size:(i+1)*size], int(indices[i]))
				}
				return
			}
			image, last := make([]float32, size), int32(-1)
			for i := lo; i < hi; i++ {
				row, region := indices[i]/int32(r.regions), int(indices[i])%r.regions
				if row != last {
					if failed[t] = r.read(image, int(row)); failed[t] != nil {
						return
					}
					last = row
				}
				copy(r.values[i*width:(i+1)*width], image[region*width:])
			}
		})
	}
	done.Wait()
	if err := errors.Join(failed...); err != nil {
		return err
	}
	return s.FeedPart(input, r.values, n)
}

// shareOfReading is the smallest number of values that a goroutine reads.
const shareOfReading = 1 << 18

// Pairs feeds the images and captions that a rank computes to graphs of their shape.
func (f *Feeder) Pairs(p *batch.Pairs, sh Shape) error {
	f.instance.SetPositions(p.Positions)
	if err := f.Images(p.Images); err != nil {
		return err
	}
	if err := f.Captions(p.Captions); err != nil {
		return err
	}
	if p.All != nil && f.pairs { // Model.SharedCaptions
		n := len(p.All.Lengths)
		if err := f.lengths(2, inputAllLengths, p.All.Lengths, f.longest(p.All.Longest()), wordUnit(n)); err != nil {
			return err
		}
	}
	return f.Edges(*p.Whole(), sh.AllCapacity)
}

// Images feeds regions, and the boxes and counts of regions if the network reads them.
func (f *Feeder) Images(b batch.Images) error {
	r, d := f.dims.Regions, f.dims.Feature
	counts, indices, count, width := b.Counts, b.FeatureRows, b.N, r*d
	if counts == nil {
		counts = f.whole(b.N)
	} else if !f.counts {
		return fmt.Errorf("feed images: different numbers of regions for network %s, which was built for %d each",
			f.network, r)
	} else {
		indices, count, width = b.RegionRows, 0, d
		for i, c := range counts {
			if c < 1 || int(c) > r {
				return fmt.Errorf("feed images: image %d has %d regions, expected 1 to %d", i, c, r)
			}
			count += int(c)
		}
		if len(counts) != b.N {
			return fmt.Errorf("feed images: %d counts of regions for %d images", len(counts), b.N)
		}
	}
	var err error
	if streamer, ok := device.As[device.Streamer](f.instance.Dev); ok && b.Stage != nil {
		err = f.instance.FeedStage(InputRegions, streamer, b.Stage, count*width, b.N*r*d)
	} else {
		err = f.features.feed(f.instance, InputRegions, b.Features, indices, count, width, b.N*r*d)
	}
	if err != nil {
		return fmt.Errorf("feed images: %w", err)
	}
	if f.boxed {
		if err := f.boxes.feed(f.instance, InputBoxes, b.Boxes, b.FeatureRows, b.N, 4*r, b.N*4*r); err != nil {
			return fmt.Errorf("network %s needs the boxes of the regions: %w", f.network, err)
		}
	}
	if !f.counts {
		return nil
	}
	return f.regionCounts(counts, b.MostRegions)
}

// countReader is a network with inputs of its own that follow from the number of regions of each image and from the
// largest number in the batch, most. An image attends to missing regions up to most; 0 attends to none.
type countReader interface {
	feedCounts(s *graph.Instance, counts []int32, most int32) error
}

func (f *Feeder) regionCounts(counts []int32, most int32) error {
	if f.counter != nil {
		if most = max(most, slices.Max(counts)); f.evaluates {
			most = 0
		}
		if err := f.counter.feedCounts(f.instance, counts, most); err != nil {
			return err
		}
	}
	return f.lengths(1, InputRegionCounts, counts, f.dims.Regions, 2*len(counts))
}

// whole returns R for each of n images.
func (f *Feeder) whole(n int) []int32 {
	for len(f.all) < n {
		f.all = append(f.all, int32(f.dims.Regions))
	}
	return f.all[:n]
}

// Captions feeds words and lengths to graphs for the bucket of the longest caption.
func (f *Feeder) Captions(b batch.Captions) error {
	n, l := len(b.Lengths), b.Longest()
	if f.positions > 0 && l > f.positions {
		return fmt.Errorf("feed captions: %d words, BERT has %d positions", l, f.positions)
	}
	if len(b.Words) != n {
		return fmt.Errorf("feed captions: the words of %d captions, the lengths of %d", len(b.Words), n)
	}
	wide := Bucket(l)
	f.words = slices.Grow(f.words[:0], n*wide)[:n*wide]
	for i, ids := range b.Words {
		if len(ids) != int(b.Lengths[i]) {
			return fmt.Errorf("feed captions: caption %d has %d words, and the length %d", i, len(ids), b.Lengths[i])
		}
		row := f.words[i*wide : (i+1)*wide]
		clear(row[copy(row, ids):])
	}
	var err error
	if f.lists == nil {
		err = f.instance.FeedInts(InputWords, f.words)
	} else if len(b.Indices) != n {
		err = fmt.Errorf("feed captions: %d indices for %d captions", len(b.Indices), n)
	} else {
		err = f.instance.FeedLists(InputWords, f.lists.Words, f.lists.Starts, b.Indices, wide, f.words)
	}
	if err != nil {
		return err
	}
	return f.lengths(0, InputLengths, b.Lengths, f.longest(l), wordUnit(n))
}

// Edges feeds the dependencies of captions if the network reads them, to graphs with that capacity of words.
func (f *Feeder) Edges(b batch.Captions, capacity int) error {
	if !f.edges {
		return nil
	}
	n, edges, start := len(b.Lengths), b.Edges, b.EdgeStart
	if len(start) != n+1 || len(edges) != 2*int(start[n]-start[0]) {
		return fmt.Errorf("network %s needs the dependencies of %d captions, found the dependencies of %d", f.network,
			n, max(0, len(start)-1))
	}
	if len(edges) > 2*capacity {
		return fmt.Errorf("%d dependencies between the words of %d captions, expected at most %d: a word has one "+
			"governor", len(edges)/2, n, capacity)
	}
	f.edgeList = append(f.edgeList[:0], edges...)
	f.edgeList = slices.Grow(f.edgeList, 2*capacity-len(edges))[:2*capacity]
	clear(f.edgeList[len(edges):])
	f.edgeStart = f.edgeStart[:0]
	for _, s := range start {
		f.edgeStart = append(f.edgeStart, s-start[0])
	}
	if err := f.instance.FeedInts(InputEdges, f.edgeList); err != nil {
		return err
	}
	return f.instance.FeedInts(InputEdgeStart, f.edgeStart)
}

// Semantics feeds the semantic vectors [n, dim] of captions with the given indices to an input.
func (f *Feeder) Semantics(input string, vectors []float32, indices []int32, n, dim int) error {
	return f.semantics.feed(f.instance, input, vectors, indices, n, dim, n*dim)
}

// lengths feeds lengths of at most longest, with bounds also their upper bound.
func (f *Feeder) lengths(which int, input string, lengths []int32, longest, unit int) error {
	if !f.bounds {
		return f.instance.FeedInts(input, lengths)
	}
	f.limits[which] = bound(f.limits[which][:0], capacity(lengths, longest, unit), len(lengths), longest)
	return f.instance.FeedBounded(input, lengths, f.limits[which])
}

// Bucket rounds a caption length up to a length that graphs are compiled for, so that few graphs serve all batches.
// Because captions are packed, the rounding costs memory but no time.
func Bucket(l int) int { return max(8, (l+7)/8*8) }

// capacity rounds the sum of n lengths of at most longest up to a multiple of unit, with room for one sequence of the
// longest length. Steps are recorded for it.
func capacity(lengths []int32, longest, unit int) int {
	n := len(lengths)
	return min(max((device.Total(lengths)+unit-1)/unit*unit, longest+n-1), n*longest)
}

// wordUnit is the unit to which the words of n captions are rounded up. It is only half a word a caption, because all
// pairs are computed for the upper bound.
func wordUnit(n int) int { return max(8, n/2) }

// Shape identifies the graphs over the pairs of a batch.
type Shape struct {
	N, Bucket, Capacity int // pairs of a rank, the bucket of its captions, and PairCapacity of a PairScorer, or 0
	All, AllCapacity    int // N and Capacity of all ranks
}

// ShapeOf returns the shape of pairs.
func (f *Feeder) ShapeOf(p *batch.Pairs) Shape {
	all := p.Whole()
	sh := Shape{N: len(p.Lengths), Bucket: Bucket(p.Longest()), All: len(all.Lengths)}
	if f.pairs {
		sh.Capacity, sh.AllCapacity = f.PairCapacity(p.Lengths, p.Longest()), f.PairCapacity(all.Lengths, all.Longest())
	}
	return sh
}

// Bounds returns the upper bounds that programs with bounds know of pairs: the numbers of words, of words of all ranks,
// and of regions that are not dropped (0 if none is).
func (f *Feeder) Bounds(p *batch.Pairs) (words, allWords, regions int) {
	all := p.Whole()
	if p.Counts != nil {
		regions = capacity(p.Counts, f.dims.Regions, 2*len(p.Counts))
	}
	return f.wordBound(p.Lengths, p.Longest()), f.wordBound(all.Lengths, all.Longest()), regions
}

// wordBound is the upper bound of words that programs with bounds know of captions of at most l words.
func (f *Feeder) wordBound(lengths []int32, l int) int {
	return capacity(lengths, f.longest(l), wordUnit(len(lengths)))
}

// PairCapacity rounds the words of captions of at most l words up to the capacity of the training graphs of a
// PairScorer: a multiple of two words a caption that is at least wordBound.
func (f *Feeder) PairCapacity(lengths []int32, l int) int {
	unit := 2 * len(lengths)
	return (f.wordBound(lengths, l) + unit - 1) / unit * unit
}

// longest is the longest caption of programs for captions of l words.
func (f *Feeder) longest(l int) int {
	if f.positions > 0 {
		return min(Bucket(l), f.positions)
	}
	return Bucket(l)
}

// bound appends n lengths in descending order, of which the first is longest and the sum is capacity.
func bound(to []int32, capacity, n, longest int) []int32 {
	to = append(to, int32(longest))
	capacity -= longest
	for left := n - 1; left > 0; left-- {
		l := (capacity + left - 1) / left
		to = append(to, int32(l))
		capacity -= l
	}
	return to
}
