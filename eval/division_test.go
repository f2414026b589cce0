package eval

import (
	"context"
	"errors"
	"slices"
	"testing"

	"vsetrain/data"
	"vsetrain/data/text"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/ranks"
	"vsetrain/lab/devicetest"
	"vsetrain/lab/try"
	"vsetrain/models"
)

// counted counts the kernels that a device computes.
type counted struct {
	device.Device
	kernels int
}

func (c *counted) Unwrap() device.Device { return c.Device }

func (c *counted) Do(k device.Kernel) bool {
	c.kernels++
	return c.Device.Do(k)
}

// Ranks divide the tiles of pairs: rank 0 has the scores of one process, bit for bit, each rank computes its part
// alone, and all stop where the context of one has ended.
func TestRanksDivideTiles(t *testing.T) {
	for _, network := range []string{models.SAF, models.GSMN} {
		one := &counted{Device: onCPU(t)}
		w := newPairWorld(t, one, network)
		before := one.kernels
		want := try.Get(w.score(t, EncodeOptions{}))(t)
		whole := one.kernels - before
		for n := 2; n <= 3; n++ {
			devicetest.Ranks(n, func(world *devicetest.World) {
				rank, _ := world.Rank()
				own := &counted{Device: onCPU(t)}
				d, err := ranks.New(own, world)
				if err != nil {
					t.Error(err)
					return
				}
				w := newPairWorld(t, d, network)
				before := own.kernels
				o := EncodeOptions{tile: tileSize{2, 3}}
				s, err := ScorePairs(t.Context(), w.r, w.images, w.captions, w.order, o)
				if err != nil {
					t.Error(err)
					return
				}
				if rank > 0 && s != nil || rank == 0 && !slices.Equal(s.(*Dense[float32]).Data, want) {
					t.Errorf("%s, rank %d of %d has other scores than one process", network, rank, n)
				}
				if part := own.kernels - before; n*part > whole*11/10 || n*part < whole*9/10 {
					t.Errorf("%s, rank %d of %d computes %d kernels of %d", network, rank, n, part, whole)
				}
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				if rank == 1 {
					stop()
				}
				if _, err := ScorePairs(ctx, w.r, w.images, w.captions, w.order, o); !errors.Is(err,
					context.Canceled) {
					t.Errorf("rank %d, where rank 1 was told to stop: %v", rank, err)
				}
			})
		}
	}
}

// Batch k is computed by rank k mod ranks alone, and shared after as many as there are ranks.
func TestRanksDivideBatches(t *testing.T) {
	s := openSplit(t, "")
	v := try.Get(text.BuildVocabulary(slices.Values([]string{"one two three four five six"}), 1))(t)
	devicetest.Ranks(2, func(world *devicetest.World) {
		rank, _ := world.Rank()
		d, err := ranks.New(onCPU(t), world)
		if err != nil {
			t.Error(err)
			return
		}
		l, err := data.NewCaptionLoader(s, v, nil, data.LoaderOptions{Batch: 2})
		if err != nil {
			t.Error(err)
			return
		}
		var own []bool
		var shared []int32
		err = divisionOf(d).batches(t.Context(), l, func(_ *data.Batch, is bool) error {
			own = append(own, is)
			return nil
		}, func(items, words []int32) error {
			shared = append(append(append(shared, items...), -1), words...)
			return nil
		})
		// three batches of two captions of three words, <start> and <end> included
		if err != nil || !slices.Equal(own, []bool{rank == 0, rank == 1, rank == 0}) || !slices.Equal(shared,
			[]int32{2, 2, -1, 6, 6, 2, -1, 6}) {
			t.Errorf("rank %d computes %v and shares %v: %v", rank, own, shared, err)
		}
	})
}
