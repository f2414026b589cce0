package placement

import (
	"math"
	"slices"

	"vsetrain/batch"
	"vsetrain/data"
	"vsetrain/internal/compute/philox"
)

// SemanticDim is the size of the semantic vectors of synthetic batches.
const SemanticDim = 400

// captionLengths[n] is the number of the 145,000 Flickr30K training captions with n words, including <start> and <end>;
// the 0.3 % above 40 are counted at 40.
var captionLengths = [...]int{4: 11, 5: 47, 6: 255, 7: 1005, 8: 3256, 9: 7173, 10: 10087, 11: 11988, 12: 13518,
	13: 14053,
	14: 13222, 15: 11758, 16: 10344, 17: 9097, 18: 7406, 19: 6072, 20: 4864, 21: 4025, 22: 3250, 23: 2544, 24: 2173,
	25: 1616,
	26: 1299, 27: 1076, 28: 920, 29: 716, 30: 594, 31: 440, 32: 360, 33: 337, 34: 253, 35: 207, 36: 154, 37: 164,
	38: 118,
	39: 88, 40: 529}

// SyntheticBatch makes a batch for timing: features |N(0, s)| with mean 0.45 like those of bottom-up attention,
// Zipf-like words, the caption lengths of Flickr30K unless lengths are given, in descending order, and normally
// distributed semantic vectors.
func SyntheticBatch(seed uint64, n, regions, feature, vocab, semantic int, lengths []int32) *data.Batch {
	s := philox.NewKey(seed, "bench").Stream(0)
	b := &data.Batch{Images: batch.Images{N: n}, Regions: regions, Dim: feature, SemanticDim: semantic}
	b.Features = make([]float32, n*regions*feature)
	scale := 0.45 / math.Sqrt(2/math.Pi)
	const drawn = 1<<18 - 5 // a prime, so that values repeat but no two images are equal
	for i := range b.Features {
		if i >= drawn {
			b.Features[i] = b.Features[i-drawn]
			continue
		}
		b.Features[i] = float32(math.Abs(s.Norm()) * scale)
	}
	total := 0
	for _, c := range captionLengths {
		total += c
	}
	b.Lengths = append(b.Lengths, lengths...)
	for len(b.Lengths) < n {
		u, l := s.IntN(total), 0
		for u >= captionLengths[l] {
			u -= captionLengths[l]
			l++
		}
		b.Lengths = append(b.Lengths, int32(l))
	}
	slices.SortFunc(b.Lengths, func(a, b int32) int { return int(b - a) })
	b.L = int(b.Lengths[0])
	for _, l := range b.Lengths {
		words := make([]int32, l)
		for i := range words {
			words[i] = zipfWord(s, vocab)
		}
		words[0], words[l-1] = 1, 2 // <start>, <end>
		b.Words = append(b.Words, words)
	}
	for i := range n {
		b.Indices = append(b.Indices, int32(i))
		b.ImageIndices = append(b.ImageIndices, int32(i))
		b.FeatureRows = append(b.FeatureRows, int32(i))
	}
	b.Semantics = make([]float32, n*semantic)
	for i := range b.Semantics {
		b.Semantics[i] = float32(s.Norm() * 0.05)
	}
	return b
}

// AddBoxes gives a synthetic batch random boxes, and makes every word the governor of the next.
func AddBoxes(b *data.Batch, seed uint64) {
	s := philox.NewKey(seed, "bench/boxes").Stream(0)
	for range b.N * b.Regions {
		x, y := float32(s.Float64()*0.8), float32(s.Float64()*0.8)
		b.Boxes = append(b.Boxes, x, y, x+float32(s.Float64()*0.2), y+float32(s.Float64()*0.2))
	}
	b.EdgeStart = append(b.EdgeStart, 0)
	for _, l := range b.Lengths {
		for i := int32(2); i < l; i++ {
			b.Edges = append(b.Edges, i-1, i)
		}
		b.EdgeStart = append(b.EdgeStart, int32(len(b.Edges)/2))
	}
}

// zipfWord draws a word id with probability about 1/(rank + 2.7).
func zipfWord(s *philox.Stream, vocab int) int32 {
	const shift, special = 2.7, 4
	k := float64(vocab - special)
	r := math.Floor(shift*math.Pow((k+shift)/shift, s.Float64()) - shift)
	return special + int32(max(0, min(r, k-1)))
}
