package train

import (
	"slices"

	"vsetrain/loss"
)

// HardNegatives counts the different hard negatives that the last step chose: captions over all images (#DesEmbs of the LSEH
// paper) and images over all captions (#ImEmbs), each between 1 and the batch (specification, analysis.md §2). All anchors
// count, also those without a violation. Both are 0 before the first step.
func (s *Step) HardNegatives() (captions, images int) {
	if s.last == nil {
		return 0, 0
	}
	return s.distinct(loss.HardCaption), s.distinct(loss.HardImage)
}

// distinct counts the different values of an int32 buffer that the loss keeps.
func (s *Step) distinct(buffer int) int {
	v := s.last.vm.Kept(s.last.loss, buffer)
	index := make([]int32, v.N)
	s.model.Session.Dev.DownloadInts(index, v)
	slices.Sort(index)
	return len(slices.Compact(index))
}
