package data

import (
	"fmt"
	"iter"
	"slices"
)

// Groups divides consecutive items among images: image i has the items First(i) to First(i+1)-1. The items are the
// captions of a split, or the feature rows where each image has several. The zero Groups holds no images.
type Groups struct {
	images, each int     // each is the number of items of every image; 0 if images differ
	first        []int32 // [images+1]; nil if every image has each items
	image        []int32 // [items] the same
}

// EqualGroups gives k items to each image.
func EqualGroups(images, k int) Groups { return Groups{images: images, each: k} }

// GroupsOf gives counts[i] items to image i.
func GroupsOf(counts []int) Groups {
	g := Groups{images: len(counts)}
	if len(counts) > 0 && slices.Min(counts) == slices.Max(counts) {
		g.each = counts[0]
		return g
	}
	g.first = make([]int32, 1, len(counts)+1)
	for i, n := range counts {
		g.first = append(g.first, g.first[i]+int32(n))
		for range n {
			g.image = append(g.image, int32(i))
		}
	}
	return g
}

// Images returns the number of images.
func (g Groups) Images() int { return g.images }

// Items returns the number of items of all images.
func (g Groups) Items() int { return g.First(g.images) }

// Each returns the number of items of every image; 0 if images differ.
func (g Groups) Each() int { return g.each }

// First returns the first item of an image; First(Images()) is the number of all items.
func (g Groups) First(image int) int {
	if g.first == nil {
		return image * g.each
	}
	return int(g.first[image])
}

// Of iterates over the items of an image.
func (g Groups) Of(image int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := g.First(image); i < g.First(image+1) && yield(i); i++ {
		}
	}
}

// ImageOf returns the image that an item belongs to.
func (g Groups) ImageOf(item int) int {
	if g.first == nil {
		return item / g.each
	}
	return int(g.image[item])
}

// Range returns the smallest and the largest number of items that an image has.
func (g Groups) Range() (least, most int) {
	least, most = g.First(min(1, g.images)), g.each
	for i := range g.images {
		n := g.First(i+1) - g.First(i)
		least, most = min(least, n), max(most, n)
	}
	return least, most
}

// String returns the number of items of an image, or "SMALLEST to LARGEST".
func (g Groups) String() string {
	if g.each > 0 {
		return fmt.Sprint(g.each)
	}
	least, most := g.Range()
	return fmt.Sprintf("%d to %d", least, most)
}

// Part returns the groups of images lo to hi-1, whose first item becomes item 0.
func (g Groups) Part(lo, hi int) Groups {
	if g.first == nil {
		return EqualGroups(hi-lo, g.each)
	}
	counts := make([]int, 0, hi-lo)
	for i := lo; i < hi; i++ {
		counts = append(counts, g.First(i+1)-g.First(i))
	}
	return GroupsOf(counts)
}

// atMost returns the number of images whose items are all among the first n; at least 1.
func (g Groups) atMost(n int) int {
	if n >= g.Items() {
		return g.images
	}
	return max(g.ImageOf(n), 1)
}
