package models

import (
	"fmt"
	"slices"
	"strings"

	"vsetrain/batch"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/graph"
)

// PairRunner encodes images and captions with a PairScorer, and scores tiles of pairs.
type PairRunner struct {
	Model    *Model
	Resident *Resident // what of the split is on the device; may be nil
	Skip     bool      // what is appended has no values yet: another rank computes them

	net      PairScorer
	feeder   *Feeder
	images   map[int]*pairEncoder    // by number
	captions map[[2]int]*pairEncoder // by number and bucket
	tiles    map[tileShape]*encoder
}

type tileShape struct{ images, captions, capacity int }

// pairEncoder is an encoder with several results.
type pairEncoder struct {
	prog   *graph.Program
	values []*graph.Node
	words  []*graph.Node
}

// AppendImages encodes images. capacity is the number of images that s will hold.
func (r *PairRunner) AppendImages(s *EncodedSet, b batch.Images, capacity int) error {
	e := r.images[b.N]
	if e == nil {
		var err error
		e, err = r.compile(func(g *graph.Graph) *pairEncoder {
			return &pairEncoder{values: r.net.Images(g, r.Model.ImageInputs(g, b.N)).Values}
		})
		if err != nil {
			return err
		}
		r.images[b.N] = e
	}
	if err := r.run(e, func() error { return r.feeder.Images(b) }); err != nil {
		return err
	}
	r.append(&s.Values, e, e.values, b.N, capacity)
	s.N += b.N
	return nil
}

// AppendCaptions encodes captions and copies their dependencies, if any. capacity is the number of captions that s will
// hold.
func (r *PairRunner) AppendCaptions(s *EncodedSet, b batch.Captions, capacity int) error {
	n, bucket := len(b.Lengths), Bucket(b.Longest())
	key := [2]int{n, bucket}
	e := r.captions[key]
	if e == nil {
		var err error
		e, err = r.compile(func(g *graph.Graph) *pairEncoder {
			c := r.net.Words(g, r.Model.CaptionInputs(g, n, bucket, 0))
			return &pairEncoder{values: c.Values, words: c.Words}
		})
		if err != nil {
			return err
		}
		r.captions[key] = e
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
func (r *PairRunner) append(to *[]Rows, e *pairEncoder, from []*graph.Node, rows, capacity int) {
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

// Score scores images [i0, i1) with captions [c0, c1) of two sets: dst [i1-i0, c1-c0]. capacity is at least the
// number of their words; tiles of one size and one capacity share a graph. Resident values are read on the device.
func (r *PairRunner) Score(dst []float32, images *EncodedSet, i0, i1 int, captions *EncodedSet, c0, c1,
	capacity int) error {
	e, err := r.feed(images, i0, i1, captions, c0, c1, capacity)
	if err != nil {
		return err
	}
	return r.Model.run(e, dst)
}

// Names of the inputs of pairs.
const inImages, inCaptions, inWords = "in.pair.image.%d", "in.pair.caption.%d", "in.pair.words.%d"

// feed finds or compiles the program of a tile and feeds the tile.
func (r *PairRunner) feed(images *EncodedSet, i0, i1 int, captions *EncodedSet, c0, c1, capacity int) (*encoder,
	error) {
	key := tileShape{i1 - i0, c1 - c0, capacity}
	e, err := cached(r.Model, r.tiles, key, func(g *graph.Graph) *graph.Node {
		return r.nodes(g, key, images, captions)
	})
	if err != nil {
		return nil, err
	}
	return e, r.feedTile(images, i0, i1, captions, c0, c1, capacity)
}

// feedTile feeds the values of a tile.
func (r *PairRunner) feedTile(images *EncodedSet, i0, i1 int, captions *EncodedSet, c0, c1, capacity int) error {
	s := r.Model.Instance
	for k := range images.Values {
		if err := r.feedRows(fmt.Sprintf(inImages, k), images.Values[k].rows(i0, i1),
			images.resident.rows(k, i0, i1)); err != nil {
			return err
		}
	}
	for k := range captions.Values {
		if err := r.feedRows(fmt.Sprintf(inCaptions, k), captions.Values[k].rows(c0, c1),
			captions.resident.rows(k, c0, c1)); err != nil {
			return err
		}
	}
	for k := range captions.Words {
		v, name := &captions.Words[k], fmt.Sprintf(inWords, k)
		if on := captions.resident.wordRows(k, c0, c1, captions.First, capacity); on.Present() {
			s.Bind(name, on)
		} else if err := s.FeedPart(name, v.rows(captions.First[c0], captions.First[c1]),
			capacity*v.Width); err != nil {
			return err
		}
	}
	if err := s.FeedInts(InputLengths, captions.Length[c0:c1]); err != nil {
		return err
	}
	edges, start := captions.edgesOf(c0, c1)
	return r.feeder.Edges(batch.Captions{Lengths: captions.Length[c0:c1], Edges: edges, EdgeStart: start}, capacity)
}

// feedRows feeds values: those on the device, if they are resident.
func (r *PairRunner) feedRows(name string, values []float32, on device.View) error {
	if on.Present() {
		r.Model.Instance.Bind(name, on)
		return nil
	}
	return r.Model.Instance.Feed(name, values)
}

// nodes are the scores of a tile.
func (r *PairRunner) nodes(g *graph.Graph, key tileShape, images, captions *EncodedSet) *graph.Node {
	im, c := r.inputs(g, key, images, captions)
	return r.net.Pairs(g, im, c)
}

// inputs are the values of a tile.
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

// Attention computes how the words of caption c of a set attend to the regions of image i of a set, or with
// WordAttender.AttendsWords the regions to the words: the weights [words of the caption, R]. A network that is not a
// WordAttender is an error.
func (r *PairRunner) Attention(images *EncodedSet, i int, captions *EncodedSet, c int) ([]float32, error) {
	net, ok := r.net.(WordAttender)
	if !ok {
		return nil, fmt.Errorf("the words of network %s attend to no regions; those of %s do",
			r.Model.Options.Network, strings.Join(NamesWhere(func(t Traits) bool { return t.WordAttention }), ", "))
	}
	words, regions := int(captions.Length[c]), r.Model.Dims.Regions
	key := tileShape{1, 1, Bucket(words)}
	g := r.Model.Instance.Graph()
	e, err := r.Model.compile(g, func() *graph.Node {
		im, text := r.inputs(g, key, images, captions)
		return net.Attention(g, im, text)
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

// AttendsWords reports whether the weights of Attention are the weights of regions over words.
func (r *PairRunner) AttendsWords() bool {
	net, ok := r.net.(WordAttender)
	return ok && net.AttendsWords()
}

func (r *PairRunner) compile(build func(g *graph.Graph) *pairEncoder) (e *pairEncoder, err error) {
	g := r.Model.Instance.Graph()
	err = graph.Build(func() error {
		e = build(g)
		var err error
		e.prog, err = graph.Compile(r.Model.Instance, g, slices.Concat(e.values, e.words), nil)
		return err
	})
	return e, r.Model.explain(err)
}

func (r *PairRunner) run(e *pairEncoder, feed func() error) error {
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
