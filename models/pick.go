package models

// Pick returns the set of some images or captions of a set, in the order given; their values are copied. For captions that order must be
// one of descending lengths, as everywhere.
func (s *EncodedSet) Pick(of []int32) *EncodedSet {
	p := &EncodedSet{N: len(of), Values: make([]Rows, len(s.Values)), Words: make([]Rows, len(s.Words))}
	for k := range s.Values {
		v := &s.Values[k]
		p.Values[k] = Rows{Width: v.Width, Data: make([]float32, 0, len(of)*v.Width)}
		for _, i := range of {
			p.Values[k].Data = append(p.Values[k].Data, v.rows(int(i), int(i)+1)...)
		}
	}
	if len(s.First) == 0 {
		return p
	}
	p.First = append(p.First, 0)
	for _, c := range of {
		p.Length = append(p.Length, s.Length[c])
		p.First = append(p.First, p.First[len(p.First)-1]+int(s.Length[c]))
		if e, start := s.edgesOf(int(c), int(c)+1); start != nil {
			p.AppendEdges(e, []int32{0, start[1] - start[0]})
		}
	}
	for k := range s.Words {
		v := &s.Words[k]
		p.Words[k] = Rows{Width: v.Width, Data: make([]float32, 0, p.First[len(of)]*v.Width)}
		for _, c := range of {
			p.Words[k].Data = append(p.Words[k].Data, v.rows(s.First[c], s.First[c+1])...)
		}
	}
	return p
}
