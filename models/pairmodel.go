package models

import (
	"fmt"
	"slices"

	"vsetrain/internal/device"
	"vsetrain/internal/graph"
)

// pairPrograms are the compiled evaluation graphs of a PairScorer.
type pairPrograms struct {
	images   map[int]*pairEncoder
	captions map[[2]int]*pairEncoder
	tiles    map[tileShape]*encoder
}

type tileShape struct{ images, captions, room int }

// pairEncoder is an encoder with several results.
type pairEncoder struct {
	prog   *graph.Program
	values []*graph.Node
	words  []*graph.Node
}

// EncodedSet is what a PairScorer keeps of the images or of the captions of a split, on the host and in the order they were
// appended.
type EncodedSet struct {
	N      int
	Values []Rows  // a row per image or caption
	Words  []Rows  // captions: a row per word
	Length []int32 // captions: words of each
	First  []int   // captions: row of the first word of each, and the total at the end

	Edges, EdgeStart []int32 // captions: dependencies, see Captions; empty where there are none

	placed *placed // what of it lies on the device, see Place
}

// Rows are rows of one width.
type Rows struct {
	Width int
	Data  []float32
}

func (r *Rows) rows(lo, hi int) []float32 { return r.Data[lo*r.Width : hi*r.Width] }

// PairScorer returns the network as a PairScorer, and whether it is one.
func (m *Model) PairScorer() (PairScorer, bool) {
	p, ok := m.Network.(PairScorer)
	return p, ok
}

// ImageInputs are the inputs of a graph of a PairScorer over n images.
func (m *Model) ImageInputs(g *graph.Graph, n int) ImageInputs {
	return ImageInputs{Regions: m.RegionsNode(g, n), Boxes: m.boxesNode(g, n)}
}

// AppendImages encodes n images with a PairScorer: regions [n, R, D], and boxes [n, R, 4] where the network needs them. room is the number of images that s will hold in the end.
func (m *Model) AppendImages(s *EncodedSet, regions, boxes []float32, n, room int) error {
	return m.appendImages(s, n, room, func() error {
		if err := m.Session.Feed(InputRegions, regions); err != nil {
			return err
		}
		return m.FeedBoxes(boxes, n)
	})
}

// AppendKept is AppendImages for rows of the feature file of a split whose features are on the device; boxes are there too, or given.
func (m *Model) AppendKept(s *EncodedSet, k *Kept, rows []int32, boxes []float32, room int) error {
	return m.appendImages(s, len(rows), room, func() error {
		if err := m.feedRegionRows(k, rows); err != nil {
			return err
		}
		if m.Options.NeedsBoxes() && k.HasBoxes() {
			return m.feedBoxRows(k, rows)
		}
		return m.FeedBoxes(boxes, len(rows))
	})
}

func (m *Model) appendImages(s *EncodedSet, n, room int, feed func() error) error {
	e := m.pairs.images[n]
	if e == nil {
		p, ok := m.PairScorer()
		if !ok {
			return fmt.Errorf("network %s does not score pairs", m.Options.Network)
		}
		g := m.Session.Graph()
		var err error
		e, err = m.compilePairs(g, func() *pairEncoder { return &pairEncoder{values: p.Images(g, m.ImageInputs(g, n)).Values} })
		if err != nil {
			return err
		}
		if m.pairs.images == nil {
			m.pairs.images = map[int]*pairEncoder{}
		}
		m.pairs.images[n] = e
	}
	if err := feed(); err != nil {
		return err
	}
	if err := m.runPairs(e); err != nil {
		return err
	}
	m.append(&s.Values, e, e.values, n, room)
	s.N += n
	return nil
}

// AppendCaptions encodes n captions of at most l words with a PairScorer, sorted by length in descending order: words [n, l].
// room is the number of captions that s will hold in the end.
func (m *Model) AppendCaptions(s *EncodedSet, words, lengths []int32, n, l, room int) error {
	key := [2]int{n, Bucket(l)}
	e := m.pairs.captions[key]
	if e == nil {
		p, ok := m.PairScorer()
		if !ok {
			return fmt.Errorf("network %s does not score pairs", m.Options.Network)
		}
		g := m.Session.Graph()
		var err error
		e, err = m.compilePairs(g, func() *pairEncoder {
			c := p.Words(g, m.CaptionNodes(g, n, key[1]))
			return &pairEncoder{values: c.Values, words: c.Words}
		})
		if err != nil {
			return err
		}
		if m.pairs.captions == nil {
			m.pairs.captions = map[[2]int]*pairEncoder{}
		}
		m.pairs.captions[key] = e
	}
	if err := m.FeedWords(words, lengths, n, l); err != nil {
		return err
	}
	if err := m.runPairs(e); err != nil {
		return err
	}
	total := 0
	if len(s.First) == 0 {
		s.First = append(s.First, 0)
	}
	for _, c := range lengths {
		total += int(c)
		s.Length = append(s.Length, c)
		s.First = append(s.First, s.First[len(s.First)-1]+int(c))
	}
	m.append(&s.Values, e, e.values, n, room)
	m.append(&s.Words, e, e.words, total, 0)
	s.N += n
	return nil
}

// append downloads the first rows of the values of a program.
func (m *Model) append(to *[]Rows, e *pairEncoder, from []*graph.Node, rows, room int) {
	if *to == nil {
		*to = make([]Rows, len(from))
	}
	for k, n := range from {
		v := e.prog.View(n)
		r := &(*to)[k]
		r.Width = graph.Dim(n, 1)
		if r.Data == nil {
			r.Data = make([]float32, 0, room*r.Width)
		}
		at := len(r.Data)
		r.Data = slices.Grow(r.Data, rows*r.Width)[:at+rows*r.Width]
		m.Session.Dev.DownloadFloats(r.Data[at:], v.Slice(0, rows*r.Width))
	}
}

// ScorePairs scores images [i0, i1) with captions [c0, c1) of two sets: dst [i1-i0, c1-c0]. roomWords is at least the
// number of their words; tiles of one size and one roomWords share a graph. What Place brought to the device is read there.
func (m *Model) ScorePairs(dst []float32, images *EncodedSet, i0, i1 int, captions *EncodedSet, c0, c1, roomWords int) error {
	e, err := m.feedPairs(images, i0, i1, captions, c0, c1, roomWords)
	if err != nil {
		return err
	}
	return m.run(e, dst)
}

// Names of the inputs of pairs.
const inImages, inCaptions, inWords = "in.pair.image.%d", "in.pair.caption.%d", "in.pair.words.%d"

// feedPairs finds or compiles the program of a tile and feeds the tile.
func (m *Model) feedPairs(images *EncodedSet, i0, i1 int, captions *EncodedSet, c0, c1, roomWords int) (*encoder, error) {
	key := tileShape{i1 - i0, c1 - c0, roomWords}
	e := m.pairs.tiles[key]
	if e == nil {
		g := m.Session.Graph()
		var err error
		if e, err = m.compile(g, func() *graph.Node { return m.pairNodes(g, key, images, captions) }); err != nil {
			return nil, err
		}
		if m.pairs.tiles == nil {
			m.pairs.tiles = map[tileShape]*encoder{}
		}
		m.pairs.tiles[key] = e
	}
	s := m.Session
	for k := range images.Values {
		if err := m.feedRows(fmt.Sprintf(inImages, k), images.Values[k].rows(i0, i1), images.placed.rows(k, i0, i1)); err != nil {
			return nil, err
		}
	}
	for k := range captions.Values {
		if err := m.feedRows(fmt.Sprintf(inCaptions, k), captions.Values[k].rows(c0, c1), captions.placed.rows(k, c0, c1)); err != nil {
			return nil, err
		}
	}
	for k := range captions.Words {
		v, name := &captions.Words[k], fmt.Sprintf(inWords, k)
		if on := captions.placed.wordRows(k, c0, c1, captions.First, roomWords); on.Present() {
			s.Lend(name, on)
		} else if err := s.FeedPart(name, v.rows(captions.First[c0], captions.First[c1]), roomWords*v.Width); err != nil {
			return nil, err
		}
	}
	if err := s.FeedInts(InputLengths, captions.Length[c0:c1]); err != nil {
		return nil, err
	}
	edges, start := captions.edgesOf(c0, c1)
	return e, m.FeedEdges(edges, start, c1-c0, roomWords)
}

// feedRows feeds values, from the device where they are there.
func (m *Model) feedRows(name string, values []float32, on device.View) error {
	if on.Present() {
		m.Session.Lend(name, on)
		return nil
	}
	return m.Session.Feed(name, values)
}

// pairNodes are the scores of a tile.
func (m *Model) pairNodes(g *graph.Graph, key tileShape, images, captions *EncodedSet) *graph.Node {
	p, ok := m.PairScorer()
	if !ok {
		graph.Failf("network %s does not score pairs", m.Options.Network)
	}
	var im EncodedImages
	for k, v := range images.Values {
		im.Values = append(im.Values, g.Input(fmt.Sprintf(inImages, k), key.images, v.Width))
	}
	c := EncodedCaptions{Lengths: g.InputInts(InputLengths, key.captions)}
	c.Edges, c.EdgeStart = m.EdgeNodes(g, key.captions, key.room)
	for k, v := range captions.Words {
		c.Words = append(c.Words, g.Input(fmt.Sprintf(inWords, k), key.room, v.Width))
	}
	for k, v := range captions.Values {
		c.Values = append(c.Values, g.Input(fmt.Sprintf(inCaptions, k), key.captions, v.Width))
	}
	return p.Pairs(g, im, c)
}

func (m *Model) compilePairs(g *graph.Graph, build func() *pairEncoder) (e *pairEncoder, err error) {
	err = graph.Build(func() error {
		e = build()
		var err error
		e.prog, err = graph.Compile(m.Session, g, append(append([]*graph.Node(nil), e.values...), e.words...), nil)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("network %s: %w", m.Options.Network, err)
	}
	return e, nil
}

func (m *Model) runPairs(e *pairEncoder) error {
	if err := e.prog.RunAll(); err != nil {
		return fmt.Errorf("network %s: %w", m.Options.Network, err)
	}
	return m.Session.Dev.Sync()
}
