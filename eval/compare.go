package eval

import (
	"fmt"
	"math"

	"vsetrain/internal/compute/par"
	"vsetrain/internal/stats"
)

// hitColumns are the measures of Hits: R@1, R@5, R@10 of images, then of captions.
const hitColumns = 6

// Hits say of every measured image which of its queries found their match: all that the recalls of a split depend on.
type Hits struct {
	Protocol string `json:"protocol"`
	PerImage int    `json:"captions_per_image"`
	// Counts [images, 6]: whether the image found one of its captions among the first 1, 5, 10 (0 or 1), and how many
	// of its captions found it there (0 .. PerImage). In five folds candidates are those of the fold.
	Counts []byte `json:"counts"`
}

// Hits returns which queries found their match.
func (r *Result) Hits() (Hits, error) {
	n := len(r.I2T)
	if len(r.T2I)/n > math.MaxUint8 {
		return Hits{}, fmt.Errorf("%d captions per image cannot be compared; expected at most %d", len(r.T2I)/n,
			math.MaxUint8)
	}
	h := Hits{r.Metrics.Protocol, len(r.T2I) / n, make([]byte, n*hitColumns)}
	for i, rank := range r.I2T {
		row := h.Counts[i*hitColumns : (i+1)*hitColumns]
		for c, depth := range []int{1, 5, 10} {
			row[c] = byte(b2i(rank < depth))
			for _, own := range r.T2I[i*h.PerImage : (i+1)*h.PerImage] {
				row[3+c] += byte(b2i(own < depth))
			}
		}
	}
	return h, nil
}

// Images returns the number of images.
func (h *Hits) Images() int { return len(h.Counts) / hitColumns }

// CompareOptions say how a difference is tested.
type CompareOptions struct {
	Resamples int     `json:"resamples"`
	Seed      uint64  `json:"seed"`
	Level     float64 `json:"level"` // of intervals, such as 0.95
}

// DefaultCompareOptions are those of the command line.
func DefaultCompareOptions() CompareOptions {
	return CompareOptions{Resamples: 10000, Seed: 1, Level: 0.95}
}

// Estimate is a measure with its interval, in percent.
type Estimate struct {
	Value float64 `json:"value"`
	stats.Interval
}

// Difference is one measure of two systems and how it differs.
type Difference struct {
	Measure    string   `json:"measure"` // i2t_r1 ... t2i_r10, m_recall
	A          Estimate `json:"a"`
	B          Estimate `json:"b"`
	Difference Estimate `json:"difference"` // A - B, in percentage points
	P          float64  `json:"p"`          // of the permutation test, two-sided
}

// Comparison is two systems on the same queries.
type Comparison struct {
	Protocol string `json:"protocol"`
	Images   int    `json:"images"`
	Captions int    `json:"captions"`
	CompareOptions
	Differences []Difference `json:"differences"`
}

// compared are the measures of a comparison: the six recalls, and their mean.
var compared = []string{"i2t_r1", "i2t_r5", "i2t_r10", "t2i_r1", "t2i_r5", "t2i_r10", "m_recall"}

// Compare compares two systems, each one model (or ensemble) or several, such as one for each seed, whose recalls are
// averaged. Images are the units: an image and its captions are drawn together, and both systems with them. The
// candidates stay those of the split. Intervals are between percentiles of bootstrap samples (stats.Units.Bootstrap),
// p-values those of swapping the systems image by image (stats.Units.SignFlips). pool may be nil.
func Compare(pool *par.Pool, a, b []Hits, o CompareOptions) (Comparison, error) {
	if !(o.Level > 0 && o.Level < 1) {
		return Comparison{}, fmt.Errorf("level of intervals %v; expected a number between 0 and 1", o.Level)
	}
	if err := comparable(a, b); err != nil {
		return Comparison{}, err
	}
	n, k := a[0].Images(), a[0].PerImage
	out := Comparison{Protocol: a[0].Protocol, Images: n, Captions: n * k, CompareOptions: o}

	// Each unit holds whole numbers: of A times the number of models of B, and the other way round, so that both stand
	// over one denominator.
	w := len(compared)
	both, differences := stats.Units{Width: 2 * w, Values: make([]int32, 2*w*n)}, stats.Units{Width: w,
		Values: make([]int32, w*n)}
	for i := range n {
		row := both.Values[i*2*w : (i+1)*2*w]
		a, b := addHits(row[:w], a, i, len(b)), addHits(row[w:], b, i, len(a))
		for c := range w {
			differences.Values[i*w+c] = a[c] - b[c]
		}
	}
	sums, err := both.Bootstrap(pool, o.Seed, o.Resamples)
	if err != nil {
		return out, err
	}
	p, err := differences.SignFlips(pool, o.Seed, o.Resamples)
	if err != nil {
		return out, err
	}
	total, models := both.Sums(), float64(len(a)*len(b))
	values := make([]float64, o.Resamples)
	estimate := func(scale float64, of func(sums []int64) int64) Estimate {
		for r := range values {
			values[r] = scale * float64(of(sums[r*2*w:(r+1)*2*w]))
		}
		return Estimate{scale * float64(of(total)), stats.Percentile(values, o.Level)}
	}
	for c, name := range compared {
		queries := []float64{float64(n), float64(n), float64(n), float64(n * k), float64(n * k), float64(n * k),
			6 * float64(n*k)}[c]
		scale := 100 / queries / models
		out.Differences = append(out.Differences, Difference{Measure: name, P: p[c],
			A:          estimate(scale, func(s []int64) int64 { return s[c] }),
			B:          estimate(scale, func(s []int64) int64 { return s[w+c] }),
			Difference: estimate(scale, func(s []int64) int64 { return s[c] - s[w+c] })})
	}
	return out, nil
}

// addHits writes the outcomes of image i, summed over models and times a factor: the six counts, and last 6 k times its
// part of M-Recall.
func addHits(row []int32, models []Hits, i, factor int) []int32 {
	for _, h := range models {
		for c, v := range h.Counts[i*hitColumns : (i+1)*hitColumns] {
			v := int32(v) * int32(factor)
			row[c] += v
			if c < 3 {
				v *= int32(h.PerImage)
			}
			row[hitColumns] += v
		}
	}
	return row
}

// comparable checks that all systems were measured on the same queries.
func comparable(a, b []Hits) error {
	if len(a) == 0 || len(b) == 0 {
		return fmt.Errorf("a comparison needs two systems, found %d and %d models", len(a), len(b))
	}
	if len(a)*len(b) > math.MaxInt32/(2*6*255) {
		return fmt.Errorf("a comparison of %d with %d models is too large", len(a), len(b))
	}
	first := a[0]
	for _, side := range [][]Hits{a, b} {
		for _, h := range side {
			if h.Protocol != first.Protocol || h.Images() != first.Images() || h.PerImage != first.PerImage ||
				h.Images() == 0 {
				return fmt.Errorf("only measures of the same split and protocol can be compared: found protocol %s "+
					"with %d images of %d captions, and protocol %s with %d images of %d",
					first.Protocol, first.Images(), first.PerImage, h.Protocol, h.Images(), h.PerImage)
			}
		}
	}
	return nil
}
