package models

// EncodedSet is what a PairScorer computed of the images or of the captions of a split, on the host and in the order
// they were appended.
type EncodedSet struct {
	N      int
	Values []Rows  // a row per image or caption
	Words  []Rows  // captions: a row per word
	Length []int32 // captions: words of each
	First  []int   // captions: row of the first word of each, and the total at the end

	Edges, EdgeStart []int32 // captions: dependencies, see Captions; empty if there are none

	resident *residentRows // the part that is on the device, see MakeResident
}

// Rows are rows of one width.
type Rows struct {
	Width int
	Data  []float32
}

func (r *Rows) rows(lo, hi int) []float32 { return r.Data[lo*r.Width : hi*r.Width] }

// appendEdges appends the dependencies of captions that were encoded, if the network reads any.
func (s *EncodedSet) appendEdges(edges, start []int32) {
	if len(start) == 0 {
		return
	}
	if len(s.EdgeStart) == 0 {
		s.EdgeStart = append(s.EdgeStart, 0)
	}
	at := s.EdgeStart[len(s.EdgeStart)-1]
	for _, e := range start[1:] {
		s.EdgeStart = append(s.EdgeStart, at+e)
	}
	s.Edges = append(s.Edges, edges...)
}

// edgesOf returns the dependencies of captions [c0, c1).
func (s *EncodedSet) edgesOf(c0, c1 int) (edges, start []int32) {
	if len(s.EdgeStart) <= c1 {
		return nil, nil
	}
	start = s.EdgeStart[c0 : c1+1]
	return s.Edges[2*start[0] : 2*start[c1-c0]], start
}

// Pick returns the set of some images or captions of a set, in the order given; their values are copied. Captions must
// be ordered by descending length, as everywhere.
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
			p.appendEdges(e, []int32{0, start[1] - start[0]})
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
