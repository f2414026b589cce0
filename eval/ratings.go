package eval

import (
	"bufio"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"vsetrain/data"
	"vsetrain/internal/files/regular"
	"vsetrain/internal/stats"
)

// Ratings are people's judgements of how well captions describe images, in the format of Flickr8K's two files: a line
// for each pair, with fields separated by tabs.
//
//	ExpertAnnotations.txt       image, caption, three ratings from 1 (unrelated) to 4 (describes it without errors)
//	CrowdFlowerAnnotations.txt  image, caption, share of people who say it describes the image, number who say yes,
//	                            number who say no
//
// Source: M. Hodosh, P. Young, J. Hockenmaier, Framing Image Description as a Ranking Task, JAIR 47 (2013).
type Ratings struct {
	Name             string
	Images, Captions []int32     // [pairs] numbers in the split
	Values           [][]float64 // [pairs] one value for each expert, or the share of the crowd
}

// Agreement is the correlation of a model's scores with ratings; each rating is one observation. The literature reports
// tau-c for the experts and tau-b for the crowd.
type Agreement struct {
	Pairs    int     `json:"pairs"`
	Ratings  int     `json:"ratings"`
	TauB     float64 `json:"kendall_tau_b"`
	TauC     float64 `json:"kendall_tau_c"`
	Spearman float64 `json:"spearman"`
}

// HumanAgreement is the agreement on all pairs, and on the pairs whose caption was written for another image. The
// literature on captioning reports the latter.
type HumanAgreement struct {
	Name   string    `json:"name"`
	All    Agreement `json:"all"`
	Others Agreement `json:"other_captions"`
}

// IsRatings reports whether the name of a file says that it holds ratings: it ends in .txt.
func IsRatings(path string) bool { return strings.HasSuffix(path, ".txt") }

// ReadRatings reads a file of ratings of images and captions of a split.
func ReadRatings(path string, ids *IDs) (*Ratings, error) {
	f, _, err := regular.Open(path)
	if err != nil {
		return nil, fmt.Errorf("ratings: %w", err)
	}
	defer f.Close()
	r := &Ratings{Name: strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))}
	seen := map[[2]int32]int{}
	crowd := false
	lines := bufio.NewScanner(regular.TextReader(f))
	for n := 1; lines.Scan(); n++ {
		fail := func(format string, args ...any) (*Ratings, error) {
			return nil, fmt.Errorf("ratings %s:%d: %s", path, n, fmt.Sprintf(format, args...))
		}
		fields := strings.Split(strings.TrimRight(lines.Text(), "\r"), "\t")
		if len(fields) != 5 {
			return fail("%d fields; expected image, caption and three numbers between tabs", len(fields))
		}
		values, isCrowd, err := ratingValues(fields[2:])
		if err != nil {
			return fail("%v", err)
		}
		if n == 1 {
			crowd = isCrowd
		} else if crowd != isCrowd {
			return fail("numbers %s %s %s are of another kind than the numbers of line 1; expected either three "+
				"ratings or share, yes and no in the whole file", fields[2], fields[3], fields[4])
		}
		i, ok := ids.images.of(fields[0])
		if !ok {
			return fail("image %s is not in %s; its images are named like %q: are these ratings for another split "+
				"(--split)?", fields[0], ids.Split, ids.Images[0])
		}
		c, ok := ids.captions.of(fields[1])
		if !ok {
			return fail("caption %s is not in %s; its captions are named like %q: are these ratings for another split "+
				"(--split)?", fields[1], ids.Split, ids.Captions[0])
		}
		if before := seen[[2]int32{i, c}]; before > 0 {
			return fail("image %s and caption %s are in line %d too", fields[0], fields[1], before)
		}
		seen[[2]int32{i, c}] = n
		r.Images, r.Captions, r.Values = append(r.Images, i), append(r.Captions, c), append(r.Values, values)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("ratings %s: %w", path, err)
	}
	if len(r.Values) == 0 {
		return nil, fmt.Errorf("ratings %s: the file is empty", path)
	}
	return r, nil
}

// ratingValues reads the three numbers of a line: three ratings from 1 to 4, or a share and the numbers of people who
// said yes and no. The two cannot be confused, because a share of 1 means that nobody said no.
func ratingValues(fields []string) (values []float64, crowd bool, err error) {
	var v [3]float64
	experts := true
	for i, s := range fields {
		if v[i], err = strconv.ParseFloat(s, 64); err != nil || v[i] < 0 || v[i] > 1e6 {
			return nil, false, fmt.Errorf("%q is not a rating; expected 1 to 4, or a share and two counts", s)
		}
		experts = experts && (v[i] == 1 || v[i] == 2 || v[i] == 3 || v[i] == 4)
	}
	if experts {
		return v[:], false, nil
	}
	const rounding = 1e-6 // of shares in the file
	if people := v[1] + v[2]; people < 1 || v[0] < v[1]/people-rounding || v[0] > v[1]/people+rounding {
		return nil, false, fmt.Errorf("numbers %s; expected three ratings from 1 to 4, or a share and the counts of "+
			"yes and no that give it", strings.Join(fields, " "))
	}
	return v[:1], true, nil
}

// Agree correlates scores with ratings.
func Agree(s Scores, groups data.Groups, r *Ratings) (HumanAgreement, error) {
	h := HumanAgreement{Name: r.Name}
	for _, part := range []struct {
		into *Agreement
		own  bool
	}{{&h.All, true}, {&h.Others, false}} {
		var scores, ratings []float64
		for p, values := range r.Values {
			i, c := int(r.Images[p]), int(r.Captions[p])
			if !part.own && groups.ImageOf(c) == i {
				continue
			}
			part.into.Pairs++
			score := s.At(i, c)
			for _, v := range values {
				scores, ratings = append(scores, score), append(ratings, v)
			}
		}
		part.into.Ratings = len(ratings)
		var err error
		if part.into.TauB, part.into.TauC, err = stats.Kendall(scores, ratings); err == nil {
			part.into.Spearman, err = stats.Spearman(scores, ratings)
		}
		if err != nil {
			return h, fmt.Errorf("ratings %s: %w", r.Name, err)
		}
	}
	return h, nil
}
