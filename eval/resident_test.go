package eval

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"vsetrain/batch"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cpu"
	"vsetrain/internal/compute/device/cuda"
	"vsetrain/lab/emulator"
	"vsetrain/lab/try"
	"vsetrain/models"
)

// apart is the CPU as a device with its own memory, of a size in bytes, and with results that come later: it counts
// what is copied to it and holds what it copies from it until somebody asks.
type apart struct {
	device.Device
	size, used, uploaded int
	sizes                map[device.Buffer]int
	fetched              [device.FetchSlots][]float32
	most                 int // results on their way at a time
	waiting              int
}

func (a *apart) Alloc(t device.DType, n int) (device.Buffer, error) {
	if a.used+4*n > a.size {
		return nil, &device.OutOfMemoryError{Want: 4 * int64(n), Free: int64(a.size - a.used), Total: int64(a.size),
			Err: errors.New("full")}
	}
	b, err := a.Device.Alloc(t, n)
	if err == nil {
		a.used, a.sizes[b] = a.used+4*n, 4*n
	}
	return b, err
}

func (a *apart) Free(b device.Buffer) {
	a.used -= a.sizes[b]
	delete(a.sizes, b)
	a.Device.Free(b)
}

func (a *apart) UploadFloats(dst device.View, src []float32) {
	a.uploaded += 4 * len(src)
	a.Device.UploadFloats(dst, src)
}

func (a *apart) FreeMemory() (free, total int64, err error) {
	return int64(a.size - a.used), int64(a.size), nil
}

func (a *apart) Fetch(slot int, views ...device.View) {
	if a.fetched[slot] != nil {
		panic("a slot with results that nobody took")
	}
	a.waiting++
	a.most = max(a.most, a.waiting)
	a.fetched[slot] = make([]float32, views[0].N)
	a.DownloadFloats(a.fetched[slot], views[0])
}

func (a *apart) Fetched(slot int) ([]float32, error) {
	x := a.fetched[slot]
	a.fetched[slot] = nil
	a.waiting--
	return x, nil
}

// pairWorld is a tiny network with encoded images and captions on a device.
type pairWorld struct {
	r                *models.PairRunner
	images, captions *models.EncodedSet
	order            []int32
}

const worldImages, worldCaptions = 10, 26

func newPairWorld(t *testing.T, dev device.Device, network string) *pairWorld {
	return pairWorldOf(t, dev, network, worldImages, worldCaptions)
}

func pairWorldOf(t *testing.T, dev device.Device, network string, n, m int) *pairWorld {
	t.Helper()
	const regions, feature, words = 3, 4, 9
	o := models.DefaultOptions()
	o.Network, o.EmbedDim, o.WordDim, o.SGRAF.SimDim, o.SGRAF.Steps = network, 16, 8, 8, 2
	model := try.Get(models.NewModel(dev, o, models.Dims{Regions: regions, Feature: feature, Vocab: 20}))(t)
	model.Init(5, nil)
	r := rand.New(rand.NewPCG(1, 2))
	w := &pairWorld{r: models.NewRunner(model, nil).Pairs, images: &models.EncodedSet{}, captions: &models.EncodedSet{}}
	floats := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = r.Float32()
		}
		return x
	}
	var texts batch.Captions // longest first
	for c := range m {
		ids := make([]int32, words-c*words/(m+4))
		for j := range ids {
			ids[j] = int32(1 + r.IntN(19))
		}
		texts.Add(ids)
		w.order = append(w.order, int32((c*7)%m))
	}
	x, boxes := floats(n*regions*feature), floats(n*regions*4)
	try.Do(t, w.r.AppendImages(w.images, batch.Images{N: n, Features: x, Boxes: boxes}, n))
	try.Do(t, w.r.AppendCaptions(w.captions, texts, m))
	return w
}

// score scores all pairs in tiles of 2 x 3 pairs and their multiples.
func (w *pairWorld) score(t *testing.T, o EncodeOptions) ([]float32, error) {
	t.Helper()
	o.tile = tileSize{2, 3}
	s, err := ScorePairs(t.Context(), w.r, w.images, w.captions, w.order, o)
	if err != nil {
		return nil, err
	}
	return s.(*Dense[float32]).Data, nil
}

func onCPU(t *testing.T) device.Device {
	t.Helper()
	dev := try.Get(cpu.New(cpu.Options{Threads: 1}))(t)
	t.Cleanup(func() { dev.Close() })
	return dev
}

// Encoded values come to a device with its own memory once, as far as they fit; the scores are the same as from the
// device that computes in the host's memory, bit for bit, and two tiles are on their way at a time.
func TestEncodedValuesComeOnce(t *testing.T) {
	for _, network := range []string{models.SAF, models.GSMN} {
		want := try.Get(newPairWorld(t, onCPU(t), network).score(t, EncodeOptions{}))(t)
		plans := map[string]bool{}
		for size := 1 << 20; size > 1<<10; size -= size / 12 {
			dev := &apart{Device: onCPU(t), size: 1 << 30, sizes: map[device.Buffer]int{}}
			w := newPairWorld(t, dev, network)
			dev.size, dev.uploaded = dev.used+size, 0
			var plan PairPlan
			var warnings []error
			got, err := w.score(t, EncodeOptions{Plan: func(p PairPlan) { plan = p },
				Warn: func(err error) { warnings = append(warnings, err) }})
			if isFull(err) { // not even one pair
				break
			}
			try.Do(t, err)
			if !slices.Equal(got, want) {
				t.Fatalf("%s, %v: other scores", network, plan)
			}
			images, captions := int(w.images.Bytes()), int(w.captions.Bytes())
			what := fmt.Sprintf("tiles of %d, ", plan.TileImages/2)
			bound := 0
			switch {
			case len(warnings) > 0:
				what = "smaller than planned"
			case plan.BlockImages == 0:
				what += "nothing stays"
			case plan.CaptionsStay:
				what += "all stays"
				bound = images + captions
			default:
				what += "blocks"
				bound = images + captions*((worldImages+plan.BlockImages-1)/plan.BlockImages)
			}
			plans[what] = true
			if bound > 0 && dev.uploaded != bound {
				t.Errorf("%s, %v: %d bytes were sent, expected %d", network, plan, dev.uploaded, bound)
			}
			if dev.most != device.FetchSlots && len(got) > plan.TileImages*plan.TileCaptions {
				t.Errorf("%s, %v: %d results on their way, expected %d", network, plan, dev.most, device.FetchSlots)
			}
		}
		for _, what := range []string{"tiles of 4, all stays", "tiles of 1, all stays", "tiles of 1, blocks",
			"smaller than planned"} {
			if !plans[what] {
				t.Errorf("%s: no size of memory gave %s: %v", network, what, plans)
			}
		}
	}
}

// A work file serves tiles of any size: what one left another takes over, and writes the same records.
func TestWorkFileOfOtherTiles(t *testing.T) {
	host := newPairWorld(t, onCPU(t), models.SAF)
	o := EncodeOptions{Work: t.TempDir()}
	want := try.Get(host.score(t, o))(t)
	names, _ := filepath.Glob(filepath.Join(o.Work, "saf-*.tiles"))
	if len(names) != 1 {
		t.Fatalf("files %v", names)
	}
	whole := try.Get(os.ReadFile(names[0]))(t)
	for _, cut := range []int{len(whole), len(whole) / 2, 70, 0} {
		try.Do(t, os.WriteFile(names[0], whole[:cut], 0o666))
		w := newPairWorld(t, &apart{Device: onCPU(t), size: 1 << 30, sizes: map[device.Buffer]int{}}, models.SAF)
		first := -1
		o.Plan = func(p PairPlan) {
			if p.TileImages != 8 {
				t.Errorf("plan %v", p)
			}
		}
		o.Pairs = func(done, total int) {
			if first < 0 {
				first = done
			}
			if total != worldImages*worldCaptions || done > total {
				t.Errorf("%d of %d pairs", done, total)
			}
		}
		got := try.Get(w.score(t, o))(t)
		if !slices.Equal(got, want) {
			t.Errorf("cut at %d: other scores", cut)
		}
		if (first > 0) != (cut > 70) {
			t.Errorf("cut at %d: %d pairs were taken over", cut, first)
		}
		again, err := os.ReadFile(names[0])
		if err != nil || len(again) != len(whole) {
			t.Errorf("cut at %d: the file has %d bytes, %v; it had %d", cut, len(again), err, len(whole))
		}
	}
}

// A scoring that is stopped keeps what was on its way.
func TestStoppedScoringKeepsWhatWasStarted(t *testing.T) {
	w := newPairWorld(t, &apart{Device: onCPU(t), size: 1 << 30, sizes: map[device.Buffer]int{}}, models.SAF)
	ctx, stop := context.WithCancel(t.Context())
	last := 0
	_, err := ScorePairs(ctx, w.r, w.images, w.captions, w.order,
		EncodeOptions{tile: tileSize{1, 1}, Pairs: func(done, _ int) {
			if last = done; done > 0 {
				stop()
			}
		}})
	if !errors.Is(err, context.Canceled) || last != 4*4+4*4+2*4 {
		t.Errorf("%v, %d pairs, expected the tile that was done and two on their way", err, last)
	}
}

// On the emulated GPU the driver is sent the encoded values once, and with every tile no more than the lengths and
// dependencies of its captions; its scores are the same as on the CPU, whatever the memory.
func TestPairsOnEmulatedGPUSendLittle(t *testing.T) {
	path := emulator.Library(t)
	for _, network := range []string{models.SAF, models.GSMN} {
		want := try.Get(newPairWorld(t, onCPU(t), network).score(t, EncodeOptions{}))(t)
		dev := try.Get(cuda.Open(cuda.Options{Driver: path, BLAS: []string{path}}))(t)
		w := newPairWorld(t, dev, network)
		var seen []string
		for _, spare := range []int{64 << 20, 30_000, 12_000} {
			free, total, err := dev.(device.Resident).FreeMemory()
			try.Do(t, err)
			emulator.Set(t, "memory", int(total-free)+spare, 4<<30)
			tiles := 0
			var plan PairPlan
			warned := false
			before := emulator.Uploaded(t)
			got, err := w.score(t, EncodeOptions{Plan: func(p PairPlan) { plan = p }, Pairs: func(int, int) { tiles++ },
				Warn: func(error) { warned = true }})
			sent := emulator.Uploaded(t) - before
			emulator.Set(t, "memory", 4<<30, 4<<30)
			if isFull(err) {
				break
			}
			try.Do(t, err)
			seen = append(seen, plan.String())
			for i := range got {
				if d := math.Abs(float64(got[i] - want[i])); !(d <= 1e-5) {
					t.Fatalf("%s, %v: score %d is %v, %v on the CPU", network, plan, i, got[i], want[i])
				}
			}
			if plan.BlockImages == 0 || warned {
				continue
			}
			blocks := (worldImages + plan.BlockImages - 1) / plan.BlockImages
			bound := int(plan.Images) + blocks*int(plan.Captions) + tiles*200 + 4096 // 4096: constants of new graphs
			if sent > bound {
				t.Errorf("%s, %v: %d bytes were sent in %d tiles, expected at most %d", network, plan, sent, tiles,
					bound)
			}
		}
		try.Do(t, dev.Close())
		if !strings.Contains(strings.Join(seen, "\n"), " stay;") || !strings.Contains(strings.Join(seen, "\n"),
			"pass by blocks") {
			t.Errorf("%s: plans\n%s", network, strings.Join(seen, "\n"))
		}
	}
}
