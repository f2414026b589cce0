package models

import (
	"fmt"
	"slices"
	"strings"

	"vsetrain/batch"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/graph"
)

// PairRunner encodes images and captions with a PairScorer and scores tiles of pairs.
type PairRunner struct {
	Model    *Model
	Resident *Resident // the part of the split that is on the device; may be nil
	Skip     bool      // append rows without values: another rank computes them

	net      PairScorer
	feeder   *Feeder
	images   map[int]*encoder    // by number
	captions map[[2]int]*encoder // by number and bucket
	tiles    map[tileShape]*encoder
}

type tileShape struct{ images, captions, capacity int }

// AppendImages encodes images and appends them to s. capacity is the number of images that s will hold.
func (r *PairRunner) AppendImages(s *EncodedSet, b batch.Images, capacity int) error {
	e, err := cached(r.Model, r.images, b.N, func(g *graph.Graph) *encoder {
		return results(r.net.Images(g, r.Model.ImageInputs(g, b.N)).Values...)
	})
	if err != nil {
		return err
	}
	if err := r.run(e, func() error { return r.feeder.Images(b) }); err != nil {
		return err
	}
	r.append(&s.Values, e, e.values, b.N, capacity)
	s.N += b.N
	return nil
}

// AppendCaptions encodes captions and appends them to s, with their dependencies. capacity is the number of captions
// that s will hold.
func (r *PairRunner) AppendCaptions(s *EncodedSet, b batch.Captions, capacity int) error {
	n, bucket := len(b.Lengths), Bucket(b.Longest())
	e, err := cached(r.Model, r.captions, [2]int{n, bucket}, func(g *graph.Graph) *encoder {
		c := r.net.Words(g, r.Model.CaptionInputs(g, n, bucket, 0))
		return &encoder{values: c.Values, words: c.Words}
	})
	if err != nil {
		return err
	}
	if err := r.run(e, func() error { return r.feeder.Captions(b) }); err != nil {
		return err
	}
	if len(s.First) == 0 {
		s.First = append(s.First, 0)
	}
	for _, c := range b.Lengths {
		s.Length = append(s.Length, c)
		s.First = append(s.First, s.First[len(s.First)-1]+int(c))
	}
	r.append(&s.Values, e, e.values, n, capacity)
	r.append(&s.Words, e, e.words, device.Total(b.Lengths), 0)
	s.N += n
	s.appendEdges(b.Edges, b.EdgeStart)
	return nil
}

// append downloads the first rows of the values of a program.
func (r *PairRunner) append(to *[]Rows, e *encoder, from []*graph.Node, rows, capacity int) {
	if *to == nil {
		*to = make([]Rows, len(from))
	}
	for k, n := range from {
		x := &(*to)[k]
		x.Width = graph.Dim(n, 1)
		if x.Data == nil {
			x.Data = make([]float32, 0, capacity*x.Width)
		}
		at := len(x.Data)
		x.Data = slices.Grow(x.Data, rows*x.Width)[:at+rows*x.Width]
		if !r.Skip {
			r.Model.Instance.Dev.DownloadFloats(x.Data[at:], e.prog.View(n).Slice(0, rows*x.Width))
		}
	}
}

// Score scores images [i0, i1) with captions [c0, c1) of two sets: dst [i1-i0, c1-c0]. capacity is at least the number
// of words of these captions. Tiles of the same size and capacity share a graph. Resident values are read on the
// device.
func (r *PairRunner) Score(dst []float32, images *EncodedSet, i0, i1 int, captions *EncodedSet, c0, c1,
	capacity int) error {
	e, err := r.feed(images, i0, i1, captions, c0, c1, capacity)
	if err != nil {
		return err
	}
	return r.Model.run(e, dst)
}

// Names of the inputs of a tile.
const inImages, inCaptions, inWords = "in.pair.image.%d", "in.pair.caption.%d", "in.pair.words.%d"

// feed finds or compiles the program of a tile and feeds the tile.
func (r *PairRunner) feed(images *EncodedSet, i0, i1 int, captions *EncodedSet, c0, c1, capacity int) (*encoder,
	error) {
	key := tileShape{i1 - i0, c1 - c0, capacity}
	e, err := cached(r.Model, r.tiles, key, func(g *graph.Graph) *encoder {
		return results(r.nodes(g, key, images, captions))
	})
	if err != nil {
		return nil, err
	}
	return e, r.feedTile(images, i0, i1, captions, c0, c1, capacity)
}

// feedTile feeds the values of a tile.
func (r *PairRunner) feedTile(images *EncodedSet, i0, i1 int, captions *EncodedSet, c0, c1, capacity int) error {
	s := r.Model.Instance
	feed := func(input string, values []float32, on device.View, n int) error {
		if on.Present() {
			s.Bind(input, on)
			return nil
		}
		return s.FeedPart(input, values, n)
	}
	rows := func(input string, set *EncodedSet, lo, hi int) (err error) {
		for k := 0; k < len(set.Values) && err == nil; k++ {
			v := set.Values[k].rows(lo, hi)
			err = feed(fmt.Sprintf(input, k), v, set.residentValues(k, lo, hi), len(v))
		}
		return err
	}
	if err := rows(inImages, images, i0, i1); err != nil {
		return err
	}
	if err := rows(inCaptions, captions, c0, c1); err != nil {
		return err
	}
	for k := range captions.Words {
		v := &captions.Words[k]
		if err := feed(fmt.Sprintf(inWords, k), v.rows(captions.First[c0], captions.First[c1]),
			captions.residentWords(k, c0, c1, capacity), capacity*v.Width); err != nil {
			return err
		}
	}
	if err := s.FeedInts(InputLengths, captions.Length[c0:c1]); err != nil {
		return err
	}
	edges, start := captions.edgesOf(c0, c1)
	return r.feeder.Edges(batch.Captions{Lengths: captions.Length[c0:c1], Edges: edges, EdgeStart: start}, capacity)
}

// nodes returns the scores of a tile.
func (r *PairRunner) nodes(g *graph.Graph, key tileShape, images, captions *EncodedSet) *graph.Node {
	im, c := r.inputs(g, key, images, captions)
	return r.net.Pairs(g, im, c)
}

// inputs returns the inputs of a tile.
func (r *PairRunner) inputs(g *graph.Graph, key tileShape, images, captions *EncodedSet) (im EncodedImages,
	c EncodedCaptions) {
	for k, v := range images.Values {
		im.Values = append(im.Values, g.Input(fmt.Sprintf(inImages, k), key.images, v.Width))
	}
	c.Lengths = g.InputInts(InputLengths, key.captions)
	c.Edges, c.EdgeStart = r.Model.edgeInputs(g, key.captions, key.capacity)
	for k, v := range captions.Words {
		c.Words = append(c.Words, g.Input(fmt.Sprintf(inWords, k), key.capacity, v.Width))
	}
	for k, v := range captions.Values {
		c.Values = append(c.Values, g.Input(fmt.Sprintf(inCaptions, k), key.captions, v.Width))
	}
	return im, c
}

// Attention returns the weights [words, R] with which the words of caption c attend to the regions of image i. Where
// AttendsWords is true the regions attend to the words. The network must be a WordAttender.
func (r *PairRunner) Attention(images *EncodedSet, i int, captions *EncodedSet, c int) ([]float32, error) {
	net, ok := r.net.(WordAttender)
	if !ok {
		return nil, fmt.Errorf("network %s does not let words attend to regions; %s do",
			r.Model.Options.Network, strings.Join(NamesWhere(func(t Traits) bool { return t.WordAttention }), ", "))
	}
	words, regions := int(captions.Length[c]), r.Model.Dims.Regions
	key := tileShape{1, 1, Bucket(words)}
	e, err := r.Model.compile(func(g *graph.Graph) *encoder {
		im, text := r.inputs(g, key, images, captions)
		return results(net.Attention(g, im, text))
	})
	if err != nil {
		return nil, err
	}
	if err := r.feedTile(images, i, i+1, captions, c, c+1, key.capacity); err != nil {
		return nil, err
	}
	weights := make([]float32, key.capacity*regions)
	if err := r.Model.run(e, weights); err != nil {
		return nil, err
	}
	return weights[:words*regions], nil
}

// AttendsWords reports whether Attention returns weights of the words for each region.
func (r *PairRunner) AttendsWords() bool {
	net, ok := r.net.(WordAttender)
	return ok && net.AttendsWords()
}

func (r *PairRunner) run(e *encoder, feed func() error) error {
	if r.Skip {
		return nil
	}
	if err := feed(); err != nil {
		return err
	}
	if err := e.prog.RunAll(); err != nil {
		return r.Model.explain(err)
	}
	return r.Model.Instance.Dev.Sync()
}
