package cuda_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"vsetrain/internal/device"
	"vsetrain/internal/device/cpu"
	"vsetrain/internal/device/cuda"
	"vsetrain/internal/philox"
)

// pairs computes similarities and graph reasoning of 5 images of 3 regions and 4 captions with their gradients, and returns all results.
func pairs(t *testing.T, d device.Device, first bool) (results [][]float64) {
	t.Helper()
	defer d.Close()
	lengths := []int32{5, 3, 2, 1}
	const b, r, e, s, words, captions = 5, 3, 7, 4, 11, 4
	const nodes = words + captions
	rng := philox.NewKey(3, "pairs").Stream(0)
	place := func(n int, random bool) device.View {
		buf, err := d.Alloc(device.Float, n)
		if err != nil {
			t.Fatal(err)
		}
		x := make([]float64, n)
		for i := range x {
			if x[i] = math.NaN(); random {
				x[i] = 0.5 + 0.3*rng.Norm()
			}
		}
		d.UploadDoubles(device.Of(buf), x)
		return device.Of(buf)
	}
	in, out := func(n int) device.View { return place(n, true) }, func(n int) device.View { return place(n, false) }
	read := func(views ...device.View) {
		for _, v := range views {
			x := make([]float64, v.N)
			d.DownloadDoubles(x, v)
			results = append(results, x)
		}
	}
	buf, err := d.Alloc(device.Int32, captions)
	if err != nil {
		t.Fatal(err)
	}
	on := device.Ints{View: device.Of(buf), Host: lengths}
	d.UploadInts(on.View, lengths)
	x := out(b * nodes * s)
	local := device.SimilarityArgs{B: b, R: r, E: e, S: s, Lengths: on, Images: in(b * r * e), Weights: in(words * b * r), Rows: in(words * e), W: in(s * e), Bias: in(s), Nodes: x,
		Norms: out(b * words), DNodes: in(b * nodes * s), DImages: out(b * r * e), DRows: out(words * e), DWeights: out(words * b * r), DW: out(s * e), DBias: out(s)}
	global := local
	global.Global, global.Images, global.Rows, global.Norms, global.DImages, global.DRows = true, in(b*e), in(captions*e), out(b*captions), out(b*e), out(captions*e)
	global.DW, global.DBias = out(s*e), out(s)
	for _, a := range []device.SimilarityArgs{local, global} {
		d.Similarities(a)
	}
	for _, a := range []device.SimilarityArgs{local, global} {
		d.SimilaritiesGrad(a)
		read(a.Norms, a.DImages, a.DRows, a.DW, a.DBias)
	}
	read(x, local.DWeights)
	queries := b * nodes
	if first {
		queries = b * captions
	}
	a := device.ReasonArgs{B: b, S: s, First: first, Lengths: on, X: x, M: in(s * s), V: in(s), W: in(s * s), Bias: in(s), Out: out(queries * s), DOut: in(queries * s),
		DX: out(b * nodes * s), DM: out(s * s), DV: out(s), DW: out(s * s), DBias: out(s)}
	d.GraphReason(a)
	d.GraphReasonGrad(a)
	read(a.Out, a.DX, a.DM, a.DV, a.DW, a.DBias)
	if err := d.Sync(); err != nil {
		t.Fatal(err)
	}
	return results
}

// Tiles of pairs, down to one row of one image, give what the CPU gives, and the same bits in every run.
func TestTilesOfPairs(t *testing.T) {
	for _, first := range []bool{false, true} {
		host, err := cpu.New(cpu.Options{Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		want := pairs(t, host, first)
		for _, bytes := range []int{1, 700, 4000, 1 << 20} {
			what := fmt.Sprintf("first %v, tiles of %d bytes", first, bytes)
			cuda.SetTile(t, bytes)
			got := pairs(t, open(t, cuda.Options{}), first)
			for n, w := range want {
				for i, v := range w {
					if !(math.Abs(got[n][i]-v) <= 1e-5*(1+math.Abs(v))) {
						t.Fatalf("%s: element %d of result %d is %v, %v on the CPU", what, i, n, got[n][i], v)
					}
				}
			}
			for n, again := range pairs(t, open(t, cuda.Options{}), first) {
				if !slices.Equal(again, got[n]) {
					t.Fatalf("%s: result %d has other bits in a second run", what, n)
				}
			}
		}
	}
}
