package models

import (
	"fmt"
	"slices"

	"vsetrain/internal/device"
)

// Kept are the parts of a split that stay on a device; of what is not there the batches bring their own.
type Kept struct {
	Device device.Resident
	// Features [rows, R·D] and Boxes [rows, R·4] of all rows of the feature file; Semantics [captions, k].
	Features, Boxes, Semantics device.Table
	// Words int32 are the ids of all captions one after the other, those of caption c from Starts[c] to Starts[c+1]; int32 [captions + 1].
	Words, Starts device.View
}

// HasFeatures, HasBoxes, HasSemantics and HasWords report what is there.
func (k *Kept) HasFeatures() bool  { return k != nil && k.Features != nil }
func (k *Kept) HasBoxes() bool     { return k != nil && k.Boxes != nil }
func (k *Kept) HasSemantics() bool { return k != nil && k.Semantics != nil }
func (k *Kept) HasWords() bool     { return k != nil && k.Words.Present() }

// Keep makes FeedFeatures and its like read a training split on the device; nil ends that.
func (m *Model) Keep(k *Kept) { m.kept = k }

// Kept is what Keep was given.
func (m *Model) Kept() *Kept { return m.kept }

// FeedFeatures is FeedRegions for features that are on the device. images are the rows of the feature file of n images; with counts, regions lists
// the regions that are kept of them, as rows of a table [rows·R, D].
func (m *Model) FeedFeatures(images, regions, counts []int32, n int) error {
	r, d := m.Dims.Regions, m.Dims.Feature
	if len(images) != n {
		return fmt.Errorf("feed images: %d rows for %d images", len(images), n)
	}
	if counts == nil {
		if err := m.feedRegionRows(m.kept, images); err != nil {
			return err
		}
		return m.feedCounts(m.all(n))
	}
	sum := 0
	for _, c := range counts {
		sum += int(c)
	}
	if len(counts) != n || sum != len(regions) {
		return fmt.Errorf("feed images: %d counts of %d regions in all for %d images, %d regions are listed", len(counts), sum, n, len(regions))
	}
	if err := m.Session.FeedRows(InputRegions, m.kept.Device, m.kept.Features, regions, d, n*r*d); err != nil {
		return err
	}
	return m.feedCounts(counts)
}

// feedRegionRows feeds all regions of rows of the feature file.
func (m *Model) feedRegionRows(k *Kept, rows []int32) error {
	width := m.Dims.Regions * m.Dims.Feature
	return m.Session.FeedRows(InputRegions, k.Device, k.Features, rows, width, len(rows)*width)
}

// FeedCaptions is FeedWords for captions with the given numbers, from the device where they are there.
func (m *Model) FeedCaptions(captions, words, lengths []int32, n, l int) error {
	if !m.kept.HasWords() {
		return m.FeedWords(words, lengths, n, l)
	}
	if len(captions) != n {
		return fmt.Errorf("feed captions: %d numbers for %d captions", len(captions), n)
	}
	wide, err := m.padWords(words, lengths, n, l)
	if err != nil {
		return err
	}
	if err := m.Session.FeedLists(InputWords, m.kept.Device, m.kept.Words, m.kept.Starts, captions, wide, m.words); err != nil {
		return err
	}
	return m.feedLengths(lengths, n, l)
}

// FeedTrainBoxes is FeedBoxes for rows of the feature file, from the device where they are there.
func (m *Model) FeedTrainBoxes(rows []int32, boxes []float32, n int) error {
	if !m.Options.NeedsBoxes() || !m.kept.HasBoxes() {
		return m.FeedBoxes(boxes, n)
	}
	return m.feedBoxRows(m.kept, rows)
}

func (m *Model) feedBoxRows(k *Kept, rows []int32) error {
	width := 4 * m.Dims.Regions
	return m.Session.FeedRows(InputBoxes, k.Device, k.Boxes, rows, width, len(rows)*width)
}

// FeedSemantics feeds the semantic vectors [n, dim] of captions with the given numbers to an input, from the device where they are there.
func (m *Model) FeedSemantics(name string, captions []int32, vectors []float32, dim int) error {
	if !m.kept.HasSemantics() {
		return m.Session.Feed(name, vectors)
	}
	return m.Session.FeedRows(name, m.kept.Device, m.kept.Semantics, captions, dim, len(captions)*dim)
}

// all returns R for each of n images.
func (m *Model) all(n int) []int32 {
	for len(m.counts) < n {
		m.counts = append(m.counts, int32(m.Dims.Regions))
	}
	return m.counts[:n]
}

func (m *Model) feedCounts(counts []int32) error {
	if m.Options.Network == CHAN && m.Options.CHAN.SizeAugment {
		if err := m.feedPadding(counts); err != nil {
			return err
		}
	}
	if m.Loosely {
		return m.feedLoose(1, InputRegionCounts, counts, m.Dims.Regions, 2*len(counts))
	}
	return m.Session.FeedInts(InputRegionCounts, counts)
}

// padding says which regions lie in R places of every image, and which are attended to (InputRegionPlaces …).
type padding struct {
	places, attended []int32
	mask             []float32
}

// feedPadding feeds the padding of images with counts regions. As in the released code of CHAN a place that the largest count
// of the batch reaches is attended to, whatever is there, unless padding is masked.
func (m *Model) feedPadding(counts []int32) error {
	p, r, first := &m.padded, m.Dims.Regions, int32(0)
	p.places, p.attended, p.mask = p.places[:0], p.attended[:0], p.mask[:0]
	most := slices.Max(counts)
	for _, n := range counts {
		if m.Options.CHAN.MaskPadding {
			most = n
		}
		for i := range int32(r) {
			place, mask, attended := first, float32(0), int32(0) // what is dropped reads any row that there is
			if i < n {
				place, mask = first+i, 1
			}
			if i < most {
				attended = 1
			}
			p.places, p.mask, p.attended = append(p.places, place), append(p.mask, mask), append(p.attended, attended)
		}
		first += n
	}
	if err := m.Session.FeedInts(InputRegionPlaces, p.places); err != nil {
		return err
	}
	if err := m.Session.FeedInts(InputAttended, p.attended); err != nil {
		return err
	}
	return m.Session.Feed(InputRegionMask, p.mask)
}

func (m *Model) feedLoose(which int, name string, lengths []int32, longest, unit int) error {
	m.bounds[which] = bound(m.bounds[which][:0], room(lengths, longest, unit), len(lengths), longest)
	return m.Session.FeedLoose(name, lengths, m.bounds[which])
}

// Steps are recorded for a number of words and of kept regions, rounded up (see Loosely): room is the sum of n lengths of at most longest, as a
// multiple of unit, with enough for one sequence of the longest length.
func room(lengths []int32, longest, unit int) int {
	n, sum := len(lengths), 0
	for _, l := range lengths {
		sum += int(l)
	}
	return min(max((sum+unit-1)/unit*unit, longest+n-1), n*longest)
}

// wordUnit is what the words of n captions are rounded up to: half a word a caption, since all work over pairs is done for the upper bound.
func wordUnit(n int) int { return max(8, n/2) }

// WordBound is the number of words that programs for captions of at most l words are told of with Loosely.
func (m *Model) WordBound(lengths []int32, l int) int {
	return room(lengths, m.longest(l), wordUnit(len(lengths)))
}

// RegionBound is WordBound for kept regions.
func (m *Model) RegionBound(counts []int32) int { return room(counts, m.Dims.Regions, 2*len(counts)) }

// PairRoom rounds the number of words of captions of at most l words up to what training graphs of a PairScorer are compiled for: a multiple of two a
// caption that is no less than WordBound.
func (m *Model) PairRoom(lengths []int32, l int) int {
	unit := 2 * len(lengths)
	return (m.WordBound(lengths, l) + unit - 1) / unit * unit
}

// longest is the longest caption that programs for captions of l words serve.
func (m *Model) longest(l int) int {
	if m.Options.TextEncoder == TextBert {
		return min(Bucket(l), m.Options.Bert.Positions)
	}
	return Bucket(l)
}

// bound appends n lengths, descending, the first longest and none greater, whose sum is room.
func bound(to []int32, room, n, longest int) []int32 {
	to = append(to, int32(longest))
	room -= longest
	for i := 1; i < n; i++ {
		left := n - i
		to = append(to, int32((room+left-1)/left))
		room -= (room + left - 1) / left
	}
	return to
}
