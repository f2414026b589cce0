package eval

import (
	"sync"

	"vsetrain/internal/compute/par"
)

// topList holds the candidates of a query that rank first, the first one first; of equal scores the larger number.
type topList struct {
	items  []int32
	scores []float64
}

// offer takes a candidate where it ranks among the first depth.
func (t *topList) offer(item int32, score float64, depth int) {
	at := len(t.items)
	for at > 0 && (score > t.scores[at-1] || score == t.scores[at-1] && item > t.items[at-1]) {
		at--
	}
	if at == depth {
		return
	}
	if len(t.items) < depth {
		t.items, t.scores = append(t.items, 0), append(t.scores, 0)
	}
	copy(t.items[at+1:], t.items[at:])
	copy(t.scores[at+1:], t.scores[at:])
	t.items[at], t.scores[at] = item, score
}

// tops returns the first depth captions of every image and the first depth images of every caption, in the order of
// Ranks. keep says of a pair whether its caption counts for the image, and its image for the caption; nil keeps all.
func tops(size tileSize, pool *par.Pool, s Scores, depth int, keep func(i, c int, v float64) (image, caption bool)) (
	images, captions []topList) {
	n, m := s.Dims()
	images, captions = make([]topList, n), make([]topList, m)
	var mu sync.Mutex // guards images; a column belongs to one worker
	eachRow(size, pool, s, func(i, c0 int, row []float64) {
		var best topList
		for c, v := range row {
			image, caption := true, true
			if keep != nil {
				image, caption = keep(i, c0+c, v)
			}
			if image {
				best.offer(int32(c0+c), v, depth)
			}
			if caption {
				captions[c0+c].offer(int32(i), v, depth)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		for k, c := range best.items {
			images[i].offer(c, best.scores[k], depth)
		}
	})
	return images, captions
}

// eachRow calls do, on all threads of pool, with the scores of image i and the captions of a tile, from c0 on. A
// caption is in the hands of one worker at a time, and its images come in their order.
func eachRow(size tileSize, pool *par.Pool, s Scores, do func(i, c0 int, row []float64)) {
	n, m := s.Dims()
	for i0 := 0; i0 < n; i0 += size.images {
		i1 := min(n, i0+size.images)
		pool.For((m+size.captions-1)/size.captions, par.Func(func(_, t int) {
			c0 := t * size.captions
			c1 := min(m, c0+size.captions)
			tile := make([]float64, (i1-i0)*(c1-c0))
			s.Tile(tile, i0, i1, c0, c1)
			for i := i0; i < i1; i++ {
				do(i, c0, tile[(i-i0)*(c1-c0):][:c1-c0])
			}
		}))
	}
}
