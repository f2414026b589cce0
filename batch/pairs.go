package batch

// Pairs are the pairs of a batch that one rank computes: images, and the captions that belong to them.
type Pairs struct {
	Images
	Captions
	All       *Captions // of all ranks; nil for one rank
	Positions []int32   // positions of the pairs in the batch; nil is all
}

// Whole returns the captions of all ranks.
func (p *Pairs) Whole() *Captions {
	if p.All == nil {
		return &p.Captions
	}
	return p.All
}
