package text

import "fmt"

// CaptionLabels returns the targets of VSRN's captioning branch for the word ids of a caption (without <start> and
// <end>): labels = <start>, words, <end>, zero padded to maxLen+1. A sequence longer than maxLen-1 keeps its first
// maxLen ids, the last overwritten with <end>. mask is 1 up to and including the first <pad>, which thereby is
// a target too (VSRN, dataset preprocessing and misc/utils.py).
func CaptionLabels(words []int32, maxLen int) (labels, mask []int32, err error) {
	if maxLen < 2 {
		return nil, nil, fmt.Errorf("caption labels: maximum length %d; <start> and <end> need 2", maxLen)
	}
	labels, mask = make([]int32, maxLen+1), make([]int32, maxLen+1)
	FillCaptionLabels(labels, mask, words)
	return labels, mask, nil
}

// FillCaptionLabels is CaptionLabels into memory of maxLen+1 elements each, at least 3.
func FillCaptionLabels(labels, mask, words []int32) {
	maxLen := len(labels) - 1
	clear(labels)
	clear(mask)
	labels[0] = Start
	n := 1 + copy(labels[1:maxLen], words)
	if n < len(words)+1 || n == maxLen {
		n = maxLen - 1
	}
	labels[n] = End
	for z := 0; z <= n+1; z++ {
		mask[z] = 1
	}
}
