package text

// Size augmentation of VSE-infinity (Chen et al., CVPR 2021; lib/datasets/image_caption.py): each word is kept
// with probability 0.8, else replaced by a mask (0.5), by a random word (0.1) or dropped (0.4); each region is
// dropped with probability 0.2. The draws come from the caller, so that they can follow from (seed, epoch, sample).

const dropRate = 0.20

// RandomSource returns uniform draws: in [0, 1), and of numbers in [0, n).
type RandomSource interface {
	Float64() float64
	IntN(n int) int
}

// AugmentIDs appends the ids of a caption to dst, <start> and <end> included, after size augmentation. A masked word
// has the id mask, a replaced one an id below n. One word stays at least: the first when every word is dropped.
func AugmentIDs(dst, ids []int32, mask int32, n int, draws RandomSource) []int32 {
	return augment(dst, len(ids), func(i int) []int32 { return ids[i : i+1] }, mask, n, draws)
}

// augment augments a caption given as the ids of each word. All ids of a word share its fate, and a replaced word draws
// a random id for each.
func augment(dst []int32, words int, word func(i int) []int32, mask int32, n int, draws RandomSource) []int32 {
	start := len(dst)
	for i := range words {
		switch fate(draws.Float64()) {
		case keep:
			dst = append(dst, word(i)...)
		case masked:
			for range word(i) {
				dst = append(dst, mask)
			}
		case replaced:
			for range word(i) {
				dst = append(dst, int32(draws.IntN(n)))
			}
		}
	}
	if len(dst) == start && words > 0 {
		dst = append(dst, word(0)...)
	}
	return dst
}

// KeepRegions appends the indices of the regions that are kept of n, in ascending order. One region stays at least: the
// first when every region is dropped.
func KeepRegions(dst []int32, n int, draws RandomSource) []int32 {
	start := len(dst)
	for r := range n {
		if draws.Float64() > dropRate {
			dst = append(dst, int32(r))
		}
	}
	if len(dst) == start && n > 0 {
		dst = append(dst, 0)
	}
	return dst
}

type outcome int

const (
	keep outcome = iota
	masked
	replaced
	dropped
)

// fate decides about one word.
func fate(u float64) outcome {
	switch v := u / dropRate; {
	case u >= dropRate:
		return keep
	case v < 0.5:
		return masked
	case v < 0.6:
		return replaced
	}
	return dropped
}
