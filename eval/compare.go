package eval

import (
	"fmt"
	"math"
	"slices"

	"vsetrain/data"
	"vsetrain/internal/compute/par"
	"vsetrain/internal/stats"
)

// hitColumns is the number of measures in Hits: R@1, R@5, R@10 of images, then of captions.
const hitColumns = 6

// Hits say for every measured image which of its queries found their match. The recalls of a split follow from them.
type Hits struct {
	Protocol string `json:"protocol"`
	PerImage int    `json:"captions_per_image"` // 0 where images have different numbers of captions
	// Captions [images] holds the number of captions of each image; nil if all have the same.
	Captions []byte `json:"captions,omitempty"`
	// Counts [images, 6]: whether the image found one of its captions among the first 1, 5, 10 (0 or 1), and how many
	// of its captions found the image there. With five folds the candidates are the items of the fold.
	Counts []byte `json:"counts"`
}

// Hits returns which queries found their match.
func (r *Result) Hits() (Hits, error) {
	n := len(r.I2T)
	if _, most := r.Own.Range(); most > math.MaxUint8 {
		return Hits{}, fmt.Errorf("%d captions per image cannot be compared; expected at most %d", most, math.MaxUint8)
	}
	h := Hits{Protocol: r.Metrics.Protocol, PerImage: r.Own.Each(), Counts: make([]byte, n*hitColumns)}
	for i, rank := range r.I2T {
		row := h.Counts[i*hitColumns : (i+1)*hitColumns]
		for c, depth := range []int{1, 5, 10} {
			row[c] = byte(b2i(rank < depth))
			for _, own := range r.T2I[r.Own.First(i):r.Own.First(i+1)] {
				row[3+c] += byte(b2i(own < depth))
			}
		}
		if h.PerImage == 0 {
			h.Captions = append(h.Captions, byte(r.Own.First(i+1)-r.Own.First(i)))
		}
	}
	return h, nil
}

// Images returns the number of images.
func (h *Hits) Images() int { return len(h.Counts) / hitColumns }

// own returns the captions of each image.
func (h *Hits) own() data.Groups {
	if h.PerImage > 0 {
		return data.EqualGroups(h.Images(), h.PerImage)
	}
	counts := make([]int, len(h.Captions))
	for i, n := range h.Captions {
		counts[i] = int(n)
	}
	return data.GroupsOf(counts)
}

// SameQueries reports whether two systems were measured by the same protocol on equal numbers of images and captions.
func (h *Hits) SameQueries(o *Hits) bool {
	return h.Protocol == o.Protocol && h.Images() == o.Images() && h.PerImage == o.PerImage &&
		slices.Equal(h.Captions, o.Captions)
}

// CompareOptions control how a difference is tested.
type CompareOptions struct {
	Resamples int     `json:"resamples"`
	Seed      uint64  `json:"seed"`
	Level     float64 `json:"level"` // of intervals, such as 0.95
}

// DefaultCompareOptions returns the options that the command line uses.
func DefaultCompareOptions() CompareOptions {
	return CompareOptions{Resamples: 10000, Seed: 1, Level: 0.95}
}

// Estimate is a measure with its interval, in percent.
type Estimate struct {
	Value float64 `json:"value"`
	stats.Interval
}

// Difference is one measure of two systems and the difference between them.
type Difference struct {
	Measure    string   `json:"measure"` // i2t_r1 ... t2i_r10, m_recall
	A          Estimate `json:"a"`
	B          Estimate `json:"b"`
	Difference Estimate `json:"difference"` // A - B, in percentage points
	P          float64  `json:"p"`          // of the permutation test, two-sided
}

// Comparison compares two systems on the same queries.
type Comparison struct {
	Protocol string `json:"protocol"`
	Images   int    `json:"images"`
	Captions int    `json:"captions"`
	CompareOptions
	Differences []Difference `json:"differences"`
}

// compared are the measures of a comparison: the six recalls, and their mean.
var compared = []string{"i2t_r1", "i2t_r5", "i2t_r10", "t2i_r1", "t2i_r5", "t2i_r10", "m_recall"}

// Compare compares two systems. Each system is one model (or ensemble), or several models, such as one for each seed,
// whose recalls are averaged. Images are the units of resampling: an image is drawn together with its captions, for
// both systems at once. The candidates are always the whole split. A resample is divided by its own number of captions,
// which varies if images have different numbers of captions. Intervals lie between percentiles of bootstrap samples
// (stats.Units.Bootstrap), and p-values come from swapping the systems image by image (stats.Units.SignFlips). pool may
// be nil.
func Compare(pool *par.Pool, a, b []Hits, o CompareOptions) (Comparison, error) {
	if err := comparable(a, b); err != nil {
		return Comparison{}, err
	}
	own := a[0].own()
	n, m := own.Images(), own.Items()
	out := Comparison{Protocol: a[0].Protocol, Images: n, Captions: m, CompareOptions: o}

	// Each unit holds whole numbers: the counts of A times the number of models of B, and the other way round, so that
	// both systems have the same denominator. The last column is the number of captions.
	w := len(compared)
	both, differences := stats.Units{Width: 2*w + 1, Values: make([]int32, (2*w+1)*n)}, stats.Units{Width: w,
		Values: make([]int32, w*n)}
	for i := range n {
		row := both.Values[i*both.Width : (i+1)*both.Width]
		a, b := addHits(row[:w], a, own, i, len(b)), addHits(row[w:2*w], b, own, i, len(a))
		row[2*w] = int32(own.First(i+1) - own.First(i))
		for c := range w {
			differences.Values[i*w+c] = a[c] - b[c]
		}
	}
	interval, p, err := o.resample(pool, both, differences)
	if err != nil {
		return out, err
	}
	models := float64(len(a) * len(b))
	// percent returns measure c of a sample from the sums of one system, or of the difference, and the captions drawn.
	percent := func(c int, s []int64, captions int64) float64 {
		switch {
		case c < 3:
			return 100 / float64(n) / models * float64(s[c])
		case c < 6:
			return 100 / float64(captions) / models * float64(s[c])
		case own.Each() > 0:
			return 100 / (6 * float64(m)) / models * float64(s[c])
		}
		return 100 / models / 6 * (float64(s[0]+s[1]+s[2])/float64(n) + float64(s[3]+s[4]+s[5])/float64(captions))
	}
	part := make([]int64, w)
	estimate := func(c int, a, b int64) Estimate { // of a times A plus b times B
		return interval(func(s []int64) float64 {
			for j := range part {
				part[j] = a*s[j] + b*s[w+j]
			}
			return percent(c, part, s[2*w])
		})
	}
	for c, name := range compared {
		out.Differences = append(out.Differences, Difference{Measure: name, P: p[c], A: estimate(c, 1, 0),
			B: estimate(c, 0, 1), Difference: estimate(c, 1, -1)})
	}
	return out, nil
}

// resample draws bootstrap samples of units that hold both systems, and tests the differences of the systems, column by
// column. interval computes a measure from the column sums of all units, with its interval over the samples.
func (o CompareOptions) resample(pool *par.Pool, both, differences stats.Units) (
	interval func(of func(sums []int64) float64) Estimate, p []float64, err error) {
	if !(o.Level > 0 && o.Level < 1) {
		return nil, nil, fmt.Errorf("level of intervals %v; expected a number between 0 and 1", o.Level)
	}
	samples, err := both.Bootstrap(pool, o.Seed, o.Resamples)
	if err != nil {
		return nil, nil, err
	}
	total, values := both.Sums(), make([]float64, o.Resamples)
	interval = func(of func(sums []int64) float64) Estimate {
		for r := range values {
			values[r] = of(samples[r*both.Width : (r+1)*both.Width])
		}
		return Estimate{of(total), stats.Percentile(values, o.Level)}
	}
	p, err = differences.SignFlips(pool, o.Seed, o.Resamples)
	return interval, p, err
}

// addHits adds the outcomes of image i to a row, summed over models and multiplied by a factor: the six counts, then
// their contribution to M-Recall, which weights scales to a whole number.
func addHits(row []int32, models []Hits, own data.Groups, i, factor int) []int32 {
	ofImage, ofCaption := weights(own)
	for _, h := range models {
		for c, v := range h.Counts[i*hitColumns : (i+1)*hitColumns] {
			v := int32(v) * int32(factor)
			row[c] += v
			if c < 3 {
				v *= int32(ofImage)
			} else {
				v *= int32(ofCaption)
			}
			row[hitColumns] += v
		}
	}
	return row
}

// weights returns the weights of an image and of a caption in M-Recall: whole numbers, inversely proportional to the
// numbers of images and captions.
func weights(own data.Groups) (ofImage, ofCaption int) {
	if k := own.Each(); k > 0 {
		return k, 1
	}
	return own.Items(), own.Images()
}

// comparable checks that all systems were measured on the same queries.
func comparable(a, b []Hits) error {
	if len(a) == 0 || len(b) == 0 {
		return fmt.Errorf("a comparison needs two systems, found %d and %d models", len(a), len(b))
	}
	first := a[0]
	ofImage, ofCaption := weights(first.own())
	if len(a)*len(b) > math.MaxInt32/(2*6*max(255*ofCaption, ofImage)) {
		return fmt.Errorf("a comparison of %d with %d models on %d images is too large", len(a), len(b), first.Images())
	}
	for _, side := range [][]Hits{a, b} {
		for _, h := range side {
			if !h.SameQueries(&first) || h.Images() == 0 {
				return fmt.Errorf("only measures of the same split and protocol can be compared: found protocol %s "+
					"with %d images of %v captions, and protocol %s with %d images of %v",
					first.Protocol, first.Images(), first.own(), h.Protocol, h.Images(), h.own())
			}
		}
	}
	return nil
}
