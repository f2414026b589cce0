package analysis

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"vsetrain/batch"
	"vsetrain/data"
	"vsetrain/internal/run/pretrained"
	"vsetrain/models"
)

// Attention is how strongly VSRN looks at each region of an image (Li et al., ICCV 2019, section on visualisation).
// With the features G_i of the k regions after the reasoning and the embedding I of the image,
//
//	c_i = G_i · I        r_i = rank of c_i, from 0, equal ones in the order of the regions        s_i = λ (k - r_i)²
//
// and a pixel has the sum of s_i over the boxes it lies in.
type Attention struct {
	Checkpoint    string
	Image         int // 0..NumImages-1
	ImageID       string
	Width, Height float64      // of the picture, in pixels
	Boxes         [][4]float64 // x1, y1, x2, y2 as shares of width and height
	Correlation   []float64    // c
	Scores        []float64    // s
}

// attentionLambda is the λ of the authors.
const attentionLambda = 50

// correlate returns the products of the features of regions [k, e] with the embedding [e] of their image.
func correlate[T float32 | float64](features, image []T) []float64 {
	e := len(image)
	out := make([]float64, len(features)/e)
	for i := range out {
		for d, v := range image {
			out[i] += float64(features[i*e+d]) * float64(v)
		}
	}
	return out
}

// attentionScores ranks the regions by their correlation: the regions from the highest on, and the score of each
// region.
func attentionScores(correlation []float64, lambda float64) (order []int, scores []float64) {
	k := len(correlation)
	order, scores = make([]int, k), make([]float64, k)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(correlation[b], correlation[a]) })
	for rank, i := range order {
		scores[i] = lambda * float64((k-rank)*(k-rank))
	}
	return order, scores
}

// attentionMap sums the scores of the boxes that each pixel lies in: [height, width]. A pixel x, y lies in a box of x1
// <= x < x2 and y1 <= y < y2, in pixels.
func attentionMap(scores []float64, boxes [][4]float64, width, height int) []float64 {
	out := make([]float64, width*height)
	for i, b := range boxes {
		for y := range height {
			if fy := float64(y); fy < b[1] || fy >= b[3] {
				continue
			}
			for x := range width {
				if fx := float64(x); fx >= b[0] && fx < b[2] {
					out[y*width+x] += scores[i]
				}
			}
		}
	}
	return out
}

// Map draws the attention over a picture of the given size, as values in [0, 1] of shape [height, width].
func (a *Attention) Map(width, height int) []float64 {
	boxes := make([][4]float64, len(a.Boxes))
	for i, b := range a.Boxes {
		boxes[i] = [4]float64{b[0] * float64(width), b[1] * float64(height), b[2] * float64(width),
			b[3] * float64(height)}
	}
	m := attentionMap(a.Scores, boxes, width, height)
	if top := slices.Max(m); top > 0 {
		for i := range m {
			m[i] /= top
		}
	}
	return m
}

// Attend computes the attention of a trained VSRN, a run directory or a checkpoint, over the images with the given ids.
func Attend(ctx context.Context, r pretrained.AnalysisRequest, checkpoint string, ids []string) ([]Attention, error) {
	l, err := r.Load(checkpoint, true)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	s := l.Split
	if l.Runner.Embeds == nil {
		return nil, fmt.Errorf("%s: network %s scores pairs; attention is shown for %s", l.Found,
			l.Model.Options.Network,
			strings.Join(models.NamesWhere(func(t models.Traits) bool { return t.Attention }), ", "))
	}
	k, e := s.Regions(), l.Runner.Embeds.Dim()
	regions, boxes := make([]float32, k*s.Dim()), make([]float32, 4*k)
	image, features := make([]float32, e), make([]float32, k*e)
	var out []Attention
	numbers, err := imagesByID(s, ids)
	if err != nil {
		return nil, err
	}
	for n, i := range numbers {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		id, row := ids[n], s.RowOf(i)
		if err := s.ReadImage(regions, row); err != nil {
			return nil, err
		}
		if err := s.ReadBoxes(boxes, row); err != nil {
			return nil, err
		}
		if err := l.Runner.Embeds.Regions(image, features, batch.Images{N: 1, Features: regions}); err != nil {
			return nil, err
		}
		a := Attention{Checkpoint: l.Found, Image: i, ImageID: id, Correlation: correlate(features, image),
			Boxes: make([][4]float64, k)}
		w, h := s.ImageSize(row)
		a.Width, a.Height = float64(w), float64(h)
		for j := range k {
			for d := range 4 {
				a.Boxes[j][d] = float64(boxes[4*j+d])
			}
		}
		_, a.Scores = attentionScores(a.Correlation, attentionLambda)
		out = append(out, a)
	}
	return out, nil
}

// imagesByID returns the numbers of images.
func imagesByID(s *data.Split, ids []string) ([]int, error) {
	byID := map[string]int{}
	for i := range s.NumImages() {
		byID[s.ImageID(s.RowOf(i))] = i
	}
	var out []int
	for _, id := range ids {
		i, ok := byID[id]
		if !ok {
			return nil, fmt.Errorf("%s: split %s has no image with the id %q; ids are like %q", s.Dir(), s.Name(), id,
				s.ImageID(0))
		}
		out = append(out, i)
	}
	return out, nil
}
