package eval

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"vsetrain/data"
	"vsetrain/internal/compute/par"
)

// hubDepth is the number of answers of a query that count for hubs.
const hubDepth = 10

// CaptionFacts hold a number for each caption of the split, by which a diagnosis groups captions. A nil list leaves out
// its part of the diagnosis.
type CaptionFacts struct {
	Words      []int // length as the network sees it
	Duplicates []int // captions of other images that say nearly the same (NearDuplicates)
	Unknown    []int // words that are not in the vocabulary
}

// Diagnosis explains the recalls of a model on a split.
type Diagnosis struct {
	Length     []RecallBin      `json:"length,omitempty"`
	Duplicates []RecallBin      `json:"duplicates,omitempty"`
	Unknown    []RecallBin      `json:"unknown,omitempty"`
	Judged     []JudgedErrors   `json:"judged_errors,omitempty"`
	Images     Hubs             `json:"hub_images"`   // as answers to captions
	Captions   Hubs             `json:"hub_captions"` // as answers to images
	I2T        ScoreCalibration `json:"i2t_calibration"`
	T2I        ScoreCalibration `json:"t2i_calibration"`
}

// RecallBin holds the text-to-image recalls of a group of captions, in percent.
type RecallBin struct {
	Label    string  `json:"label"`
	Captions int     `json:"captions"`
	R1       float64 `json:"r1"`
	R5       float64 `json:"r5"`
	R10      float64 `json:"r10"`
}

// JudgedErrors count the judged queries whose first answer is not their match (Errors), and how many of these answers
// are right according to the judgements (Right).
type JudgedErrors struct {
	Name      string `json:"name"`
	I2TErrors int    `json:"i2t_errors"`
	I2TRight  int    `json:"i2t_right"`
	T2IErrors int    `json:"t2i_errors"`
	T2IRight  int    `json:"t2i_right"`
}

// Hubs show whether some items answer too many queries. N(x) is the number of queries with item x among their first ten
// answers.
//
// Source: M. Radovanović, A. Nanopoulos, M. Ivanović, Hubs in Space, JMLR 11 (2010).
type Hubs struct {
	Items    int     `json:"items"`
	Expected float64 `json:"expected"` // mean of N
	Skewness float64 `json:"skewness"` // of N: 0 without hubs
	Never    float64 `json:"never"`    // percentage of items with N = 0
	Largest  []Hub   `json:"largest"`  // the five items with the largest N, largest first
}

// Hub is an item and the number of queries it answers.
type Hub struct {
	Item    int `json:"item"`
	Queries int `json:"queries"`
}

// ScoreCalibration shows whether the lead of a first answer predicts that the answer is right. The lead is the score of
// the first answer minus the score of the best answer from another image (for captions: the second answer).
type ScoreCalibration struct {
	// probability that a right first answer leads by more than a wrong one; 0.5 is no better than chance
	AUROC  float64   `json:"auroc"`
	Bins   []LeadBin `json:"bins"` // each a fifth of the queries, smallest leads first
	Margin float64   `json:"margin,omitempty"`
	// percentage of queries whose match leads every wrong candidate by the training margin
	Satisfied float64 `json:"margin_satisfied,omitempty"`
}

// LeadBin is the percentage of right first answers among queries with a lead up to High.
type LeadBin struct {
	High    float64 `json:"high"`
	Queries int     `json:"queries"`
	R1      float64 `json:"r1"`
}

// Diagnose explains the recalls of a model on a whole split. margin is the training margin, 0 if unknown. pool may be
// nil.
func Diagnose(pool *par.Pool, s Scores, own data.Groups, facts CaptionFacts, judgements []*Judgements,
	margin float64) (*Diagnosis, error) {
	_, t2i, err := Ranks(pool, s, own) // also finds NaN
	if err != nil {
		return nil, err
	}
	_, most := own.Range()
	images, captions := tops(usualTiles(), pool, s, max(hubDepth, most+1), nil)
	d := &Diagnosis{
		Length:     binned(facts.Words, t2i, quintiles(facts.Words)),
		Duplicates: binned(facts.Duplicates, t2i, []int{0, 1, 4, 9}),
		Unknown:    binned(facts.Unknown, t2i, []int{0, 1}),
		Images:     newHubs(captions, len(images)),
		Captions:   newHubs(images, len(captions)),
	}
	for _, j := range judgements {
		e := JudgedErrors{Name: j.Name}
		e.I2TErrors, e.I2TRight = judgedErrors(&j.I2T, images,
			func(i, c int32) bool { return own.ImageOf(int(c)) == int(i) })
		e.T2IErrors, e.T2IRight = judgedErrors(&j.T2I, captions,
			func(c, i int32) bool { return own.ImageOf(int(c)) == int(i) })
		d.Judged = append(d.Judged, e)
	}
	imageOf := func(_ int, c int32) int { return own.ImageOf(int(c)) }
	d.I2T = calibrate(images, margin, imageOf, func(i int) (int, float64) {
		best := math.Inf(-1)
		for c := range own.Of(i) {
			best = max(best, s.At(i, c))
		}
		return i, best
	})
	d.T2I = calibrate(captions, margin, func(_ int, i int32) int { return int(i) },
		func(c int) (int, float64) { return own.ImageOf(c), s.At(own.ImageOf(c), c) })
	return d, nil
}

// binned groups captions by a fact: bin b holds the captions up to highs[b], the last bin the rest. It leaves out empty
// bins.
func binned(facts, ranks []int, highs []int) (bins []RecallBin) {
	if facts == nil {
		return nil
	}
	low := 0
	for b := range len(highs) + 1 {
		high, label := math.MaxInt, fmt.Sprintf("%d or more", low)
		if b < len(highs) {
			high = highs[b]
			label = fmt.Sprintf("%d to %d", low, high)
			if low == high {
				label = fmt.Sprint(low)
			}
		}
		var own []int
		for c, v := range facts {
			if v >= low && v <= high {
				own = append(own, ranks[c])
			}
		}
		if len(own) > 0 {
			r := NewRecalls(own)
			bins = append(bins, RecallBin{label, len(own), r.R1, r.R5, r.R10})
		}
		low = high + 1
	}
	return bins
}

// quintiles returns up to four different cuts that divide the values into parts of about the same size.
func quintiles(values []int) (cuts []int) {
	sorted := slices.Sorted(slices.Values(values))
	for q := 1; q < 5 && len(sorted) > 0; q++ {
		if v := sorted[q*len(sorted)/5]; v < sorted[len(sorted)-1] && (len(cuts) == 0 || v > cuts[len(cuts)-1]) {
			cuts = append(cuts, v)
		}
	}
	return cuts
}

// judgedErrors counts the judged queries whose first answer is not their match, and those among them whose first answer
// is judged right.
func judgedErrors(rel *Relevance, lists []TopList, own func(query, answer int32) bool) (errors, right int) {
	for q, query := range rel.Queries {
		if first := lists[query].Items[0]; !own(query, first) {
			errors++
			right += b2i(slices.Contains(rel.of(q), first))
		}
	}
	return errors, right
}

// newHubs counts how often each of n items is among the first answers.
func newHubs(lists []TopList, n int) Hubs {
	all := make([]Hub, n)
	for i := range all {
		all[i].Item = i
	}
	for _, l := range lists {
		for _, item := range l.Items[:min(hubDepth, len(l.Items))] {
			all[item].Queries++
		}
	}
	h := Hubs{Items: n}
	never := 0
	for _, x := range all {
		h.Expected += float64(x.Queries) / float64(n)
		never += b2i(x.Queries == 0)
	}
	h.Never = 100 * float64(never) / float64(n)
	var second, third float64
	for _, x := range all {
		off := float64(x.Queries) - h.Expected
		second += off * off / float64(n)
		third += off * off * off / float64(n)
	}
	if second > 0 {
		h.Skewness = third / math.Pow(second, 1.5)
	}
	slices.SortStableFunc(all, func(a, b Hub) int { return b.Queries - a.Queries })
	h.Largest = all[:min(5, n)]
	return h
}

// calibrate measures leads. image returns the image of an answer to a query; match returns the image of a query and the
// best score of the query's match.
func calibrate(lists []TopList, margin float64, image func(query int, answer int32) int,
	match func(query int) (image int, score float64)) ScoreCalibration {
	type lead struct {
		by    float64
		right bool
	}
	var leads []lead
	satisfied := 0
	for q, l := range lists {
		first := image(q, l.Items[0])
		own, score := match(q)
		// best scores of answers from another image than the first answer's, and than the query's
		second, wrong := math.Inf(-1), math.Inf(-1)
		for a, item := range l.Items {
			if image(q, item) != first {
				second = max(second, l.Scores[a])
			}
			if image(q, item) != own {
				wrong = max(wrong, l.Scores[a])
			}
		}
		satisfied += b2i(score >= wrong+margin)
		if !math.IsInf(second, -1) { // there are other images
			leads = append(leads, lead{l.Scores[0] - second, first == own})
		}
	}
	c := ScoreCalibration{AUROC: 0.5}
	if margin > 0 {
		c.Margin, c.Satisfied = margin, 100*float64(satisfied)/float64(len(lists))
	}
	slices.SortStableFunc(leads, func(a, b lead) int { return cmp.Compare(a.by, b.by) })
	right, pairs := 0, 0.0 // pairs of a wrong answer and a right one with a larger lead; equal leads count half
	for lo := 0; lo < len(leads); {
		hi, more := lo, 0
		for ; hi < len(leads) && leads[hi].by == leads[lo].by; hi++ {
			more += b2i(leads[hi].right)
		}
		wrong := hi - lo - more
		pairs += float64(more) * (float64(lo-right) + float64(wrong)/2)
		right, lo = right+more, hi
	}
	if n := float64(right) * float64(len(leads)-right); n > 0 {
		c.AUROC = pairs / n
	}
	for b := range 5 {
		part := leads[b*len(leads)/5 : (b+1)*len(leads)/5]
		if len(part) == 0 {
			continue
		}
		ok := 0
		for _, l := range part {
			ok += b2i(l.right)
		}
		c.Bins = append(c.Bins, LeadBin{part[len(part)-1].by, len(part), 100 * float64(ok) / float64(len(part))})
	}
	return c
}
