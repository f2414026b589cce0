package models

import (
	"fmt"

	"vsetrain/internal/device"
	"vsetrain/internal/graph"
	"vsetrain/internal/par"
	"vsetrain/models/nn"
)

// Names of the graph inputs that every program of a network reads.
const (
	InputRegions = "in.regions" // [B, R·D]
	InputWords   = "in.words"   // int32 [B, L]
	InputLengths = "in.lengths" // int32 [B]

	// Those of a captioning branch, see Labels.
	InputLabels     = "in.labels"
	InputLabelMask  = "in.label_mask"
	InputLabelSteps = "in.label_steps"
	// InputLabelPlaces are the steps that captions have where InputLabelSteps is the same for all of them.
	InputLabelPlaces = "in.label_places"
	// InputRegionCounts is read by training graphs whose images have different numbers of regions: int32 [B]. InputRegions is
	// then the regions of all images one after the other, with room for R each.
	InputRegionCounts = "in.region_counts"
	// Those of networks that put the regions of every image, dropped ones included, into R places (CHAN), [B, R]: the row
	// of InputRegions in each place, int32; 1 where a region is and 0 where one was dropped; int32, 1 where the other
	// regions of the image may attend to the place.
	InputRegionPlaces = "in.region_places"
	InputRegionMask   = "in.region_mask"
	InputAttended     = "in.regions_attended"
)

// Model is a network with its parameters on a device: what training updates and evaluation runs.
type Model struct {
	Network Network
	Options Options
	Dims    Dims
	Session *graph.Session

	// Loosely lets training graphs know of lengths and region counts an upper bound only (graph.Session.FeedLoose), so that all batches of one shape do
	// the same; for devices that record. It is set while a training batch is fed.
	Loosely bool

	images    map[int]*encoder
	captions  map[[2]int]*encoder
	scores    map[[2]int]*encoder
	pairs     pairPrograms
	words     []int32    // staging of padded words
	counts    []int32    // R for every image
	bounds    [2][]int32 // staging of upper bounds of words and regions, see Loosely
	padded    padding    // of regions
	kept      *Kept      // of the training split
	edges     []int32    // staging of dependencies
	edgeStart []int32
}

// encoder is a compiled evaluation graph for one shape.
type encoder struct {
	prog *graph.Program
	out  *graph.Node
}

// NewModel builds a network and allocates its parameters, zeroed, on a device.
func NewModel(dev device.Device, o Options, d Dims) (*Model, error) {
	n, err := New(o, d)
	if err != nil {
		return nil, err
	}
	return newModel(dev, n, o, d)
}

func newModel(dev device.Device, n Network, o Options, d Dims) (*Model, error) {
	s, err := graph.NewSession(dev, Specs(n))
	if err != nil {
		return nil, fmt.Errorf("network %s: %w", o.Network, err)
	}
	return &Model{Network: n, Options: o, Dims: d, Session: s, images: map[int]*encoder{}, captions: map[[2]int]*encoder{},
		scores: map[[2]int]*encoder{}}, nil
}

// Init draws all parameters from the seed, with all threads of pool (nil is the caller alone). The values depend on the
// seed and the names alone.
func (m *Model) Init(seed uint64, pool *par.Pool) {
	buf := make([]float32, nn.FillPiece)
	for _, p := range m.Network.Params() {
		v := m.Session.Params.Value(p.Name)
		for lo := 0; lo < v.N; lo += len(buf) {
			piece := buf[:min(len(buf), v.N-lo)]
			p.Fill(piece, lo, seed, pool)
			m.Session.Dev.UploadFloats(v.Slice(lo, lo+len(piece)), piece)
		}
	}
}

// Embedder returns the network as an Embedder. Only a model whose network is one may be asked to embed.
func (m *Model) Embedder() Embedder {
	e, ok := m.Network.(Embedder)
	if !ok {
		graph.Failf("network %s scores pairs, it does not embed", m.Options.Network)
	}
	return e
}

// EmbedDim returns the size of an embedding.
func (m *Model) EmbedDim() int { return m.Options.EmbedDim }

// Bucket rounds a caption length up to the lengths that graphs are compiled for, so that few graphs serve all batches.
// Packed work means that the rounding costs memory, not time.
func Bucket(l int) int { return max(8, (l+7)/8*8) }

// FeedWords feeds captions [n, l] padded to the bucket of l, and their lengths, which must be in descending order. The
// slices are read until the programs have run.
func (m *Model) FeedWords(words, lengths []int32, n, l int) error {
	if _, err := m.padWords(words, lengths, n, l); err != nil {
		return err
	}
	if err := m.Session.FeedInts(InputWords, m.words); err != nil {
		return err
	}
	return m.feedLengths(lengths, n, l)
}

// padWords leaves captions [n, l] padded to the bucket of l in m.words, and returns the bucket.
func (m *Model) padWords(words, lengths []int32, n, l int) (wide int, err error) {
	wide = Bucket(l)
	if len(words) != n*l || len(lengths) != n {
		return 0, fmt.Errorf("feed captions: %d words and %d lengths for %d captions of %d", len(words), len(lengths), n, l)
	}
	if most := m.Options.Bert.Positions; m.Options.TextEncoder == TextBert && l > most {
		return 0, fmt.Errorf("feed captions: %d words, BERT has %d positions", l, most)
	}
	if cap(m.words) < n*wide {
		m.words = make([]int32, n*wide)
	}
	m.words = m.words[:n*wide]
	clear(m.words)
	for i := range n {
		copy(m.words[i*wide:], words[i*l:(i+1)*l])
	}
	return wide, nil
}

// feedLengths feeds the lengths of n captions of at most l words.
func (m *Model) feedLengths(lengths []int32, n, l int) error {
	if m.Loosely {
		return m.feedLoose(0, InputLengths, lengths[:n], m.longest(l), wordUnit(n))
	}
	return m.Session.FeedInts(InputLengths, lengths)
}

// FeedRegions feeds the regions of n images for training: counts says how many each image has, nil is all R. The slices are
// read until the programs have run.
func (m *Model) FeedRegions(regions []float32, counts []int32, n int) error {
	if counts == nil {
		counts = m.all(n)
	}
	rows := 0
	for i, c := range counts {
		if c < 1 || int(c) > m.Dims.Regions {
			return fmt.Errorf("feed images: image %d has %d regions, expected 1 to %d", i, c, m.Dims.Regions)
		}
		rows += int(c)
	}
	if len(counts) != n || len(regions) != rows*m.Dims.Feature {
		return fmt.Errorf("feed images: %d counts and %d values for %d images of %d regions in all, %d values each", len(counts), len(regions), n,
			rows, m.Dims.Feature)
	}
	if err := m.Session.FeedPart(InputRegions, regions, n*m.Dims.Regions*m.Dims.Feature); err != nil {
		return err
	}
	return m.feedCounts(counts)
}

// RegionsNode and CaptionNodes are the inputs of a graph over n pairs whose longest caption falls into the given bucket.
func (m *Model) RegionsNode(g *graph.Graph, n int) *graph.Node {
	return g.Input(InputRegions, n, m.Dims.Regions*m.Dims.Feature)
}

// CaptionNodes returns the caption inputs of a graph.
func (m *Model) CaptionNodes(g *graph.Graph, n, bucket int) Captions {
	return Captions{Words: g.InputInts(InputWords, n, bucket), Lengths: g.InputInts(InputLengths, n)}
}

// LabelNodes returns the inputs of a captioning branch of at most the given number of steps.
func (m *Model) LabelNodes(g *graph.Graph, n, steps int) Labels {
	var places *graph.Node
	if m.PadsLabels() {
		places = g.InputInts(InputLabelPlaces, n)
	}
	return Labels{Places: places, Words: g.InputInts(InputLabels, n, steps+1), Mask: g.InputInts(InputLabelMask, n, steps+1), Steps: g.InputInts(InputLabelSteps, n)}
}

// PadsLabels reports whether the captioning branch is fed with as many steps for every caption: on a device that records steps.
func (m *Model) PadsLabels() bool {
	_, ok := m.Session.Dev.(device.Recorder)
	return ok
}

// EncodeImages embeds n images: regions [n, R, D] → dst [n, E].
func (m *Model) EncodeImages(dst, regions []float32, n int) error {
	return m.encodeImages(dst, n, func() error { return m.Session.Feed(InputRegions, regions) })
}

// EncodeKept embeds images of a split whose features are on the device, by their rows of the feature file: dst [len(rows), E].
func (m *Model) EncodeKept(dst []float32, k *Kept, rows []int32) error {
	return m.encodeImages(dst, len(rows), func() error { return m.feedRegionRows(k, rows) })
}

func (m *Model) encodeImages(dst []float32, n int, feed func() error) error {
	e := m.images[n]
	if e == nil {
		var err error
		if e, err = m.compileImages(m.Session.Graph(), n); err != nil {
			return err
		}
		m.images[n] = e
	}
	if err := feed(); err != nil {
		return err
	}
	return m.run(e, dst)
}

// EncodeCaptions embeds n captions of at most l words, sorted by length in descending order: words [n, l] → dst [n, E].
func (m *Model) EncodeCaptions(dst []float32, words, lengths []int32, n, l int) error {
	key := [2]int{n, Bucket(l)}
	e := m.captions[key]
	if e == nil {
		g := m.Session.Graph()
		var err error
		e, err = m.compile(g, func() *graph.Node { return m.Embedder().Captions(g, m.CaptionNodes(g, n, key[1])) })
		if err != nil {
			return err
		}
		m.captions[key] = e
	}
	if err := m.FeedWords(words, lengths, n, l); err != nil {
		return err
	}
	return m.run(e, dst)
}

// Scores computes the scores of ni images and nc captions from their embeddings [ni, E], [nc, E] → dst [ni, nc].
func (m *Model) Scores(dst, images, captions []float32, ni, nc int) error {
	const inImages, inCaptions = "in.image_embeddings", "in.caption_embeddings"
	key := [2]int{ni, nc}
	e := m.scores[key]
	if e == nil {
		g := m.Session.Graph()
		var err error
		e, err = m.compile(g, func() *graph.Node {
			return m.Embedder().Scores(g, g.Input(inImages, ni, m.EmbedDim()), g.Input(inCaptions, nc, m.EmbedDim()))
		})
		if err != nil {
			return err
		}
		m.scores[key] = e
	}
	if err := m.Session.Feed(inImages, images); err != nil {
		return err
	}
	if err := m.Session.Feed(inCaptions, captions); err != nil {
		return err
	}
	return m.run(e, dst)
}

func (m *Model) compileImages(g *graph.Graph, n int) (*encoder, error) {
	return m.compile(g, func() *graph.Node { return m.Embedder().Images(g, m.RegionsNode(g, n)) })
}

func (m *Model) compile(g *graph.Graph, build func() *graph.Node) (*encoder, error) {
	e := &encoder{}
	err := graph.Build(func() error {
		e.out = build()
		var err error
		e.prog, err = graph.Compile(m.Session, g, []*graph.Node{e.out}, nil)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("network %s: %w", m.Options.Network, err)
	}
	return e, nil
}

func (m *Model) run(e *encoder, dst []float32) error {
	if err := e.prog.RunAll(); err != nil {
		return fmt.Errorf("network %s: %w", m.Options.Network, err)
	}
	v := e.prog.View(e.out)
	if len(dst) != v.N {
		return fmt.Errorf("network %s: embeddings have %d values, room for %d", m.Options.Network, v.N, len(dst))
	}
	m.Session.Dev.DownloadFloats(dst, v)
	return m.Session.Dev.Sync()
}
