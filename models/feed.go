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
		return m.feedLoose(1, InputRegionCounts, counts, m.Dims.Regions)
	}
	return m.Session.FeedInts(InputRegionCounts, counts)
}

func (m *Model) feedLoose(which int, name string, lengths []int32, longest int) error {
	m.bounds[which] = bound(m.bounds[which][:0], Room(lengths, longest), len(lengths), longest)
	return m.Session.FeedLoose(name, lengths, m.bounds[which])
}

// Room rounds the sum of n lengths of at most longest up to the numbers that steps are recorded for: multiples of two a sequence, with enough for one
// sequence of the longest length.
func Room(lengths []int32, longest int) int {
	n := len(lengths)
	return min(max(WordRoom(lengths), longest+n-1), n*longest)
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
