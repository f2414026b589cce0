package models

import "vsetrain/internal/compute/device"

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

// Bytes are the bytes of the values of a set.
func (s *EncodedSet) Bytes() int64 {
	n := int64(0)
	for _, rows := range [2][]Rows{s.Values, s.Words} {
		for _, r := range rows {
			n += 4 * int64(len(r.Data))
		}
	}
	return n
}

// BytesOf are the bytes of the values of images or captions [lo, hi).
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
func (s *EncodedSet) IsResident(lo, hi int) bool { return s.resident.has(lo, hi) }

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

// residentRows are the rows of images or captions [lo, hi) of a set on the device.
type residentRows struct {
	lo, hi        int
	values, words []device.View // buffers, at least as large as the rows
	width         []int         // of values
	wordWidth     []int
}

func (p *residentRows) has(lo, hi int) bool { return p != nil && lo >= p.lo && hi <= p.hi }

// rows is the part of values k of items [lo, hi), absent if they are not resident.
func (p *residentRows) rows(k, lo, hi int) device.View {
	if !p.has(lo, hi) {
		return device.View{}
	}
	w := p.width[k]
	return p.values[k].Slice((lo-p.lo)*w, (hi-p.lo)*w)
}

// wordRows is the part of the words of captions [lo, hi), capacity rows, absent if they are not resident.
func (p *residentRows) wordRows(k, lo, hi int, first []int, capacity int) device.View {
	if !p.has(lo, hi) {
		return device.View{}
	}
	at, w := first[lo]-first[p.lo], p.wordWidth[k]
	if (at+capacity)*w > p.words[k].N {
		return device.View{}
	}
	return p.words[k].Slice(at*w, (at+capacity)*w)
}
