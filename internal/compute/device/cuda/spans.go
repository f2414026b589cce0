package cuda

// span is the elements [lo, hi), spans a set of elements: spans in order that do not touch.
type (
	span  struct{ lo, hi int }
	spans []span
)

// around returns the spans [i, j) of the set that touch [lo, hi), which may be none: then i is where it belongs.
func (s spans) around(lo, hi int) (i, j int) {
	for i < len(s) && s[i].hi < lo {
		i++
	}
	for j = i; j < len(s) && s[j].lo <= hi; j++ {
	}
	return i, j
}

// replace puts n spans in the place of spans [i, j). It allocates only where the set becomes larger than ever before.
func (s *spans) replace(i, j, n int, with [2]span) {
	old := *s
	tail := len(old) - j
	for len(*s) < i+n+tail {
		*s = append(*s, span{})
	}
	copy((*s)[i+n:], old[j:])
	copy((*s)[i:], with[:n])
	*s = (*s)[:i+n+tail]
}

// add puts [lo, hi) into the set.
func (s *spans) add(lo, hi int) {
	if lo >= hi {
		return
	}
	i, j := s.around(lo, hi)
	if i < j {
		lo, hi = min(lo, (*s)[i].lo), max(hi, (*s)[j-1].hi)
	}
	s.replace(i, j, 1, [2]span{{lo, hi}})
}

// drop takes [lo, hi) out of the set.
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
	s.replace(i, j, n, left)
}

// missing returns the smallest span that holds what [lo, hi) has beyond the set: empty if the set has it all.
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
	for _, x := range s {
		if x.lo <= i && i < x.hi {
			return true
		}
	}
	return false
}

// intersect takes out of the set what another does not hold.
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
