package eval

import (
	"fmt"

	"vsetrain/data"
	"vsetrain/internal/compute/par"
)

// Protocol says which part of a split is ranked.
type Protocol string

// The protocols, as the command line and the "protocol" field of Metrics name them.
const (
	// Auto ranks the whole split. A split in the layout of MS-COCO's testall (5,000 images, 5 captions each) is
	// also ranked in five folds, because the literature gives both tables.
	Auto Protocol = "auto"
	// Whole ranks the whole split, whatever its size. Auto reports splits of other sizes than 1,000 and 5,000 images
	// under this name.
	Whole Protocol = "whole"
	// OneK ranks the first 1,000 images: the test split of Flickr30K, Flickr8K and IAPR TC-12, or the first
	// fold of COCO.
	OneK Protocol = "1k"
	// FiveK ranks the first 5,000 images together: "COCO 5K".
	FiveK Protocol = "5k"
	// FiveFolds ranks five folds of 1,000 images in file order and averages every number: "COCO 1K".
	FiveFolds Protocol = "5x1k"
)

// Result is the outcome of one protocol.
type Result struct {
	Metrics Metrics
	Folds   []Metrics // for FiveFolds only: the measures of each fold
	// 0-based ranks of the measured images and captions in file order; with folds, the ranks within the fold
	I2T, T2I []int
	Own      data.Groups // the captions of each measured image
}

// ParseProtocol checks the name of a protocol; an empty one is Auto.
func ParseProtocol(name string) (Protocol, error) {
	switch p := Protocol(name); p {
	case "":
		return Auto, nil
	case Auto, Whole, OneK, FiveK, FiveFolds:
		return p, nil
	}
	return "", fmt.Errorf("unknown protocol %q: expected auto, 1k, 5k, 5x1k or whole", name)
}

// Evaluate ranks the scores of a split; own holds the captions of each image. It returns one result, but two for Auto
// on COCO's testall: 5k, then 5x1k. Report the first result if only one is wanted. pool may be nil.
func Evaluate(pool *par.Pool, s Scores, own data.Groups, protocol Protocol) ([]Result, error) {
	protocol, err := ParseProtocol(string(protocol))
	if err != nil {
		return nil, err
	}
	n := own.Images()
	var results []Result
	for _, p := range protocol.Resolve(own) {
		if err := p.Fits(n); err != nil {
			return nil, err
		}
		folds, size := p.layout(n)
		r, err := evaluateFolds(pool, s, own, folds, size)
		if err != nil {
			return nil, err
		}
		r.Metrics.Protocol = string(p)
		if folds == 1 {
			r.Folds = nil
		}
		results = append(results, r)
	}
	return results, nil
}

// Measure ranks a whole score matrix and returns its measures, without a protocol name.
func Measure(pool *par.Pool, s Scores, own data.Groups) (Metrics, error) {
	r, err := evaluateFolds(pool, s, own, 1, own.Images())
	return r.Metrics, err
}

// evaluateFolds ranks consecutive folds of imagesPerFold images and their captions, each fold separately. It returns
// the mean of every measure and the measures of each fold. Images after the last fold are left out.
func evaluateFolds(pool *par.Pool, s Scores, own data.Groups, folds, imagesPerFold int) (out Result, err error) {
	if err := fit(s, own); err != nil {
		return out, err
	}
	for f := range folds {
		part := foldOf(s, own, f*imagesPerFold, imagesPerFold)
		i2t, t2i, ties, err := ranksAndTies(usualTiles(), pool, part, own.Part(part.i0, part.i0+imagesPerFold))
		if err != nil {
			if folds > 1 {
				err = fmt.Errorf("fold %d (images from %d, captions from %d, numbered from 0 within the fold): %w",
					f, part.i0, part.c0, err)
			}
			return out, err
		}
		r := NewMetrics(i2t, t2i)
		r.Ties = ties
		out.Folds, out.I2T, out.T2I = append(out.Folds, r), append(out.I2T, i2t...), append(out.T2I, t2i...)
	}
	out.Metrics, out.Own = meanOf(out.Folds), own.Part(0, folds*imagesPerFold)
	return out, nil
}

// Resolve replaces Auto by the protocols for a split.
func (p Protocol) Resolve(own data.Groups) []Protocol {
	switch n := own.Images(); {
	case p != Auto:
		return []Protocol{p}
	case n == 1000:
		return []Protocol{OneK}
	case n == 5000 && own.Each() == 5:
		return []Protocol{FiveK, FiveFolds}
	}
	return []Protocol{Whole}
}

// Fits returns an error if a split of n images is too small for the protocol.
func (p Protocol) Fits(n int) error {
	folds, size := p.layout(n)
	if n >= folds*size {
		return nil
	}
	return fmt.Errorf("protocol %s needs %d images, the split has %d: use protocol auto for the whole split", p,
		folds*size, n)
}

// layout returns the number of folds and the images in each.
func (p Protocol) layout(n int) (folds, images int) {
	switch p {
	case OneK:
		return 1, 1000
	case FiveK:
		return 1, 5000
	case FiveFolds:
		return 5, 1000
	}
	return 1, n
}
