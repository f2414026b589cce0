package models

import "vsetrain/internal/compute/device"

// EncodedSet holds the results of a PairScorer for the images or for the captions of a split, in host memory and in the
// order in which they were appended.
type EncodedSet struct {
	N      int
	Values []Rows  // a row per image or caption
	Words  []Rows  // captions: a row per word
	Length []int32 // captions: number of words of each
	First  []int   // captions: row of the first word of each, and at the end the total

	Edges, EdgeStart []int32 // captions: dependencies, see Captions; empty if there are none

	resident *residentRows // the part that is on the device, see MakeResident
}

// Rows are rows of one width.
type Rows struct {
	Width int
	Data  []float32
}

func (r *Rows) rows(lo, hi int) []float32 { return r.Data[lo*r.Width : hi*r.Width] }

// Bytes is the memory of the values of a set.
func (s *EncodedSet) Bytes() int64 { return s.BytesOf(0, s.N) }

// BytesOf is the memory of the values of images or captions [lo, hi).
func (s *EncodedSet) BytesOf(lo, hi int) int64 {
	n := int64(0)
	for _, r := range s.Values {
		n += 4 * int64(hi-lo) * int64(r.Width)
	}
	for _, r := range s.Words {
		n += 4 * int64(s.First[hi]-s.First[lo]) * int64(r.Width)
	}
	return n
}

// IsResident reports whether images or captions [lo, hi) are on the device.
func (s *EncodedSet) IsResident(lo, hi int) bool {
	return s.resident != nil && lo >= s.resident.lo && hi <= s.resident.hi
}

// appendEdges appends the dependencies of captions, if the network reads any.
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

// Pick copies some images or captions of a set into a new set, in the order given. Captions must be in descending order
// of length.
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

// residentRows are the rows of images or captions [lo, hi) of a set on the device.
type residentRows struct {
	lo, hi        int
	values, words []device.View // buffers, at least as large as the rows
}

// residentValues returns values k of items [lo, hi) on the device, absent if they are not resident.
func (s *EncodedSet) residentValues(k, lo, hi int) device.View {
	if !s.IsResident(lo, hi) {
		return device.View{}
	}
	p, w := s.resident, s.Values[k].Width
	return p.values[k].Slice((lo-p.lo)*w, (hi-p.lo)*w)
}

// residentWords returns the words k of captions [lo, hi) on the device, capacity rows, absent if they are not resident.
func (s *EncodedSet) residentWords(k, lo, hi, capacity int) device.View {
	if !s.IsResident(lo, hi) {
		return device.View{}
	}
	p, w := s.resident, s.Words[k].Width
	at := s.First[lo] - s.First[p.lo]
	if (at+capacity)*w > p.words[k].N {
		return device.View{}
	}
	return p.words[k].Slice(at*w, (at+capacity)*w)
}
