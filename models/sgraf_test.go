package models

import (
	"slices"
	"testing"

	"vsetrain/batch"
	"vsetrain/internal/compute/device/cpu"
	"vsetrain/lab/try"
)

// The score of a pair is a function of its image and its caption alone: tiles of any size, capacity for more words, and
// captions with longer neighbours give the same bits.
func TestPairScoresDoNotDependOnTiles(t *testing.T) {
	for _, network := range []string{SAF, SGR, GSMN, SCAN, CHAN} {
		precisions := []string{cpu.FP32, cpu.BF16}
		if network == SCAN || network == CHAN { // composed of kernels whose grids depend on the tile
			precisions = append(precisions, emulatedGPU)
		}
		for _, precision := range precisions {
			t.Run(network+"/"+precision, func(t *testing.T) {
				o := DefaultOptions()
				o.Network, o.TextEncoder, o.EmbedDim, o.WordDim, o.SGRAF.SimDim = network, "bigru", 48, 8, 24
				d := Dims{Regions: 5, Feature: 7, Vocab: 30}
				m := try.Get(NewModel(newDevice(t, precision), o, d))(t)
				m.Init(4, nil)
				const n, c = 37, 23
				lengths := make([]int, c)
				for i := range lengths {
					lengths[i] = max(1, 19-i)
				}
				im, text := drawn("tiles", d, n, lengths...)
				var images, captions EncodedSet
				run := NewRunner(m, nil).Pairs
				try.Do(t, run.AppendImages(&images, im, n))
				try.Do(t, run.AppendCaptions(&captions, text, c))
				total := captions.First[c]
				want := make([]float32, n*c)
				try.Do(t, run.Score(want, &images, 0, n, &captions, 0, c, total))
				if slices.Max(want) == slices.Min(want) {
					t.Fatal("all scores are equal")
				}
				for _, size := range [][2]int{{1, 1}, {7, 5}, {20, 23}} {
					for i := 0; i < n; i += size[0] {
						for j := 0; j < c; j += size[1] {
							i1, j1 := min(n, i+size[0]), min(c, j+size[1])
							got := make([]float32, (i1-i)*(j1-j))
							try.Do(t, run.Score(got, &images, i, i1, &captions, j, j1, total+3))
							for k, v := range got {
								if w := want[(i+k/(j1-j))*c+j+k%(j1-j)]; v != w {
									t.Fatalf("tiles of %v: the score of image %d and caption %d is %v, want %v", size,
										i+k/(j1-j), j+k%(j1-j), v, w)
								}
							}
						}
					}
				}
				// Images encoded one by one, too.
				var single EncodedSet
				for i := range n {
					size := d.Regions * d.Feature
					try.Do(t, run.AppendImages(&single, batch.Images{N: 1, Features: im.Features[i*size : (i+1)*size],
						Boxes: im.Boxes[i*d.Regions*4 : (i+1)*d.Regions*4]}, n))
				}
				for k := range images.Values {
					if !slices.Equal(single.Values[k].Data, images.Values[k].Data) {
						t.Errorf("value %d of images depends on the batch", k)
					}
				}
			})
		}
	}
}
