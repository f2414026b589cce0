package models

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cpu"
	"vsetrain/internal/compute/device/cuda"
	"vsetrain/internal/compute/graph"
	"vsetrain/lab/emulator"
	"vsetrain/lab/try"
)

// pairBatch is a drawn batch of a network that scores pairs.
type pairBatch struct {
	o                Options
	d                Dims
	counts, lengths  []int32
	words            []int32 // [len(lengths), longest]
	features, weight []float64
	params           []float64
}

const pairFeature, pairVocab = 5, 7

// drawPairs draws options, numbers of images, captions, words and regions, and values.
func drawPairs(t *testing.T, rng *rand.Rand, name string) *pairBatch {
	p := &pairBatch{o: countedOptions(rng, name)}
	p.d = Dims{Regions: 1 + rng.IntN(9), Feature: pairFeature, Vocab: pairVocab, Counted: rng.IntN(2) == 0}
	p.o.CHAN.MaskPadding = rng.IntN(2) == 0
	p.counts, p.lengths = make([]int32, 1+rng.IntN(7)), make([]int32, 1+rng.IntN(7))
	rows := 0
	for i := range p.counts {
		p.counts[i] = int32(p.d.Regions)
		if p.d.Counted || p.o.CHAN.SizeAugment && name == CHAN {
			p.counts[i] = 1 + rng.Int32N(int32(p.d.Regions))
		}
		rows += int(p.counts[i])
	}
	for range rows * pairFeature {
		p.features = append(p.features, rng.NormFloat64())
	}
	for i := range p.lengths {
		p.lengths[i] = 1 + rng.Int32N(9)
	}
	slices.SortFunc(p.lengths, func(a, b int32) int { return int(b - a) })
	for range len(p.lengths) * int(p.lengths[0]) {
		p.words = append(p.words, rng.Int32N(pairVocab))
	}
	for range len(p.counts) * len(p.lengths) {
		p.weight = append(p.weight, rng.NormFloat64())
	}
	m := try.Get(NewModel(newDevice(t, cpu.FP64), p.o, p.d))(t)
	m.Init(rng.Uint64(), nil)
	p.params = values(m)
	return p
}

// gradients are the scores of all pairs, and the gradients of their weighted sum, by name.
func (p *pairBatch) gradients(t *testing.T, dev device.Device, bounds bool) map[string][]float64 {
	m := try.Get(NewModel(dev, p.o, p.d))(t)
	m.Instance.Dev.UploadDoubles(m.Instance.Params.Values(), p.params)
	net, _ := m.PairScorer()
	g, feeder := m.Instance.Graph(), NewFeeder(m, nil, bounds)
	g.Training = true
	b, c, longest := len(p.counts), len(p.lengths), int(p.lengths[0])
	captions := m.CaptionInputs(g, c, Bucket(longest), feeder.PairCapacity(p.lengths, Bucket(longest)))
	inputs := m.ImageInputs(g, b)
	scores := net.Pairs(g, net.Images(g, inputs), net.Words(g, captions))
	loss := g.WeightedSum(scores, g.Input("weights", b, c))
	wrt, names := []*graph.Node{inputs.Regions}, []string{"features"}
	for _, q := range m.Network.Params() {
		if g.Lookup(q.Name) != nil {
			wrt, names = append(wrt, q.Node(g)), append(names, q.Name)
		}
	}
	grads := try.Get(g.Gradients(loss, wrt...))(t)
	prog := try.Get(graph.Compile(m.Instance, g, append([]*graph.Node{scores}, grads...), nil))(t)
	rows := append(slices.Clone(p.features), make([]float64, b*p.d.Regions*pairFeature-len(p.features))...)
	try.Do(t, m.Instance.FeedDoubles(InputRegions, rows))
	try.Do(t, feeder.regionCounts(p.counts, 0))
	try.Do(t, m.Instance.FeedDoubles("weights", p.weight))
	try.Do(t, feeder.Captions(captionBatch(p.words, p.lengths, longest)))
	for range 2 { // a second run must see nothing of the first
		try.Do(t, prog.RunAll())
	}
	got := map[string][]float64{"scores": prog.Doubles(scores)}
	for i, name := range names {
		got[name] = prog.Doubles(grads[i])
	}
	got["features"] = got["features"][:len(p.features)]
	return got
}

// Scores and gradients of SCAN and CHAN on a GPU are the same as in float64 on the processor, whatever is drawn:
// captions and their lengths, images with padded regions, options of the network, and how many images a tile has there.
func TestPairGradientsOnEmulatedGPU(t *testing.T) {
	path := emulator.Library(t)
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 51))
		p := drawPairs(t, rng, []string{SCAN, CHAN}[seed%2])
		bounds := rng.IntN(2) == 0
		tile := 1 + rng.IntN(len(p.counts)+1)
		words := device.Total(p.lengths) // about; a tile holds perhaps fewer images
		limits := cuda.Limits{TileBytes: 32 * tile * words * p.d.Regions}
		gpu := try.Get(cuda.Open(cuda.Options{Driver: path, BLAS: []string{path}, Limits: limits}))(t)
		want, got := p.gradients(t, newDevice(t, cpu.FP64), false), p.gradients(t, gpu, bounds)
		what := fmt.Sprintf("seed %d, %s, captions of %v words, images of %v of %d regions, tiles of %d, bounds %v, "+
			"%+v %+v", seed, p.o.Network, p.lengths, p.counts, p.d.Regions, tile, bounds, p.o.SCAN, p.o.CHAN)
		for name, w := range want {
			most := 1e-3
			for _, v := range w {
				most = max(most, math.Abs(v))
			}
			for i, v := range w {
				if d := math.Abs(got[name][i] - v); !(d <= 2e-3*most) {
					t.Fatalf("%s: value %d of %s is %v, expected %v", what, i, name, got[name][i], v)
				}
			}
		}
		try.Do(t, gpu.Close())
	}
}

// kernelless is a device that has no kernel for the scores of pairs.
type kernelless struct{ device.Device }

// The kernel of the processor and the tiles of composed operations compute the same.
func TestPairKernelIsThatOfTiles(t *testing.T) {
	for seed := range uint64(60) {
		p := drawPairs(t, rand.New(rand.NewPCG(seed, 54)), []string{SCAN, CHAN}[seed%2])
		if seed%3 == 0 { // few pairs have a gradient
			for i := range p.weight {
				if i%5 != 0 {
					p.weight[i] = 0
				}
			}
		}
		want := p.gradients(t, kernelless{newDevice(t, cpu.FP64)}, false)
		got := p.gradients(t, newDevice(t, cpu.FP64), false)
		for name, w := range want {
			for i, v := range w {
				if math.Abs(got[name][i]-v) > 1e-9*(1+math.Abs(v)) {
					t.Fatalf("seed %d: value %d of %s is %v, expected %v; %+v %+v", seed, i, name, got[name][i], v,
						p.o.SCAN, p.o.CHAN)
				}
			}
		}
	}
}
