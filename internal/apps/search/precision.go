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
	Change *float64 // of M-Recall on the dev split where captions are embedded in bf16; nil: not measured
	Why    string   // for people
}

// maxChange bounds the change of M-Recall, in points.
const maxChange = 0.1

// bf16Queries embeds typed queries in bf16. Indexes that are renewed share it with their embedder.
type bf16Queries struct {
	mu      sync.Mutex                     // held while the network runs
	network *pretrained.Network            // nil where queries are embedded in fp32
	chosen  atomic.Pointer[QueryPrecision] // nil until it is known
	stop    context.CancelFunc
	done    chan struct{} // nil before the choice begins
}

// choosePrecision chooses the precision of queries. It returns when that is known, or after a moment: then the choice
// goes on and tells Options.Chosen.
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

// ofBF16Queries returns the embedder whose queries may be embedded in bf16, or why there is none.
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

// queryPrecision is the QueryPrecision of Info.
func queryPrecision(x *Index) QueryPrecision {
	m, why := ofBF16Queries(x)
	if why == "" {
		if chosen := m.bf16.chosen.Load(); chosen != nil {
			return *chosen
		}
		why = "until recalls in bf16 are known"
	}
	return QueryPrecision{Name: x.opt.Device.Precision, Why: why}
}

// choose opens the network in bf16, and takes it where recalls of the dev split stay what they are, as measured or as
// the cache has it.
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

// recallChange is by how many points M-Recall of the dev split changes where fast embeds the captions. The network of
// the index answers meanwhile, so a copy of it embeds the rest.
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
	t, err := fast.Copy(m.opt.Device, m.opt.BLAS) // weights are float32 there too
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

// measureChange measures it, of the split of t.
func measureChange(ctx context.Context, t, fast *pretrained.Network, o *Options) (float64, error) {
	pool := par.New(o.Device.Threads)
	defer pool.Close()
	options := eval.EncodeOptions{Batch: MaxBatch} // queries need the memory of that many too
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

// inUse reports whether the network in bf16 embeds queries.
func (q *bf16Queries) inUse() bool {
	p := q.chosen.Load()
	return p != nil && p.Name == cpu.BF16
}

// close ends the choice and releases the network.
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
