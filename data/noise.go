package data

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"gonum.org/v1/gonum/mathext/prng"

	"vsetrain/internal/files/integrity"
	"vsetrain/internal/files/npy"
	"vsetrain/internal/files/runfs"
)

// A noise index assigns an image to each caption, so that some captions are wrong. Published files have one of two
// shapes, both int64: the image of every caption (NCR, L2RM, BiCro, CRCL), or the image of every image's captions
// (DECL, RCL), with which all captions of an image are wrong together. NoisyCaptions makes them as the repositories do,
// with the generator that numpy.random.seed seeds: of n entries, floor(ratio·n) exchange their images at random, and
// some get their own image back.

// NoisyCaptions returns the image of every caption (XLearning-SCU/2021-NeurIPS-NCR, data.py). BiCro's published files
// of Flickr30K are made for 145,000 captions, 5 an image: ratio 0.2, 0.4 and 0.6 of seed 96, 0.5 of seed 34. With one
// item for each image, the index has the image that the captions of every image are given (penghu-cs/RCL, data.py).
func NoisyCaptions(g Groups, ratio float64, seed uint32) []int64 {
	index := make([]int64, g.Items())
	for c := range index {
		index[c] = int64(g.ImageOf(c))
	}
	m := prng.NewMT19937()
	m.Seed(uint64(seed))
	places := upTo(len(index))
	shuffle(m, places)
	places = places[:int(ratio*float64(len(index)))]
	values := make([]int64, len(places))
	for i, p := range places {
		values[i] = index[p]
	}
	shuffle(m, values)
	for i, p := range places {
		index[p] = values[i]
	}
	return index
}

// NoisyPairs returns the image of every caption of a split for a noise index of either shape, and how many captions do
// not have their own image.
func NoisyPairs(index []int64, g Groups) (images []int64, wrong int, err error) {
	n, captions := g.Images(), g.Items()
	if len(index) != n && len(index) != captions {
		return nil, 0, fmt.Errorf("%d entries, expected %d, the image of each caption, or %d, of each image; the "+
			"index is of another split", len(index), captions, n)
	}
	images = make([]int64, captions)
	for c := range images {
		own := g.ImageOf(c)
		at := c
		if len(index) == n {
			at = own
		}
		if index[at] < 0 || index[at] >= int64(n) {
			return nil, 0, fmt.Errorf("entry %d is %d, expected the number of an image from 0 to %d; the index is of "+
				"another split", at, index[at], n-1)
		}
		if images[c] = index[at]; images[c] != int64(own) {
			wrong++
		}
	}
	return images, wrong, nil
}

// AttachNoise gives the captions of a split the images of a noise index, of either shape: ImageOf, ImageRow and the
// batches follow it. An entry is the index of an image, as in NCR (XLearning-SCU/2021-NeurIPS-NCR, data.py,
// PrecompDataset). It returns the record of the index for the run.
func AttachNoise(s *Split, path string) (*runfs.NoiseIndex, error) {
	index, sum, err := readNoise(path)
	if missing(err) {
		return nil, fmt.Errorf("data.noise_index: %w; `vsetrain data noise %s` makes one", err, s.dir)
	}
	if err != nil {
		return nil, fmt.Errorf("data.noise_index: %w", err)
	}
	n, record := &noise{}, &runfs.NoiseIndex{File: filepath.Base(path), SHA256: sum, Of: s.n}
	if n.images, record.Wrong, err = NoisyPairs(index, s.groups); err != nil {
		return nil, fmt.Errorf("data.noise_index: %s: %w than %s; name the index of this data set, or make one with "+
			"`vsetrain data noise %s`", path, err, s.captions.path, s.dir)
	}
	n.captions, n.start = make([]int32, s.n), make([]int32, s.NumImages()+1)
	for _, i := range n.images {
		n.start[i+1]++
	}
	for i := range s.NumImages() {
		n.start[i+1] += n.start[i]
	}
	next := slices.Clone(n.start)
	for c, i := range n.images {
		n.captions[next[i]] = int32(c)
		next[i]++
	}
	s.noise = n
	return record, nil
}

// WriteNoise writes a noise index as an int64 array [captions] or [images].
func WriteNoise(path string, index []int64) error {
	w, err := npy.Create(path, npy.I64, []int{len(index)})
	if err != nil {
		return err
	}
	if err := w.WriteInts(index); err != nil {
		w.Abort()
		return err
	}
	return w.Close()
}

// readNoise returns the numbers of a noise index and the SHA-256 of its file.
func readNoise(path string) (index []int64, sum string, err error) {
	f, err := npy.Open(path)
	if err != nil {
		return nil, "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	switch f.DType {
	case npy.F16, npy.F32, npy.F64, npy.Bool, npy.Object:
		return nil, "", fmt.Errorf("%s: elements of %s, expected int64, numbers of images; save it with "+
			"numpy.save(file, index.astype('int64'))", path, f.DType.Name())
	}
	if len(f.Shape) != 1 {
		return nil, "", fmt.Errorf("%s: shape %v, expected [captions], the image of each caption, or [images]; "+
			"save it with numpy.save(file, index.reshape(-1))", path, f.Shape)
	}
	if index, err = f.Ints(); err != nil {
		return nil, "", err
	}
	sum, err = integrity.FileSHA256(path)
	return index, sum, err
}

// shuffle is numpy.random.shuffle with the generator that numpy.random.seed seeds.
func shuffle[T any](m *prng.MT19937, x []T) {
	for i := len(x) - 1; i > 0; i-- {
		mask := uint32(1)
		for mask < uint32(i) {
			mask = mask<<1 | 1
		}
		j := m.Uint32() & mask
		for j > uint32(i) {
			j = m.Uint32() & mask
		}
		x[i], x[j] = x[j], x[i]
	}
}
