package text

// Size augmentation of VSE-infinity (Chen et al., CVPR 2021; lib/datasets/image_caption.py): each word is kept
// with probability 0.8, else replaced by a mask (0.5), by a random word (0.1) or dropped (0.4); each region is
// dropped with probability 0.2. The draws come from the caller, so that they can follow from (seed, epoch, sample).

const dropRate = 0.20

// Draw returns the next uniform draw in [0, 1).
type Draw func() float64

// augmentPieces augments a caption given as the word pieces of each basic token. mask is the id of [MASK]; random
// returns a random id. One draw is taken per token; all pieces of a token share its fate, a replaced token draws
// a random id for each piece. dst receives the ids, without [CLS] and [SEP]. When every token is dropped the first
// is kept.
func augmentPieces(dst []int32, pieces [][]int32, mask int32, draw Draw, random func() int32) []int32 {
	start := len(dst)
	for _, p := range pieces {
		switch fate(draw()) {
		case keep:
			dst = append(dst, p...)
		case masked:
			for range p {
				dst = append(dst, mask)
			}
		case replaced:
			for range p {
				dst = append(dst, random())
			}
		}
	}
	if len(dst) == start && len(pieces) > 0 {
		dst = append(dst, pieces[0]...)
	}
	return dst
}

// AugmentIDs augments a word id sequence, <start> and <end> included, by the same rule. When every id is dropped
// the first is kept.
func AugmentIDs(dst, ids []int32, mask int32, draw Draw, random func() int32) []int32 {
	start := len(dst)
	for _, id := range ids {
		switch fate(draw()) {
		case keep:
			dst = append(dst, id)
		case masked:
			dst = append(dst, mask)
		case replaced:
			dst = append(dst, random())
		}
	}
	if len(dst) == start && len(ids) > 0 {
		dst = append(dst, ids[0])
	}
	return dst
}

// KeepRegions appends the indices of the n regions that are kept: those whose draw exceeds 0.20, in order. When
// every region is dropped the first is kept.
func KeepRegions(dst []int32, n int, draw Draw) []int32 {
	start := len(dst)
	for r := range n {
		if draw() > dropRate {
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
	if u >= dropRate {
		return keep
	}
	switch v := u / dropRate; {
	case v < 0.5:
		return masked
	case v < 0.6:
		return replaced
	}
	return dropped
}
