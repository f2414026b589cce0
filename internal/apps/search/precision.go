package search

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"vsetrain/data"
	"vsetrain/eval"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cpu"
	"vsetrain/internal/compute/par"
	"vsetrain/internal/files/safetensors"
	"vsetrain/internal/run/pretrained"
)

// QueryPrecision is the precision in which typed queries are embedded.
type QueryPrecision struct {
	Name   string   // fp32, bf16, ...
	Change *float64 // of M-Recall on the dev split in bf16, in points; nil if it was not measured
	Why    string   // for people
}

// maxChange bounds the change of M-Recall, in points.
const maxChange = 0.1

// bf16Queries embeds typed queries in bf16. Renewed indexes share it.
type bf16Queries struct {
	mu      sync.Mutex                     // held while the network runs
	network *pretrained.Network            // nil if queries are embedded in fp32
	chosen  atomic.Pointer[QueryPrecision] // nil before the choice
	stop    context.CancelFunc
	done    chan struct{} // nil before the choice begins
}

// choosePrecision chooses the precision of queries. If this takes longer than Options.wait, it returns, and the choice
// continues in the background and calls Options.Chosen.
func choosePrecision(x *Index) {
	m, why := ofBF16Queries(x)
	if why != "" || m.bf16.done != nil {
		return
	}
	q, start := m.bf16, time.Now()
	ctx, stop := context.WithCancel(context.Background())
	q.stop, q.done = stop, make(chan struct{})
	go func() {
		defer close(q.done)
		p := &QueryPrecision{Name: cpu.FP32}
		if err := q.choose(ctx, m, p); err != nil {
			p.Why = err.Error()
		}
		if q.chosen.Store(p); time.Since(start) > x.opt.wait && ctx.Err() == nil && x.opt.Chosen != nil {
			x.opt.Chosen(*p)
		}
	}()
	select {
	case <-q.done:
	case <-time.After(x.opt.wait):
	}
}

// ofBF16Queries returns the embedder whose queries may be embedded in bf16, or the reason why there is none.
func ofBF16Queries(x *Index) (m *embedder, why string) {
	m, err := x.single()
	switch {
	case !x.opt.choose:
		return nil, "chosen by the user"
	case err != nil || x.shortlist != nil || !m.Runner.Embeds.DotProduct():
		return nil, "auto takes bf16 only where a score is the inner product of two embeddings of one network"
	}
	return m, ""
}

func queryPrecision(x *Index) QueryPrecision {
	m, why := ofBF16Queries(x)
	if why == "" {
		if chosen := m.bf16.chosen.Load(); chosen != nil {
			return *chosen
		}
		why = "until recalls in bf16 are known" // see choosePrecision
	}
	return QueryPrecision{Name: x.opt.Device.Precision, Why: why}
}

// choose opens the network in bf16 and uses it if the recalls of the dev split, measured or cached, hardly change.
func (q *bf16Queries) choose(ctx context.Context, m *embedder, p *QueryPrecision) (err error) {
	o := m.opt.Device
	if _, gpu := device.As[device.Precise](m.Model.Instance.Dev); gpu {
		o.Precision = device.PrecisionAuto
	} else {
		o.Kind, o.Precision = "cpu", cpu.BF16
	}
	m.mu.Lock()
	fast, err := m.Copy(o, m.opt.BLAS)
	m.mu.Unlock()
	if err != nil {
		return err
	}
	defer func() {
		if e := recover(); e != nil {
			err = fmt.Errorf("panic: %v", e)
		}
		if p.Name != cpu.BF16 {
			err = errors.Join(err, fast.Close())
		}
	}()
	if fast.Choice.Precision != cpu.BF16 || fast.Choice.Emulated {
		return errors.New("this device multiplies bf16 no faster than float32")
	}
	change, err := m.recallChange(ctx, fast)
	if err != nil {
		return err
	}
	p.Change, p.Why = &change, fmt.Sprintf("bf16 changes M-Recall of dev by %+.2f", change)
	if math.Abs(change) >= maxChange {
		p.Why += fmt.Sprintf(", not by less than %g", maxChange)
		return nil
	}
	err = compileBatches(func(ids [][]int32) ([]float32, error) {
		return encodeWords(ctx, fast.Runner.Embeds, ids, MaxBatch, nil)
	})
	if err == nil {
		q.network, p.Name = fast, cpu.BF16
	}
	return err
}

// recallChange returns the change of M-Recall of the dev split, in points, if fast embeds the captions. A copy of the
// network embeds the rest: the network itself answers queries meanwhile.
func (m *embedder) recallChange(ctx context.Context, fast *pretrained.Network) (change float64, err error) {
	if all, err := data.Splits(m.Data.Dir); err != nil || !slices.Contains(all, "dev") {
		return 0, cmp.Or(err, fmt.Errorf("%s has no split dev, whose recalls would tell", m.Data.Dir))
	}
	r := m.opt.trained("")
	r.Split, r.Partial, r.Warn = "dev", false, nil
	dev, err := r.Again(m.Network)
	if err != nil {
		return 0, fmt.Errorf("recalls of split dev cannot be measured: %w", err)
	}
	t, err := fast.Copy(m.opt.Device, m.opt.BLAS) // fast has weights in float32 too
	if err != nil {
		return 0, errors.Join(err, dev.Split.Close())
	}
	t.Split = dev.Split
	defer t.Close()
	const name = "change"
	e := &encoder{Network: t, opt: m.opt}
	err = e.cached(ctx, "bf16", func() ([]safetensors.Tensor, error) {
		change, err = measureChange(ctx, t, fast, m.opt)
		return []safetensors.Tensor{safetensors.FromFloat32s(name, []int{1}, []float32{float32(change)})}, err
	}, func(f *safetensors.File) error {
		x, err := floats(f, name, 1)
		if err == nil {
			change = float64(x[0])
		}
		return err
	})
	return math.Round(change*1e4) / 1e4, err
}

// measureChange measures recallChange on the split of t.
func measureChange(ctx context.Context, t, fast *pretrained.Network, o *Options) (float64, error) {
	pool := par.New(o.Device.Threads)
	defer pool.Close()
	options := eval.EncodeOptions{Batch: MaxBatch} // which takes no more memory than queries
	images, err := eval.EncodeImages(ctx, t.Runner.Embeds, t.Split, options)
	if err != nil {
		return 0, err
	}
	var recalls [2]float64
	for i, by := range []*pretrained.Network{t, fast} {
		captions, err := eval.EncodeCaptions(ctx, by.Runner.Embeds, t.Split, t.Tokenizer, options)
		if err != nil {
			return 0, err
		}
		s, err := eval.ScoreEmbeddings(ctx, pool, t.Runner.Embeds, images, captions)
		if err != nil {
			return 0, err
		}
		m, err := eval.Measure(pool, s, t.Split.Groups())
		if err != nil {
			return 0, err
		}
		recalls[i] = m.MRecall
	}
	return recalls[1] - recalls[0], nil
}

// encodeQueries embeds typed queries given as word ids: [N, E].
func (m *embedder) encodeQueries(ctx context.Context, ids [][]int32) ([]float32, error) {
	q := m.bf16
	if !q.inUse() {
		return m.encode(ctx, ids)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return encodeWords(ctx, q.network.Runner.Embeds, ids, MaxBatch, nil)
}

func (q *bf16Queries) inUse() bool {
	p := q.chosen.Load()
	return p != nil && p.Name == cpu.BF16
}

func (q *bf16Queries) close() error {
	if q.done != nil {
		q.stop()
		<-q.done
	}
	if q.network != nil {
		return q.network.Close()
	}
	return nil
}
