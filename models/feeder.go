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

// Resident are the parts of a split that stay on a device; the rest is copied with the batches.
type Resident struct {
	Device device.Resident
	// Features [rows, R·D] and Boxes [rows, R·4] of all rows of the feature file; Semantics [captions, k].
	Features, Boxes, Semantics device.Table
	// Words int32 are the concatenated ids of all captions, the ids of caption c from Starts[c] to Starts[c+1]; Starts
	// is int32 [captions + 1].
	Words, Starts device.View
}

// HasFeatures, HasBoxes, HasSemantics and HasWords report which parts are resident.
func (r *Resident) HasFeatures() bool  { return r != nil && r.Features != nil }
func (r *Resident) HasBoxes() bool     { return r != nil && r.Boxes != nil }
func (r *Resident) HasSemantics() bool { return r != nil && r.Semantics != nil }
func (r *Resident) HasWords() bool     { return r != nil && r.Words.Present() }

// Feeder sets the inputs of a network's graphs from batches. It decides once where the values of each input come from:
// what of a split stays on the device is read there by its numbers, the rest is copied from the batches. Slices of a
// batch are read until the programs have run.
type Feeder struct {
	instance *graph.Instance
	network  string
	dims     Dims
	// bounds gives graphs only an upper bound of lengths and region counts (graph.Instance.FeedBounded), so that all
	// batches of one shape do the same.
	bounds        bool
	boxed, counts bool        // the network reads boxes, and counts of regions
	edges         bool        // and dependencies
	pairs         bool        // it is a PairScorer
	counter       countReader // the network, where it reads more of the counts; nil otherwise
	evaluates     bool        // what an image lacks is attended to by nothing, whatever the training does
	positions     int         // words of a caption that there are positions for, 0 without a limit

	features, boxes, semantics rows
	lists                      *Resident // of words; nil copies the words of the batches

	words, all, edgeList, edgeStart []int32 // staging
	limits                          [3][]int32
}

// NewFeeder returns the feeder of a model for a split of which r stays on the device; nil is nothing. With bounds,
// which devices that record steps need, programs know only an upper bound of lengths and counts.
func NewFeeder(m *Model, r *Resident, bounds bool) *Feeder {
	o := &m.Options
	t := o.Traits()
	f := &Feeder{instance: m.Instance, network: o.Network, dims: m.Dims, bounds: bounds, boxed: t.Boxes,
		counts: t.SizeAugment || m.Dims.Counted, edges: t.ReadsEdges, features: hostRows{}, boxes: hostRows{},
		semantics: hostRows{}}
	f.counter, _ = m.Network.(countReader)
	_, f.pairs = m.Network.(PairScorer)
	if o.TextEncoder == TextBert {
		f.positions = o.Bert.Positions
	}
	if r.HasFeatures() {
		f.features = tableRows{r.Features}
	}
	if r.HasBoxes() {
		f.boxes = tableRows{r.Boxes}
	}
	if r.HasSemantics() {
		f.semantics = tableRows{r.Semantics}
	}
	if r.HasWords() {
		f.lists = r
	}
	return f
}

// rows sets the first values of a float input of n elements to rows of a width: those that a batch brings, or those
// with the given numbers of a table on the device.
type rows interface {
	feed(s *graph.Instance, input string, values []float32, numbers []int32, count, width, n int) error
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

func (t tableRows) feed(s *graph.Instance, input string, _ []float32, numbers []int32, count, width, n int) error {
	if len(numbers) != count {
		return fmt.Errorf("input %s: numbers of %d rows, expected %d", input, len(numbers), count)
	}
	return s.FeedRows(input, t.table, numbers, width, n)
}

// ReadFeatures takes the features of batches that bring only the numbers of their rows from read, which sets dst to the
// R·D values of a row of the feature file. It is called by several goroutines.
func (f *Feeder) ReadFeatures(read func(dst []float32, row int) error) {
	f.features = &fileRows{read: read, regions: f.dims.Regions, feature: f.dims.Feature}
}

// fileRows are rows of images, or of regions, that are read when they are fed.
type fileRows struct {
	read             func(dst []float32, row int) error
	regions, feature int
	values           []float32
}

func (r *fileRows) feed(s *graph.Instance, input string, values []float32, numbers []int32, count, width, n int) error {
	if len(values) > 0 {
		return hostRows{}.feed(s, input, values, numbers, count, width, n)
	}
	if len(numbers) != count {
		return fmt.Errorf("input %s: numbers of %d rows, expected %d", input, len(numbers), count)
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
					failed[t] = r.read(r.values[i*size:(i+1)*size], int(numbers[i]))
				}
				return
			}
			image, last := make([]float32, size), int32(-1)
			for i := lo; i < hi; i++ {
				row, region := numbers[i]/int32(r.regions), int(numbers[i])%r.regions
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

// shareOfReading is how many values of features a goroutine reads at least.
const shareOfReading = 1 << 18

// Pairs feeds the images and captions of a batch that a rank computes, to graphs of their shape.
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

// Images feeds regions, and where the network reads them boxes and counts of regions.
func (f *Feeder) Images(b batch.Images) error {
	r, d := f.dims.Regions, f.dims.Feature
	counts, numbers, count, width := b.Counts, b.FeatureRows, b.N, r*d
	if counts == nil {
		counts = f.whole(b.N)
	} else if !f.counts {
		return fmt.Errorf("feed images: different numbers of regions for network %s, which was built for %d each",
			f.network, r)
	} else {
		numbers, count, width = b.RegionRows, 0, d
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
		err = f.features.feed(f.instance, InputRegions, b.Features, numbers, count, width, b.N*r*d)
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

// countReader is a network whose graphs have inputs of their own that follow from the numbers of regions of the images,
// and from the largest in the batch, up to which an image attends to what it lacks; 0 is the count of the image itself.
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

// Captions feeds words and lengths, in the layout of graphs whose captions fall into the bucket of the longest.
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
		err = fmt.Errorf("feed captions: %d numbers for %d captions", len(b.Indices), n)
	} else {
		err = f.instance.FeedLists(InputWords, f.lists.Words, f.lists.Starts, b.Indices, wide, f.words)
	}
	if err != nil {
		return err
	}
	return f.lengths(0, InputLengths, b.Lengths, f.longest(l), wordUnit(n))
}

// Edges feeds the dependencies of captions where the network reads them; graphs have the capacity for that many words.
func (f *Feeder) Edges(b batch.Captions, capacity int) error {
	if !f.edges {
		return nil
	}
	n, edges, start := len(b.Lengths), b.Edges, b.EdgeStart
	if len(start) != n+1 || len(edges) != 2*int(start[n]-start[0]) {
		return fmt.Errorf("network %s needs the dependencies of %d captions, there are those of %d", f.network, n,
			len(start)-1)
	}
	if len(edges) > 2*capacity {
		return fmt.Errorf("%d dependencies between the words of %d captions, expected at most %d: a word has one "+
			"governor",
			len(edges)/2, n, capacity)
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

// Semantics feeds the semantic vectors [n, dim] of captions with the given numbers to an input.
func (f *Feeder) Semantics(input string, vectors []float32, numbers []int32, n, dim int) error {
	return f.semantics.feed(f.instance, input, vectors, numbers, n, dim, n*dim)
}

// lengths feeds lengths of at most longest, or their upper bound where programs know only that.
func (f *Feeder) lengths(which int, input string, lengths []int32, longest, unit int) error {
	if !f.bounds {
		return f.instance.FeedInts(input, lengths)
	}
	f.limits[which] = bound(f.limits[which][:0], capacity(lengths, longest, unit), len(lengths), longest)
	return f.instance.FeedBounded(input, lengths, f.limits[which])
}

// Bucket rounds a caption length up to the lengths that graphs are compiled for, so that few graphs serve all batches.
// Packed work means that the rounding costs memory, not time.
func Bucket(l int) int { return max(8, (l+7)/8*8) }

// Steps are recorded for a number of words and of regions, rounded up: capacity is the sum of n lengths of at most
// longest, as a multiple of unit, with enough for one sequence of the longest length.
func capacity(lengths []int32, longest, unit int) int {
	n := len(lengths)
	return min(max((device.Total(lengths)+unit-1)/unit*unit, longest+n-1), n*longest)
}

// wordUnit is what the words of n captions are rounded up to: half a word a caption, since all work over pairs is done
// for the upper bound.
func wordUnit(n int) int { return max(8, n/2) }

// Shape is what graphs over the pairs of a batch depend on.
type Shape struct {
	N, Bucket, Capacity int // pairs of a rank, the bucket of its captions, and PairCapacity of a PairScorer, or 0
	All, AllCapacity    int // N and Capacity of all ranks
}

// ShapeOf is the shape of pairs.
func (f *Feeder) ShapeOf(p *batch.Pairs) Shape {
	all := p.Whole()
	sh := Shape{N: len(p.Lengths), Bucket: Bucket(p.Longest()), All: len(all.Lengths)}
	if f.pairs {
		sh.Capacity, sh.AllCapacity = f.PairCapacity(p.Lengths, p.Longest()), f.PairCapacity(all.Lengths, all.Longest())
	}
	return sh
}

// Bounds are the numbers of words, of words of all ranks, and of regions that are not dropped, that programs with
// bounds know of pairs; 0 regions where all are there.
func (f *Feeder) Bounds(p *batch.Pairs) (words, allWords, regions int) {
	all := p.Whole()
	if p.Counts != nil {
		regions = capacity(p.Counts, f.dims.Regions, 2*len(p.Counts))
	}
	return f.wordBound(p.Lengths, p.Longest()), f.wordBound(all.Lengths, all.Longest()), regions
}

// wordBound is the number of words that programs with bounds know of captions of at most l words.
func (f *Feeder) wordBound(lengths []int32, l int) int {
	return capacity(lengths, f.longest(l), wordUnit(len(lengths)))
}

// PairCapacity rounds the number of words of captions of at most l words up to what training graphs of a PairScorer are
// compiled for: a multiple of two a caption that is at least wordBound.
func (f *Feeder) PairCapacity(lengths []int32, l int) int {
	unit := 2 * len(lengths)
	return (f.wordBound(lengths, l) + unit - 1) / unit * unit
}

// longest is the longest caption that programs for captions of l words serve.
func (f *Feeder) longest(l int) int {
	if f.positions > 0 {
		return min(Bucket(l), f.positions)
	}
	return Bucket(l)
}

// bound appends n lengths, descending, the first longest and none greater, whose sum is capacity.
func bound(to []int32, capacity, n, longest int) []int32 {
	to = append(to, int32(longest))
	capacity -= longest
	for i := 1; i < n; i++ {
		left := n - i
		to = append(to, int32((capacity+left-1)/left))
		capacity -= (capacity + left - 1) / left
	}
	return to
}
