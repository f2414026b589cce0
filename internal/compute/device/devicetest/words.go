package devicetest

import (
	"fmt"

	"vsetrain/internal/compute/device"
)

// lengthCases are batches of captions: equal, ragged, single words, one caption, and one of realistic size.
func (h *harness) lengthCases() [][]int32 {
	realistic := make([]int32, 23)
	n := int32(20)
	for i := range realistic {
		realistic[i] = n
		n = max(2, n-int32(h.rng.IntN(3)))
	}
	return [][]int32{{1}, {4}, {3, 3}, {4, 2, 1}, {7, 7, 5, 1, 1, 1}, {1, 1, 1, 1}, realistic}
}

// packed lists (caption, step) of every packed row, by the definition of device.Packing.
func packed(lengths []int32) (rows [][2]int) {
	for t := range lengths[0] {
		for b, n := range lengths {
			if n > t {
				rows = append(rows, [2]int{b, int(t)})
			}
		}
	}
	return rows
}

func testWords(h *harness) {
	for n, lengths := range h.lengthCases() {
		for _, s := range [][2]int{{3, 1}, {50, 37}, {200, 300}} {
			v, d, b := s[0], s[1], len(lengths)
			columns := int(lengths[0]) + n%3
			words := make([]int32, b*columns)
			for i := range words {
				words[i] = guardInt // padding is never read
			}
			rows := packed(lengths)
			for _, r := range rows {
				words[r[0]*columns+r[1]] = int32(min(h.rng.IntN(v), h.rng.IntN(v))) // frequent and rare words
			}
			table, dout := h.normal(v*d, 1), h.normal(len(rows)*d, 1)
			out, dtable := make([]float64, len(rows)*d), make([]float64, v*d)
			for p, r := range rows {
				w := int(words[r[0]*columns+r[1]])
				copy(out[p*d:(p+1)*d], table[w*d:])
				for k := range d {
					dtable[w*d+k] += dout[p*d+k]
				}
			}
			what := fmt.Sprintf("words of %v, table [%d, %d]", lengths, v, d)
			a := device.GatherWords{Words: h.inInts(words), Lengths: h.inInts(lengths), L: columns, V: v, D: d,
				Table: h.in(table), Out: h.out(len(rows)*d + 3)}
			h.run("GatherWords: "+what, func() { device.Do(h.d, a) })
			h.equal("GatherWords: "+what, a.Out.Slice(0, len(rows)*d), out, 0)
			h.steady("GatherWords: "+what, func() { device.Do(h.d, a) })
			a.Table, a.Out = h.out(v*d), h.in(dout)
			h.run("ScatterWords: "+what, func() { device.DoGrad(h.d, a) })
			h.equal("ScatterWords: "+what, a.Table, dtable, h.tol.product)
			h.steady("ScatterWords: "+what, func() { device.DoGrad(h.d, a) })
			h.release()
		}
	}
}
