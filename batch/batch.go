// Package batch holds the images and captions of a mini-batch. Loaders fill them, networks read them, and the training
// loop counts them.
package batch

// Images are N images. Features and Boxes are empty if they stay in device memory; FeatureRows then select them.
type Images struct {
	N int
	// Features is [N, R, D], or with Counts [Σ Counts, D]: the regions of image 0, then of image 1, and so on.
	Features    []float32
	Stage       Stage     // holds the features in place of Features, if not nil
	Boxes       []float32 // [N, R, 4] boxes of the regions, as shares of the picture, for networks that need them
	FeatureRows []int32   // [N] rows of the feature file
	// Counts [N] are the numbers of regions of the images; nil is R for each. If the features stay in device memory,
	// RegionRows [Σ Counts] select these regions from the list of all regions of the feature file.
	Counts, RegionRows []int32
	// MostRegions is the largest number of regions of an image in the whole batch, of all ranks. 0 stands for the sum
	// of Counts.
	MostRegions int32
}

// Stage is memory for features that a device reads, too (device.Stage).
type Stage interface {
	Floats() []float32 // nil in half precision
	Halves() []uint16  // bits of float16; nil in single precision
}

// Captions are captions. Networks need them sorted by length, longest first.
type Captions struct {
	Words   [][]int32 // [N] word ids of each caption; read-only
	Lengths []int32   // [N] number of word ids
	Indices []int32   // [N] indices in the split
	// Edges are the dependencies between words, for networks that need them: caption i has the pairs
	// Edges[2·EdgeStart[i]:2·EdgeStart[i+1]], governor and dependent in turn, as positions in the caption.
	Edges, EdgeStart []int32
}

// Longest returns the number of words of the longest caption.
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

// Shard copies the captions of one rank to to, whose memory it reuses: caption i belongs to rank i mod ranks
// (device.Shard). It leaves out Edges.
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
