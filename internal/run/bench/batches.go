package bench

import (
	"slices"

	"vsetrain/data"
	"vsetrain/data/text"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/philox"
	"vsetrain/internal/run/placement"
	"vsetrain/models"
)

// syntheticBatches is the number of synthetic batches, which are used in turn.
const syntheticBatches = 4

// Sizes of synthetic batches.
const (
	flickrWords, bertPieces      = 8481, 30522
	flickrRegions, flickrFeature = 36, 2048
)

// residentBatches are the parts of the synthetic batches that stay on a GPU, as the parts of a training split do.
type residentBatches struct {
	models.Resident
	words, starts []int32 // like Words and Starts; nil if captions are augmented
}

// newResident allocates memory for synthetic batches on a GPU; it returns nil if features are streamed.
func newResident(b *placement.Setup, memory *placement.MemoryPlan, semantic int, stream bool) (*residentBatches,
	error) {
	r, ok := device.As[device.Resident](b.Device)
	if !ok {
		return nil, nil
	}
	n, d := syntheticBatches*b.Cfg.Train.Batch, b.Model.Dims
	memory.Features = 4 * int64(n) * int64(d.Regions) * int64(d.Feature)
	if stream {
		return nil, nil
	}
	k := &residentBatches{Resident: models.Resident{Device: r}}
	memory.Resident = true
	var err error
	table := func(to *device.Table, width int) {
		if width > 0 && err == nil {
			*to, err = r.NewTable(n*width, false)
		}
	}
	table(&k.Features, d.Regions*d.Feature)
	table(&k.Semantics, semantic)
	if b.Cfg.Model.Traits().Boxes {
		table(&k.Boxes, 4*d.Regions)
	}
	if !b.Cfg.Model.Traits().SizeAugment {
		k.starts = []int32{0}
	}
	return k, err
}

// store copies batch i to the GPU.
func (k *residentBatches) store(x *data.Batch, i int) {
	for _, p := range []struct {
		table  device.Table
		values []float32
	}{{k.Features, x.Features}, {k.Boxes, x.Boxes}, {k.Semantics, x.Semantics}} {
		if p.table != nil {
			k.Device.Store(p.table, i*len(p.values), p.values)
		}
	}
	for c := 0; c < x.N && k.starts != nil; c++ {
		k.words = append(k.words, x.Words[c]...)
		k.starts = append(k.starts, int32(len(k.words)))
	}
}

// number gives batch i the numbers of its rows on the GPU.
func (k *residentBatches) number(x *data.Batch, i int) {
	for _, rows := range []struct {
		of   []int32
		each int
	}{{x.FeatureRows, x.N}, {x.Indices, x.N}, {x.RegionRows, x.N * x.Regions}} {
		for j := range rows.of {
			rows.of[j] += int32(i * rows.each)
		}
	}
	x.Features, x.Boxes, x.Semantics = nil, nil, nil
}

// augment treats a synthetic batch as the loader treats a batch with size augmentation. For BERT the first and the last
// word stay, as [CLS] and [SEP] do; each word is one piece.
func augment(b *data.Batch, seed uint64, vocab int, bert bool) {
	s := philox.NewKey(seed, "bench/augment").Stream(0)
	captions := make([][]int32, b.N)
	for i, words := range b.Words {
		if bert {
			last := len(words) - 1
			captions[i] = text.AugmentIDs(words[:1:1], words[1:last], int32(vocab-1), vocab, s)
			captions[i] = append(captions[i], words[last])
			continue
		}
		captions[i] = text.AugmentIDs(nil, words, int32(vocab), vocab, s)
	}
	slices.SortStableFunc(captions, func(x, y []int32) int { return len(y) - len(x) })
	b.L, b.Words = len(captions[0]), captions
	for i, c := range captions {
		b.Lengths[i] = int32(len(c))
	}
	rows := 0
	for i := range b.N {
		kept := text.KeepRegions(nil, b.Regions, s)
		for _, r := range kept {
			row := i*b.Regions + int(r)
			copy(b.Features[rows*b.Dim:], b.Features[row*b.Dim:(row+1)*b.Dim])
			b.RegionRows = append(b.RegionRows, int32(row))
			rows++
		}
		b.Counts = append(b.Counts, int32(len(kept)))
	}
	b.Features = b.Features[:rows*b.Dim]
}
