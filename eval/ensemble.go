package eval

import (
	"fmt"
	"sync"
)

// Member is one model of an ensemble.
type Member struct {
	Name   string // for messages: the checkpoint or file
	Data   string // identifies the scored split, such as a digest of its ids and captions; equal for all members
	Scores Scores
}

// Ensemble returns the mean of the members' score matrices,
//
//	S = (S_1 + ... + S_n) / n      in float64, members in the order given,
//
// as SGRAF (SAF + SGR), VSRN, GSMN and VSE-infinity average two models before ranking. It is an error if the members
// differ in shape or were scored on different data.
func Ensemble(members ...Member) (Scores, error) {
	if len(members) == 0 {
		return nil, fmt.Errorf("ensemble of no models")
	}
	first := members[0]
	n, m := first.Scores.Dims()
	e := &ensemble{}
	for _, b := range members {
		if bn, bm := b.Scores.Dims(); bn != n || bm != m {
			return nil, fmt.Errorf("ensemble: %s has scores of %d images x %d captions, %s of %d x %d: score the "+
				"same split with every model",
				first.Name, n, m, b.Name, bn, bm)
		}
		if b.Data != first.Data {
			return nil, fmt.Errorf("ensemble: %s and %s were scored on different data (%s, %s): score the same split "+
				"with every model",
				first.Name, b.Name, first.Data, b.Data)
		}
		e.members = append(e.members, b.Scores)
	}
	if len(e.members) == 1 {
		return first.Scores, nil
	}
	return e, nil
}

type ensemble struct {
	members []Scores
	scratch sync.Pool // *[]float64
}

func (e *ensemble) Dims() (images, captions int) { return e.members[0].Dims() }

func (e *ensemble) At(i, c int) float64 {
	var s float64
	for _, m := range e.members {
		s += m.At(i, c)
	}
	return s / float64(len(e.members))
}

func (e *ensemble) Tile(dst []float64, i0, i1, c0, c1 int) {
	dst = dst[:(i1-i0)*(c1-c0)]
	buf, _ := e.scratch.Get().(*[]float64)
	if buf == nil || len(*buf) < len(dst) {
		b := make([]float64, len(dst))
		buf = &b
	}
	defer e.scratch.Put(buf)
	part := (*buf)[:len(dst)]
	clear(dst)
	for _, m := range e.members {
		m.Tile(part, i0, i1, c0, c1)
		for j, v := range part {
			dst[j] += v
		}
	}
	for j := range dst {
		dst[j] /= float64(len(e.members))
	}
}
