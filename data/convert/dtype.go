package convert

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
)

// The type of raw bytes follows from their number if the number of values is known; otherwise it is derived from the
// values. The last 16-bit word of a little-endian floating-point number holds its sign and exponent, and most features
// have similar exponents, so few patterns of its upper six bits occur. In the other words, which hold the mantissa, all
// patterns occur equally often. So the four words of 8 bytes are heads (H) or mantissas (M): HHHH is float16, MHMH
// float32, MMMH float64. Anything else, such as whole numbers or features whose columns differ, is ambiguous.

const (
	places    = 4    // of words with statistics of their own
	mostWords = 2048 // examined words of a place
	someWords = 20   // different words that a place needs for a decision
)

// wordStats are the different words except zero that occur at each place.
type wordStats struct {
	seen [places]map[uint16]bool
	n    [places]int // with repetitions
}

// add counts the words of the features of one region.
func (w *wordStats) add(row []byte) {
	for i := 0; i+2 <= len(row); i += 2 {
		p, word := i/2%places, binary.LittleEndian.Uint16(row[i:])
		if word == 0 || w.n[p] == mostWords {
			continue
		}
		if w.seen[p] == nil {
			w.seen[p] = map[uint16]bool{}
		}
		w.seen[p][word] = true
		w.n[p]++
	}
}

// size returns the number of bytes of a value, 0 if it is ambiguous; width is the number of bytes of a region.
func (w *wordStats) size(width int) int {
	if width%4 != 0 {
		return 2 // the only type with a whole number of values
	}
	period := places
	if width%8 != 0 {
		period = 2 // regions begin at either half, and float64 does not fit
	}
	places := make([]place, period)
	for p, seen := range w.seen {
		for word := range seen {
			places[p%period].add(word)
		}
	}
	head, kinds := places[period-1], ""
	for _, p := range places {
		kinds += p.kind(head)
	}
	return map[string]int{"HH": 2, "HHHH": 2, "MH": 4, "MHMH": 4, "MMMH": 8}[kinds]
}

// place counts the patterns of the upper six bits among the different words of a place.
type place struct {
	upper    [64]float64
	n, signs float64
}

func (p *place) add(word uint16) {
	p.upper[word>>10]++
	p.n++
	p.signs += float64(word >> 15)
}

// kind returns H if the words are heads like the words of another place, M if they are mantissas, or ?. Two words of a
// mantissa have the same upper bits in one of 64 cases, two heads in at least one of 16.
func (p *place) kind(head place) string {
	if p.n < someWords {
		return "?"
	}
	equal, product, squares := 0., 0., 0.
	for i, c := range p.upper {
		equal += c * (c - 1)
		product += c * head.upper[i]
		squares += head.upper[i] * head.upper[i]
	}
	alike := product / math.Sqrt((equal+p.n)*squares) // the cosine of both counts
	equal /= p.n * (p.n - 1)
	signs := p.signs / p.n
	switch {
	case equal >= 1./16 && alike >= 0.5:
		return "H"
	case equal <= 1./32 && alike < 0.5 && signs > 0.2 && signs < 0.8:
		return "M"
	}
	return "?"
}

// valueSizes are the bytes of a value of each SourceType; typeName is what NumPy calls the type.
var valueSizes = map[string]int{"f16": 2, "f32": 4, "f64": 8}

func typeName(size int) string { return fmt.Sprintf("float%d", 8*size) }

// choose returns the bytes of a value: from the options, otherwise from the number of values, otherwise from the
// values. width is the number of bytes of a region.
func (o *Options) choose(width int, w *wordStats) (int, error) {
	given, size := valueSizes[o.SourceType], 0
	if o.Dim > 0 {
		size = width / o.Dim // survey leaves no other widths
	}
	switch {
	case given > 0 && size > 0 && given != size:
		return 0, fmt.Errorf("features of %d bytes a region: %d values (--dim) are %s, but --source-dtype says %s",
			width, o.Dim, typeName(size), typeName(given))
	case given > 0 && width%given != 0:
		return 0, fmt.Errorf("features of %d bytes a region are not a whole number of %s values (--source-dtype)",
			width, typeName(given))
	case given > 0:
		return given, nil
	case size > 0:
		return size, nil
	}
	if size = w.size(width); size > 0 {
		return size, nil
	}
	var may []string
	for _, s := range []int{2, 4, 8} {
		if width%s == 0 {
			may = append(may, fmt.Sprintf("%d %s", width/s, typeName(s)))
		}
	}
	return 0, fmt.Errorf("features of %d bytes a region: they may be %s values; say which with "+
		"--source-dtype f16, f32 or f64, or give the number of values with --dim", width,
		strings.Join(may, " or "))
}
