package eval

import (
	"context"
	"errors"
	"fmt"
	"io"

	"vsetrain/data"
	"vsetrain/internal/compute/device"
	"vsetrain/models"
)

// division divides the work on a split over the ranks of a job (device.Ranked): rank k mod ranks computes piece k. A
// round has one piece for each rank, and after it every rank has all pieces. Each piece is computed as a single rank
// would compute it, so the results are the same bits. A rank that waits for others yields the processor, and waits as
// long as they live.
type division struct {
	dev         device.Device
	job         device.Ranked // nil for a single rank
	rank, ranks int
}

func divisionOf(d device.Device) *division {
	v := &division{dev: d}
	v.job, _ = device.As[device.Ranked](d)
	v.rank, v.ranks = device.RankOf(d)
	return v
}

// shardedRows are rows that the ranks of a job compute piece by piece; every rank has all of them after finish.
type shardedRows struct {
	v            *division
	rows         []float32
	width        int
	done, shared int
	last         []int32 // rows of the pieces that are not shared yet
}

// next adds the next n rows, which compute sets on the rank that computes them. It returns context.Canceled on all
// ranks if the context of one has ended.
func (p *shardedRows) next(ctx context.Context, n int, compute func(to []float32) error) error {
	if p.v.ranks == 1 && ctx.Err() != nil {
		return ctx.Err()
	}
	if len(p.last) == p.v.rank {
		if err := compute(p.rows[p.done*p.width : (p.done+n)*p.width]); err != nil {
			return err
		}
	}
	p.done += n
	if p.last = append(p.last, int32(n)); len(p.last) < p.v.ranks {
		return nil
	}
	return p.finish(ctx)
}

// finish shares the rows of the last pieces.
func (p *shardedRows) finish(ctx context.Context) error {
	items := p.last
	p.last = p.last[:0]
	if p.v.ranks == 1 || len(items) == 0 {
		return nil
	}
	if err := p.v.meet(ctx); err != nil {
		return err
	}
	from := p.shared
	p.shared = p.done
	return p.v.share(p.rows[from*p.width:p.done*p.width], p.width, items)
}

// batches passes every batch of a loader to f, with whether this rank computes it. After each round it passes the
// numbers of items and of caption words of the batches of the round to share.
func (v *division) batches(ctx context.Context, l *data.Loader, f func(b *data.Batch, own bool) error,
	share func(items, words []int32) error) error {
	if v.ranks == 1 {
		return drain(ctx, l, func(b *data.Batch) error { return f(b, true) })
	}
	var items, words []int32
	round := func() error {
		if len(items) == 0 {
			return nil
		}
		if err := v.meet(ctx); err != nil {
			return err
		}
		err := share(items, words)
		items, words = items[:0], words[:0]
		return err
	}
	err := drain(context.WithoutCancel(ctx), l, func(b *data.Batch) error {
		if err := f(b, len(items) == v.rank); err != nil {
			return err
		}
		n := int32(0)
		for _, length := range b.Lengths {
			n += length
		}
		if items, words = append(items, int32(b.N)), append(words, n); len(items) < v.ranks {
			return nil
		}
		return round()
	})
	if err != nil {
		return err
	}
	return round()
}

// meet waits for all ranks. It returns context.Canceled on all of them if the context of one has ended.
func (v *division) meet(ctx context.Context) error {
	ended := []float32{0}
	if ctx.Err() != nil {
		ended[0] = 1
	}
	v.job.Wait()
	err := v.on(len(ended), func(x device.View) {
		v.dev.UploadFloats(x, ended)
		device.Do(v.dev, device.AllReduce{X: x})
	}, ended)
	if err == nil && ended[0] > 0 {
		return context.Canceled
	}
	return err
}

// share copies rows between the ranks: rows are cut into pieces of the given numbers of rows, and each piece is set to
// the values on the rank that computed it.
func (v *division) share(rows []float32, width int, pieces []int32) error {
	deal := device.Shard{Rank: v.rank, Ranks: v.ranks, Width: width, Lengths: device.Ints{Host: pieces}}
	all, n := deal.Values()
	if all != len(rows) {
		return fmt.Errorf("ranks share %d values, expected %d", len(rows), all)
	}
	own, at := make([]float32, 0, n), 0
	deal.Each(func(rank, n int) {
		if rank == v.rank {
			own = append(own, rows[at:at+n]...)
		}
		at += n
	})
	return v.on(all+n, func(x device.View) {
		mine := x.Slice(all, all+n)
		v.dev.UploadFloats(mine, own)
		device.Do(v.dev, device.AllGather{Shard: deal, X: mine, Y: x.Slice(0, all)})
	}, rows)
}

// shareLast shares the last rows of several values.
func (v *division) shareLast(values []models.Rows, pieces []int32) error {
	n := 0
	for _, rows := range pieces {
		n += int(rows)
	}
	for _, x := range values {
		if err := v.share(x.Data[len(x.Data)-n*x.Width:], x.Width, pieces); err != nil {
			return err
		}
	}
	return nil
}

// same sets x to the value of rank 0.
func (v *division) same(x []float32) error {
	return v.on(len(x), func(on device.View) {
		v.dev.UploadFloats(on, x)
		device.Do(v.dev, device.Broadcast{X: on})
	}, x)
}

// on calls do with n values on the device, and downloads the first of them into to.
func (v *division) on(n int, do func(x device.View), to []float32) error {
	b, err := v.dev.Alloc(device.Float, n)
	if err != nil {
		return fmt.Errorf("memory for what ranks exchange: %w", err)
	}
	defer v.dev.Free(b)
	x := device.ViewOf(b)
	do(x)
	if err := v.dev.Sync(); err != nil {
		return err
	}
	v.dev.DownloadFloats(to, x.Slice(0, len(to)))
	return nil
}

// drain passes every batch of a loader to f.
func drain(ctx context.Context, l *data.Loader, f func(*data.Batch) error) error {
	defer l.Close()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		b, err := l.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := f(b); err != nil {
			return err
		}
		l.Release(b)
	}
}
