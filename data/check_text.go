package data

import (
	"fmt"
	"slices"
	"strings"

	"vsetrain/data/text"
)

// checkCaptions fills in what the captions hold.
func (r *Report) checkCaptions(s *Split, v *text.Vocabulary, sr *SplitReport) {
	file := s.name + "_caps.txt"
	var t text.WordSplitter
	var ids []int32
	var unknownLines []string
	lengths := make([]int, 0, s.n)
	for i := range s.n {
		words, unknown := 0, 0
		if v != nil {
			ids, unknown = v.AppendCaption(ids[:0], &t, s.Caption(i))
			words = len(ids) - 2
		} else {
			words = len(t.Words(s.Caption(i)))
		}
		lengths = append(lengths, words)
		sr.Words += words
		sr.Unknown += unknown
		if words > 0 && unknown == words {
			sr.UnknownOnly++
			if len(unknownLines) < 5 {
				unknownLines = append(unknownLines, fmt.Sprint(i+1))
			}
		}
	}
	r.checkDependencies(s, lengths)
	slices.Sort(lengths)
	sr.Lengths = LengthStats{
		Min: lengths[0], Median: lengths[s.n/2], Mean: float64(sr.Words) / float64(s.n),
		P99: lengths[(s.n-1)*99/100], Max: lengths[s.n-1],
	}
	if n, line := s.captions.empty(s.n); n > 0 {
		r.fail(file, "write a caption on each line, or remove the line together with its image row and id",
			"%d empty captions, the first is line %d", n, line)
	}
	if sr.UnknownOnly > 0 {
		r.warn(file, "build the vocabulary from these captions, or lower its threshold",
			"%d captions have no known word (lines %s): the network cannot tell them apart", sr.UnknownOnly,
			strings.Join(unknownLines, ", "))
	}
	switch warning, err := (text.Coverage{Words: sr.Words, Unknown: sr.Unknown}).Check(); {
	case err != nil && v != nil:
		r.fail(file, "", "%v", err)
	case warning != nil:
		r.warn(file, "", "%v", warning)
	}
	if sr.Dropped > 0 {
		r.warn(file, "nothing to do when this is Flickr30K or MS-COCO, whose published results use these captions",
			"only the first %d of %d captions are used", s.n, s.layout.captions)
	}
}
