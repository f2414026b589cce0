package train

import "math"

// Negatives counts the different hard negatives of a mini-batch of N pairs, which the LSEH paper plots for VSRN. With
// scores S and margins M, the hard negatives (off the diagonal, the lowest index of equals) are
//
//	of image i    the caption j with the largest M_ij + S_ij - S_ii    (#DesEmbs in the LSEH paper)
//	of caption j  the image i with the largest   M_ij + S_ij - S_jj    (#ImEmbs)
//
// Each count is between 1 and N. The Active counts include only negatives that violate their margin, so they may be 0.
type Negatives struct {
	Captions, Images             int
	ActiveCaptions, ActiveImages int
}

// countNegatives counts for scores and margins [n, n], image by image. If margins is nil, the margin is constant.
func countNegatives[T float32 | float64](n int, scores, margins []T, constant float64) Negatives {
	hinge := func(i, j, match int) float64 {
		m := constant
		if margins != nil {
			m = float64(margins[i*n+j])
		}
		return m + float64(scores[i*n+j]) - float64(scores[match*n+match])
	}
	var c Negatives
	c.Captions, c.ActiveCaptions = distinct(n, func(i, j int) float64 { return hinge(i, j, i) })
	c.Images, c.ActiveImages = distinct(n, func(j, i int) float64 { return hinge(i, j, j) })
	return c
}

// distinct counts the different negatives with the largest hinge of an anchor: of all anchors, and of the anchors whose
// largest hinge is positive.
func distinct(n int, hinge func(anchor, negative int) float64) (all, active int) {
	const seen, violated = 1, 2
	marks := make([]uint8, n)
	for a := range n {
		best, at := math.Inf(-1), -1
		for b := range n {
			if b == a {
				continue
			}
			if h := hinge(a, b); h > best {
				best, at = h, b
			}
		}
		if at < 0 { // a batch of one pair
			continue
		}
		marks[at] |= seen
		if best > 0 {
			marks[at] |= violated
		}
	}
	for _, m := range marks {
		all += int(m & seen)
		active += int(m & violated >> 1)
	}
	return all, active
}

// Scored holds the inputs of the loss for the batch of a step.
type Scored struct {
	Captions []int32   // [n] indices of the captions in the training split
	Scores   []float32 // [n, n], image by image
	Margins  []float32 // [n, n]; nil if the margin is Constant
	Constant float64
}

// Last returns the batch of the last step. Before the first step it is empty.
func (s *Step) Last() Scored {
	if s.last == nil {
		return Scored{}
	}
	dev, v := s.model.Instance.Dev, s.last.vm.View(s.last.scores)
	b := Scored{Captions: s.captions, Scores: make([]float32, v.N), Constant: s.loss.Margin}
	dev.DownloadFloats(b.Scores, v)
	if s.last.margins != nil {
		b.Margins = make([]float32, v.N)
		dev.DownloadFloats(b.Margins, s.last.vm.View(s.last.margins))
	}
	return b
}

// Negatives counts the hard negatives of the batch. All counts of an empty batch are 0.
func (b *Scored) Negatives() Negatives {
	n := int(math.Sqrt(float64(len(b.Scores))))
	return countNegatives(n, b.Scores, b.Margins, b.Constant)
}
