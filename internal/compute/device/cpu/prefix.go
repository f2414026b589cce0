package cpu

import (
	"hash/maphash"
	"slices"
	"unsafe"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/vec"
)

// A GRU whose weights are held (device.Freezer) belongs to evaluation: no gradient follows. It computes once what
// captions have in common: the products of equal words with the input weights, and the states after equal prefixes, of
// a backward GRU equal suffixes. Equal rows of products have equal bits wherever they stand (package gemm), so the
// states are the same as for captions that are computed one by one.

// distinct is the different rows of a matrix.
type distinct[T vec.Float] struct {
	of   []int32 // of each row its number among the different ones
	n    int
	rows []T // [n, width]
	seed maphash.Seed
	seen map[uint64]int32
}

// find compares the rows of x [rows, width] bit by bit.
func (d *distinct[T]) find(x []T, rows, width int) {
	if d.seen == nil {
		d.seed, d.seen = maphash.MakeSeed(), map[uint64]int32{}
	}
	clear(d.seen)
	d.n, d.of = 0, d.of[:0]
	distinct := scratch(&d.rows, rows*width)
	for i := range rows {
		row := x[i*width : (i+1)*width]
		hash := maphash.Bytes(d.seed, bytesOf(row))
		n, ok := d.seen[hash]
		if !ok || string(bytesOf(row)) != string(bytesOf(distinct[int(n)*width:][:width])) {
			n = int32(d.n)
			d.seen[hash] = n
			copy(distinct[d.n*width:], row)
			d.n++
		}
		d.of = append(d.of, n)
	}
}

// bytesOf is the memory of values.
func bytesOf[T vec.Float](x []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), len(x)*int(unsafe.Sizeof(*new(T))))
}

// prefixes are the different prefixes of a batch, by length, and those that captions continue before others.
type prefixes struct {
	word   []int32 // of each its last word
	before []int32 // of each the prefix without that word, -1 for none
	first  []int   // of each length, from 1 on, and their number at the end
	going  []int   // of each length how many are continued: the first ones
	of     []int32 // of each packed row the prefix that ends there
	last   []int32 // of each caption the longest
	seen   map[[2]int32]int32
}

// find finds the prefixes of captions, longest first, from the word of each packed row. Backward, they are the numbers
// of the captions read from their ends.
func (p *prefixes) find(pack *device.Packing, lengths, words []int32, backward bool) {
	if p.seen == nil {
		p.seen = map[[2]int32]int32{}
	}
	clear(p.seen)
	p.word, p.before, p.first, p.going, p.last = p.word[:0], p.before[:0], p.first[:0], p.going[:0], p.last[:0]
	for range lengths {
		p.last = append(p.last, -1)
	}
	p.of = append(p.of[:0], words...)
	for step := range pack.Steps() {
		start := len(p.word)
		for b := range pack.Active(step) {
			row := pack.Start(step) + b
			if backward {
				row = pack.Start(int(lengths[b])-1-step) + b
			}
			key := [2]int32{p.last[b], words[row]}
			n, ok := p.seen[key]
			if !ok {
				n = int32(len(p.word))
				p.seen[key], p.before, p.word = n, append(p.before, key[0]), append(p.word, key[1])
				if step > 0 {
					p.going[step-1] = max(p.going[step-1], int(key[0])-p.first[step-1]+1)
				}
			}
			p.of[row], p.last[b] = n, n
		}
		p.first, p.going = append(p.first, start), append(p.going, 0)
	}
	p.first = append(p.first, len(p.word))
}

// prefixStep computes the states after the prefixes of one length.
type prefixStep[T vec.Float] struct {
	ops           *vec.Ops[T]
	p             *prefixes
	h, lo, hi     int // prefixes [lo, hi)
	per           int
	origin        int // the first prefix of the length before
	gates, states []T // of words, rows of 4H; of prefixes
	hidden, bias  []T // W_hh h + b_hh of the prefixes of the length before
	work          []T // of each thread a row of gates, and of the state before
	zeros         []T
}

func (l *prefixStep[T]) Do(worker, i int) {
	h := l.h
	work := l.work[worker*5*h : (worker+1)*5*h]
	for n := l.lo + i*l.per; n < min(l.hi, l.lo+(i+1)*l.per); n++ {
		gh, before := l.bias, l.zeros
		if b := int(l.p.before[n]); b >= 0 {
			gh, before = l.hidden[(b-l.origin)*3*h:][:3*h], l.states[b*h:(b+1)*h]
		}
		copy(work[:3*h], l.gates[int(l.p.word[n])*4*h:])
		l.ops.GRUCell(work[:4*h], gh, before, l.states[n*h:(n+1)*h], work[4*h:])
	}
}

// prefixRows copies the states of prefixes to the rows of the words they end with.
type prefixRows[T vec.Float] struct {
	of        []int32
	h, per    int
	states, y []T
}

func (l *prefixRows[T]) Do(_, i int) {
	for row := i * l.per; row < min(len(l.of), (i+1)*l.per); row++ {
		copy(l.y[row*l.h:(row+1)*l.h], l.states[int(l.of[row])*l.h:])
	}
}

// forwardHeld is forward for weights that are held. The gates of o are the gates of the different words; what is kept
// for the gradient is overwritten.
func (s *recurrence[T]) forwardHeld(o *gruOperands[T]) {
	h, batch, p := o.a.H, len(o.a.Lengths.Host), &s.prefixes
	p.find(o.pack, o.a.Lengths.Host, o.words, o.a.Reverse)
	hidden := scratch(&s.hidden, batch*3*h)
	l := &s.prefixStep
	*l = prefixStep[T]{ops: s.ops, p: p, h: h, per: group(4 * h), gates: o.gates, states: o.prev, hidden: hidden,
		bias: o.bhh, work: scratch(&s.carry, s.pool.Threads()*5*h), zeros: s.zeroRow(h)}
	s.products.pack(true, h, 3*h, o.whh, h, true)
	for n := range p.going {
		if n > 0 {
			l.origin = p.first[n-1]
			s.continued(o, n, hidden)
		}
		l.lo, l.hi = p.first[n], p.first[n+1]
		s.pool.For(pieces(l.hi-l.lo, l.per), l)
	}
	s.prefixRows = prefixRows[T]{of: p.of, h: h, per: group(h), states: o.prev, y: o.y}
	s.pool.For(pieces(len(p.of), s.prefixRows.per), &s.prefixRows)
	if o.final != nil {
		s.prefixRows.of, s.prefixRows.y = p.last, o.final
		s.pool.For(pieces(batch, s.prefixRows.per), &s.prefixRows)
	}
}

// opening is the product after the one word that all captions of a batch begin with, with what led to it.
type opening[T vec.Float] struct{ gates, hidden []T }

// continued computes W_hh h + b_hh of the prefixes of n words that are continued. Where all captions begin with one
// word, <start> or backward <end>, it is kept for the next batch.
func (s *recurrence[T]) continued(o *gruOperands[T], n int, hidden []T) {
	p, h := &s.prefixes, o.a.H
	var gates []T // of the one word
	if n == 1 && p.first[1] == 1 {
		gates = o.gates[int(p.word[0])*4*h:][:3*h]
		if k := s.openings[&o.whh[0]]; string(bytesOf(k.gates)) == string(bytesOf(gates)) {
			copy(hidden, k.hidden)
			return
		}
	}
	s.p = product[T]{m: p.going[n-1], n: 3 * h, k: h, alpha: 1, even: true, a: o.prev[p.first[n-1]*h:], lda: h,
		c: hidden, ldc: 3 * h, bias: o.bhh}
	s.products.gemmPacked(&s.p)
	if gates != nil {
		if s.openings == nil {
			s.openings = map[*T]opening[T]{}
		}
		s.openings[&o.whh[0]] = opening[T]{slices.Clone(gates), slices.Clone(hidden[:3*h])}
	}
}
