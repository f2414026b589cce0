package eval

import (
	"sync"

	"vsetrain/internal/compute/par"
)

// TopList holds the candidates of a query with the highest scores, highest first. Of equal scores the larger number
// comes first, as in Ranks.
type TopList struct {
	Items  []int32
	Scores []float64
}

// offer inserts a candidate if it ranks among the first depth.
func (t *TopList) offer(item int32, score float64, depth int) {
	at := len(t.Items)
	for at > 0 && (score > t.Scores[at-1] || score == t.Scores[at-1] && item > t.Items[at-1]) {
		at--
	}
	if at == depth {
		return
	}
	if len(t.Items) < depth {
		t.Items, t.Scores = append(t.Items, 0), append(t.Scores, 0)
	}
	copy(t.Items[at+1:], t.Items[at:])
	copy(t.Scores[at+1:], t.Scores[at:])
	t.Items[at], t.Scores[at] = item, score
}

// tops returns the first depth captions of every image and the first depth images of every caption, in the order of
// Ranks. keep says whether the caption of a pair counts for the image, and the image for the caption; nil keeps all.
func tops(size tileSize, pool *par.Pool, s Scores, depth int, keep func(i, c int, v float64) (image, caption bool)) (
	images, captions []TopList) {
	n, m := s.Dims()
	images, captions = make([]TopList, n), make([]TopList, m)
	var mu sync.Mutex // guards images; a column belongs to one worker
	eachRow(size, pool, s, func(i, c0 int, row []float64) {
		var best TopList
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
		for k, c := range best.Items {
			images[i].offer(c, best.Scores[k], depth)
		}
	})
	return images, captions
}
