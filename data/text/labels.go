package text

// FillCaptionLabels writes the targets of VSRN's captioning branch for the word ids of a caption (without <start> and
// <end>) to labels and mask, maxLen+1 elements each, at least 3: labels = <start>, words, <end>, zero padded. A
// sequence longer than maxLen-1 keeps its first maxLen ids, the last overwritten with <end>. mask is 1 up to and
// including the first <pad>, which thereby is a target too (VSRN, dataset preprocessing and misc/utils.py).
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
