package cpu

import "vsetrain/internal/compute/vec"

// matchSparse knows the pairs that have a gradient after BlockMatch, and the words of a group of images that belong to
// them: the pairs of captions that have a gradient with an image of the group. Where they are few, products are made of
// them alone.
type matchSparse[T vec.Float] struct {
	*blockMatch[T]
	phase sparsePhase
	pairs []bool // [B, C]: those with a gradient
	start []int  // [C]: row of a caption's first word among the rows of the group, -1 where it has none
	few   []T    // [taken, E]: the words, and then their gradients; absent where all words are taken
}

type sparsePhase uint8

const (
	sparsePairs  sparsePhase = iota // find the pairs of an image
	sparseGather                    // copy the words of a caption
	sparseAdd                       // add their gradients
)

// find marks the pairs with a gradient.
func (m *matchSparse[T]) find() {
	m.pairs = reserve(&m.pairs, m.a.B*m.c)
	m.phase = sparsePairs
	m.d.pool.For(m.a.B, m)
}

// has reports whether an image has a gradient with caption c.
func (m *matchSparse[T]) has(image, c int) bool { return m.pairs[image*m.c+c] }

// take chooses the words of the group and returns their vectors.
func (m *matchSparse[T]) take() []T {
	m.group()
	m.start, m.taken = m.start[:0], 0
	for c := range m.c {
		at := -1
		for i := range m.images {
			if m.has(m.image+i, c) {
				at = m.taken
				m.taken += m.first[c+1] - m.first[c]
				break
			}
		}
		m.start = append(m.start, at)
	}
	if 4*m.taken > 3*m.t { // copying would cost more than it saves
		m.start, m.taken, m.few = append(m.start[:0], m.first[:m.c]...), m.t, m.few[:0]
		return m.words
	}
	m.few = scratch(&m.few, m.taken*m.a.E)
	m.phase = sparseGather
	m.d.pool.For(m.c, m)
	return m.few
}

// put adds the gradients of the words taken to the gradients of all words.
func (m *matchSparse[T]) put() {
	m.phase = sparseAdd
	m.d.pool.For(m.c, m)
}

func (m *matchSparse[T]) Do(_, i int) {
	if m.phase == sparsePairs {
		b, size := m.a.Blocks, m.a.R*m.a.Blocks
		for c := range m.c {
			at := i*m.c + c
			m.pairs[at] = !m.ops.Zero(m.dRegMatch[at*size:(at+1)*size]) ||
				!m.ops.Zero(m.dWordMatch[(i*m.t+m.first[c])*b:(i*m.t+m.first[c+1])*b])
		}
		return
	}
	if m.start[i] < 0 {
		return
	}
	lo, n := m.first[i]*m.a.E, (m.first[i+1]-m.first[i])*m.a.E
	few := m.few[m.start[i]*m.a.E:][:n]
	if m.phase == sparseGather {
		copy(few, m.words[lo:lo+n])
	} else {
		m.ops.Add(m.dWords[lo:lo+n], m.dWords[lo:lo+n], few)
	}
}
