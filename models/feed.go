package models

import (
	"fmt"

	"vsetrain/internal/device"
)

// Features are those of a data set that stay on a device: a table of all regions of all rows of its feature file.
type Features struct {
	Device device.Resident
	Table  device.Table // nil: features come with the batches
}

// KeepFeatures makes FeedFeatures read a table [rows, R, D] on the device.
func (m *Model) KeepFeatures(f Features) { m.features = f }

// Resident reports whether the features are on the device.
func (m *Model) Resident() bool { return m.features.Table != nil }

// FeedFeatures is FeedRegions for features that are on the device. images are the rows of the feature file of n images; with counts, regions lists
// the regions that are kept of them, as rows of a table [rows·R, D].
func (m *Model) FeedFeatures(images, regions, counts []int32, n int) error {
	r, d := m.Dims.Regions, m.Dims.Feature
	if len(images) != n {
		return fmt.Errorf("feed images: %d rows for %d images", len(images), n)
	}
	if counts == nil {
		if err := m.Session.FeedRows(InputRegions, m.features.Device, m.features.Table, images, r*d, n*r*d); err != nil {
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
	if err := m.Session.FeedRows(InputRegions, m.features.Device, m.features.Table, regions, d, n*r*d); err != nil {
		return err
	}
	return m.feedCounts(counts)
}

// all returns R for each of n images.
func (m *Model) all(n int) []int32 {
	for len(m.counts) < n {
		m.counts = append(m.counts, int32(m.Dims.Regions))
	}
	return m.counts[:n]
}

func (m *Model) feedCounts(counts []int32) error {
	if m.Loosely {
		return m.feedLoose(1, InputRegionCounts, counts, m.Dims.Regions, 2*len(counts))
	}
	return m.Session.FeedInts(InputRegionCounts, counts)
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
