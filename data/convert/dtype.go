package convert

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
)

// The type of raw bytes follows from their number where the number of values is known; otherwise the values have to
// tell it. Of the 16-bit words of floating-point numbers, those that begin a number, little-endian its last word, hold
// its sign and exponent, and the exponents of many features are alike in their upper six bits. The upper bits of the
// other words are of the mantissa: every pattern occurs as often as any other. So the words of four places in turn, the
// words of 8 bytes, are heads (H) and mantissas (M): HHHH is float16, MHMH float32, MMMH float64. Whatever looks
// otherwise, such as whole numbers and features of two columns that differ, is not decided.

const (
	places    = 4    // of words whose statistics are kept apart
	mostWords = 2048 // of a place that are looked at
	someWords = 20   // different ones, from which a place can be judged
)

// wordStats are the different words, zero aside, that occur at each place.
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

// size returns how many bytes a value has, of which width are the bytes of a region; 0 where the words do not tell.
func (w *wordStats) size(width int) int {
	if width%4 != 0 {
		return 2 // the only type of which a whole number of values fits
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

// place holds how often each pattern of the upper six bits occurs among the different words of a place.
type place struct {
	upper    [64]float64
	n, signs float64
}

func (p *place) add(word uint16) {
	p.upper[word>>10]++
	p.n++
	p.signs += float64(word >> 15)
}

// kind returns H where the words are heads like the words of another place, M where they are mantissas, or ?. Two words
// of a mantissa have the same upper bits once in 64 times, two heads once in 16 at least.
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

// choose returns the bytes of a value: from the options, otherwise from the number of values, otherwise from the values.
// width is the number of bytes of a region.
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
		return 0, fmt.Errorf("features of %d bytes a region are no whole number of %s values (--source-dtype)", width,
			typeName(given))
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
	return 0, fmt.Errorf("features of %d bytes a region: they may be %s values, and the bytes do not tell which; say "+
		"it with --source-dtype f16, f32 or f64, or give the number of values with --dim", width,
		strings.Join(may, " or "))
}
