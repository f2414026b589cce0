package semantic

import (
	"math"
	"slices"

	"vsetrain/internal/compute/par"
	"vsetrain/internal/compute/sparse"
)

// tfidf is the term matrix of a list of captions, the same as scikit-learn's TfidfVectorizer(stop_words="english")
// computes:
//
//	idf(t)  = ln((1 + N) / (1 + df(t))) + 1
//	A[c, t] = count(t in c) idf(t) / norm of the row
//
// with df(t) the number of captions that contain t, and N the number of all captions, including empty ones.
type tfidf struct {
	Matrix     *sparse.CSR // A [N, w]; rows have norm 1, or 0 where a caption has no term
	Vocabulary []string    // the term of each column, in code point order
	DF         []int       // captions that contain the term
	IDF        []float64
	Empty      int // captions without a term
}

// linesPerTask is the number of captions that one task of the pool reads.
const linesPerTask = 2048

// newTFIDF builds the term matrix of lines. The result does not depend on the number of threads.
func newTFIDF(pool *par.Pool, lines []string) *tfidf {
	l := &lexer{lines: lines, workers: make([]lexerWorker, pool.Threads())}
	tasks := (len(lines) + linesPerTask - 1) / linesPerTask
	l.chunks = make([]lexed, tasks)
	pool.For(tasks, l)

	t := &tfidf{Vocabulary: l.vocabulary()}
	w := len(t.Vocabulary)
	a := &sparse.CSR{Rows: len(lines), Cols: w, RowPtr: make([]int, len(lines)+1)}
	nnz := 0
	for _, c := range l.chunks {
		for i, n := range c.distinct {
			a.RowPtr[c.first+i] = int(n) // lengths; summed up to pointers below
			nnz += int(n)
			if n == 0 {
				t.Empty++
			}
		}
	}
	for i, at := 0, 0; i <= len(lines); i++ {
		n := a.RowPtr[i]
		a.RowPtr[i] = at
		at += n
	}
	a.Col, a.Val = make([]int32, nnz), make([]float64, nnz)
	t.Matrix = a
	pool.For(tasks, par.Func(func(_, i int) { l.fill(i, a) }))

	t.DF = make([]int, w)
	for _, c := range a.Col {
		t.DF[c]++
	}
	t.IDF = make([]float64, w)
	for i, df := range t.DF {
		t.IDF[i] = math.Log(float64(1+len(lines))/float64(1+df)) + 1
	}
	pool.For(tasks, par.Func(func(_, i int) { t.weigh(i) }))
	return t
}

// weigh turns the counts of one task's rows into normalised weights.
func (t *tfidf) weigh(task int) {
	a := t.Matrix
	for r := task * linesPerTask; r < min(a.Rows, (task+1)*linesPerTask); r++ {
		cols, vals := a.Col[a.RowPtr[r]:a.RowPtr[r+1]], a.Val[a.RowPtr[r]:a.RowPtr[r+1]]
		var sum float64
		for i, c := range cols {
			vals[i] *= t.IDF[c]
			sum += vals[i] * vals[i]
		}
		norm := math.Sqrt(sum)
		for i := range vals {
			vals[i] /= norm
		}
	}
}

// lexer turns captions into lists of term numbers. Each worker numbers terms in the order in which it finds them. At
// the end these numbers become indices into the sorted vocabulary, so the result does not depend on scheduling.
type lexer struct {
	lines   []string
	workers []lexerWorker
	chunks  []lexed
}

type lexerWorker struct {
	words map[string][]int32 // word of a caption -> its terms
	ids   map[string]int32   // term -> number
	terms []string           // number -> term
	rank  []int32            // number -> column
	buf   []byte
}

// lexed holds the captions of one task.
type lexed struct {
	first    int     // index of its first caption
	worker   int     // the worker that numbered the terms
	terms    []int32 // terms of all captions, sorted within each
	total    []int32 // terms of each caption, repeated ones counted
	distinct []int32 // different terms of each caption
}

// Do implements par.Body.
func (l *lexer) Do(worker, task int) {
	w := &l.workers[worker]
	if w.words == nil {
		w.words, w.ids = make(map[string][]int32), make(map[string]int32)
	}
	lo, hi := task*linesPerTask, min(len(l.lines), (task+1)*linesPerTask)
	c := lexed{first: lo, worker: worker, total: make([]int32, hi-lo), distinct: make([]int32, hi-lo)}
	c.terms = make([]int32, 0, 10*(hi-lo))
	for i, line := range l.lines[lo:hi] {
		start := len(c.terms)
		for at := 0; ; {
			if w.buf, at = nextWord(line, at, w.buf); len(w.buf) == 0 {
				break
			}
			ids, ok := w.words[string(w.buf)]
			if !ok {
				ids = w.learn(string(w.buf))
			}
			c.terms = append(c.terms, ids...)
		}
		own := c.terms[start:]
		slices.Sort(own)
		c.total[i] = int32(len(own))
		for j := range own {
			if j == 0 || own[j] != own[j-1] {
				c.distinct[i]++
			}
		}
	}
	l.chunks[task] = c
}

// learn numbers the terms of a new word.
func (w *lexerWorker) learn(word string) []int32 {
	var ids []int32
	for _, t := range appendTerms(nil, word) {
		id, ok := w.ids[t]
		if !ok {
			id = int32(len(w.terms))
			w.ids[t] = id
			w.terms = append(w.terms, t)
		}
		ids = append(ids, id)
	}
	w.words[word] = ids
	return ids
}

// vocabulary returns all terms in order and sets the workers' ranks.
func (l *lexer) vocabulary() []string {
	all := []string{}
	for _, w := range l.workers {
		all = append(all, w.terms...)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	for i := range l.workers {
		w := &l.workers[i]
		w.rank = make([]int32, len(w.terms))
		for id, t := range w.terms {
			r, _ := slices.BinarySearch(all, t)
			w.rank[id] = int32(r)
		}
	}
	return all
}

// fill writes the columns and counts of one task's captions.
func (l *lexer) fill(task int, a *sparse.CSR) {
	c := l.chunks[task]
	rank := l.workers[c.worker].rank
	terms := c.terms
	for i, n := range c.total {
		own := terms[:n]
		terms = terms[n:]
		for j, id := range own {
			own[j] = rank[id]
		}
		slices.Sort(own)
		at := a.RowPtr[c.first+i] - 1
		for j, col := range own {
			if j == 0 || col != own[j-1] {
				at++
				a.Col[at] = col
			}
			a.Val[at]++
		}
	}
	l.chunks[task].terms = nil
}
