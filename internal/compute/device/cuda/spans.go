package cuda

import "slices"

// span is the elements [lo, hi). spans is a set of elements: spans in order that do not touch.
type (
	span  struct{ lo, hi int }
	spans []span
)

// around returns the spans [i, j) of the set that touch [lo, hi). If there are none, i is where [lo, hi) belongs.
func (s spans) around(lo, hi int) (i, j int) {
	for i < len(s) && s[i].hi < lo {
		i++
	}
	for j = i; j < len(s) && s[j].lo <= hi; j++ {
	}
	return i, j
}

// add adds [lo, hi) to the set.
func (s *spans) add(lo, hi int) {
	if lo >= hi {
		return
	}
	i, j := s.around(lo, hi)
	if i < j {
		lo, hi = min(lo, (*s)[i].lo), max(hi, (*s)[j-1].hi)
	}
	*s = slices.Replace(*s, i, j, span{lo, hi})
}

// drop removes [lo, hi) from the set.
func (s *spans) drop(lo, hi int) {
	if lo >= hi {
		return
	}
	i, j := s.around(lo, hi)
	var left [2]span
	n := 0
	if i < j {
		first, last := (*s)[i], (*s)[j-1]
		if first.lo < lo {
			left[n] = span{first.lo, min(first.hi, lo)}
			n++
		}
		if last.hi > hi {
			left[n] = span{max(last.lo, hi), last.hi}
			n++
		}
	}
	*s = slices.Replace(*s, i, j, left[:n]...)
}

// missing returns the smallest span with all elements of [lo, hi) that are not in the set.
func (s spans) missing(lo, hi int) span {
	for _, x := range s {
		if x.lo <= lo && x.hi > lo {
			lo = x.hi
		}
		if x.lo < hi && x.hi >= hi {
			hi = x.lo
		}
	}
	return span{lo, max(lo, hi)}
}

// has reports whether the set has an element.
func (s spans) has(i int) bool {
	return slices.ContainsFunc(s, func(x span) bool { return x.lo <= i && i < x.hi })
}

// intersect removes what is not in the other set.
func (s *spans) intersect(other spans) {
	from := 0
	for _, x := range other {
		s.drop(from, x.lo)
		from = x.hi
	}
	if n := len(*s); n > 0 {
		s.drop(from, (*s)[n-1].hi)
	}
}
