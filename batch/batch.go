// Package batch holds what a mini-batch is: the images and the captions that loaders fill, networks read and the loop
// counts. It is below data, models and train, which pass it on as it is.
package batch

// Images are N images. Features and Boxes are empty if they stay on the device; FeatureRows then number them.
type Images struct {
	N int
	// Features is [N, R, D], or with Counts [Σ Counts, D]: the regions of image 0, then the regions of image 1, and so
	// on.
	Features    []float32
	Stage       Stage     // the features in place of Features; nil without
	Boxes       []float32 // [N, R, 4] places of the regions, as shares of the picture; of networks that need them
	FeatureRows []int32   // [N] rows of the feature file
	// Counts [N] are the numbers of regions of the images; nil is all R. RegionRows [Σ Counts] number these regions,
	// all regions of the feature file taken as one list, where the features stay on the device.
	Counts, RegionRows []int32
	// MostRegions is the largest of the numbers of regions in the batch that these images are a part of; 0 is the sum
	// of Counts.
	MostRegions int32
}

// Stage is memory for features that somebody else reads too, such as a device (device.Stage).
type Stage interface {
	Floats() []float32 // nil with half
	Halves() []uint16  // bits of float16; nil without half
}

// Captions are captions, sorted by length in descending order where a network is given them.
type Captions struct {
	Words   [][]int32 // [N] ids of each caption; nobody changes them
	Lengths []int32   // [N] how many they are
	Indices []int32   // [N] numbers in the split
	// Edges are the dependencies between words, of networks that need them: caption i has the pairs
	// Edges[2·EdgeStart[i]:2·EdgeStart[i+1]], governor and dependent in turn, as positions in the caption.
	Edges, EdgeStart []int32
}

// Longest is the number of words of the longest caption.
func (c *Captions) Longest() (l int) {
	for _, n := range c.Lengths {
		l = max(l, int(n))
	}
	return l
}

// Add appends a caption.
func (c *Captions) Add(ids []int32) {
	c.Words, c.Lengths = append(c.Words, ids), append(c.Lengths, int32(len(ids)))
}

// Shard sets to to the captions of a rank of that many: caption i belongs to rank i mod ranks (device.Shard). Edges are
// left out, and Words and Indices where there are none. The memory of to is used again.
func (c *Captions) Shard(rank, ranks int, to *Captions) {
	to.Words, to.Lengths, to.Indices = to.Words[:0], to.Lengths[:0], to.Indices[:0]
	for i := rank; i < len(c.Lengths); i += ranks {
		if to.Lengths = append(to.Lengths, c.Lengths[i]); len(c.Words) > 0 {
			to.Words = append(to.Words, c.Words[i])
		}
		if len(c.Indices) > 0 {
			to.Indices = append(to.Indices, c.Indices[i])
		}
	}
}
