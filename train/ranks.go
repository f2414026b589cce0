package train

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math"

	"vsetrain/batch"
	"vsetrain/data"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/graph"
	"vsetrain/models"
)

// Ranks is a job of several ranks that train one network. train.batch is the batch of all ranks together, and the
// result is the same as with one rank (docs/distributed.md). Each rank encodes its part of a batch and computes the
// loss over the whole batch. The ranks sum their gradients, so that all make the same update, and agree when to stop.
type Ranks struct {
	Rank, Ranks int

	dev     device.Device
	params  *graph.Params
	shard   *shard      // of the optimiser
	average device.View // of the weights; absent if none is kept
	job     device.Ranked
	own     batch.Captions // the rank's captions of a batch
	item    []int32        // positions of the rank's pairs in the batch
	stop    bool           // this rank wants to stop
	stops   device.View    // 1 if it does
}

// Indices of the scalars that are summed over the ranks in every step.
const (
	spareStop       = iota // ranks that want to stop
	spareCaptioning        // the loss of a captioning branch
	spareSquares           // of the gradients
)

// RanksOn returns the ranks of a model's device, nil with one rank.
func RanksOn(m *models.Model) *Ranks {
	job, ok := device.As[device.Ranked](m.Instance.Dev)
	if !ok {
		return nil
	}
	r := &Ranks{dev: m.Instance.Dev, params: m.Instance.Params, job: job}
	if r.Rank, r.Ranks = job.Rank(); r.Ranks == 1 {
		return nil
	}
	return r
}

// newRanks returns the ranks that train a model, nil with one rank.
func newRanks(m *models.Model) (*Ranks, error) {
	r := RanksOn(m)
	if by := m.Options.Traits().Together; r != nil && by != "" {
		return nil, fmt.Errorf("network %s with model.%s lets the images of a batch attend to each other, so %d ranks "+
			"cannot divide it; train on one, or choose another value", m.Options.Network, by, r.Ranks)
	}
	if r != nil {
		if err := device.AllocViews(r.dev, device.Float, 1, &r.stops); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// share returns the rank's share of a graph of n pairs.
func (r *Ranks) share(n int) graph.Shard {
	if r == nil {
		return graph.Shard{}
	}
	return graph.Shard{Rank: r.Rank, Ranks: r.Ranks, Items: n, Rows: r.shard.rows()}
}

// part returns the pairs of a batch that this rank computes.
func (r *Ranks) part(b *data.Batch) (batch.Pairs, error) {
	p, rank, ranks := r.deal(&b.Captions), 0, 1
	if r != nil {
		rank, ranks = r.Rank, r.Ranks
	}
	if p.Images = b.Images; b.Rank != rank || max(1, b.Ranks) != ranks || len(p.Lengths) != b.N || b.N == 0 {
		return p, fmt.Errorf("a batch of %d images of rank %d of %d, expected %d of rank %d of %d", b.N, b.Rank,
			max(1, b.Ranks), len(p.Lengths), rank, ranks)
	}
	return p, nil
}

// deal returns the captions of a batch that this rank encodes, without images.
func (r *Ranks) deal(all *batch.Captions) batch.Pairs {
	if r == nil {
		return batch.Pairs{Captions: *all}
	}
	all.Shard(r.Rank, r.Ranks, &r.own)
	r.item = r.item[:0]
	for i := r.Rank; i < len(all.Lengths); i += r.Ranks {
		r.item = append(r.item, int32(i))
	}
	return batch.Pairs{Captions: r.own, All: all, Positions: r.item}
}

// scatter sums the gradients of a part over all ranks, each piece on its rank. Every rank has the whole gradient of a
// scalar that a loss learns, so only rank 0's is counted.
func (r *Ranks) scatter(t *part) {
	for _, s := range r.params.Specs {
		if lo, _ := r.params.Range(s.Name); s.Within != nil && r.Rank > 0 && lo >= t.lo && lo < t.hi {
			device.Do(r.dev, device.Fill{Dst: r.params.Grad(s.Name)})
		}
	}
	r.shard.scatter(t)
}

// collect waits for the sums of the gradients, which the program of a whole batch begins; for micro-batches it begins
// them itself. captioned is the loss of a captioning branch, which is summed too; absent without one.
func (r *Ranks) collect(captioned device.View, micro bool) {
	if r == nil {
		return
	}
	if captioned.Present() {
		device.Do(r.dev, device.Copy{Dst: r.spare(spareCaptioning), Src: captioned})
	}
	if micro {
		for i := range r.shard.parts {
			r.scatter(&r.shard.parts[i])
		}
	}
	device.Do(r.dev, device.Wait{})
}

// sum sums the squares of the gradients and the other scalars over all ranks.
func (r *Ranks) sum(squares device.View) {
	if r == nil {
		return
	}
	device.Do(r.dev, device.Copy{Dst: r.spare(spareStop), Src: r.stops})
	device.Do(r.dev, device.Copy{Dst: r.spare(spareSquares), Src: squares})
	device.Do(r.dev, device.AllReduce{X: r.params.Spare()})
	device.Do(r.dev, device.Copy{Dst: squares, Src: r.spare(spareSquares)})
}

func (r *Ranks) spare(which int) device.View { return r.params.Spare().Slice(which, which+1) }

// complete gathers the parameters and their average on all ranks, which call it together before anything but a step
// reads them.
func (r *Ranks) complete() {
	if r != nil {
		r.shard.complete(r.average)
	}
}

// saving calls write while the parameters and the moments of all ranks are gathered. All ranks call it and wait for
// each other; rank 0 writes.
func (r *Ranks) saving(write func() error) error {
	r.complete()
	s := r.shard
	if err := s.open(); err != nil {
		return err
	}
	defer s.close()
	s.bring()
	if err := s.dev.Sync(); err != nil {
		return err
	}
	if err := write(); err != nil {
		return err
	}
	r.job.Wait()
	return nil
}

// tell uploads whether this rank wants to stop, for the step that begins. It is read on the device because kernels may
// be recorded.
func (r *Ranks) tell() {
	if r == nil {
		return
	}
	stop := []float32{0}
	if r.stop {
		stop[0] = 1
	}
	r.dev.UploadFloats(r.stops, stop)
}

// WantStop sets whether this rank wants to stop. All ranks stop after the same step (StepResult.Stop).
func (r *Ranks) WantStop(want bool) { r.stop = want }

// Agree sets values, pointers that JSON can be decoded into, on all ranks to rank 0's values. The other ranks wait for
// rank 0 without using the processor.
func (r *Ranks) Agree(values ...any) error {
	r.job.Wait()
	var text []byte
	var failed error
	if r.Rank == 0 {
		text, failed = json.Marshal(values) // an error leaves no text, which the others cannot read either
	}
	length := binary.LittleEndian.AppendUint32(nil, uint32(len(text)))
	if err := r.broadcast(length); err != nil {
		return err
	}
	if r.Rank > 0 {
		text = make([]byte, binary.LittleEndian.Uint32(length))
	}
	if err := r.broadcast(text); err != nil || r.Rank == 0 {
		return errors.Join(failed, err)
	}
	if err := json.Unmarshal(text, &values); err != nil {
		return fmt.Errorf("rank %d of %d: what rank 0 sent: %w", r.Rank, r.Ranks, err)
	}
	return nil
}

// broadcast sets text to rank 0's text. It sends each byte as a float.
func (r *Ranks) broadcast(text []byte) error {
	x := make([]float32, len(text))
	for i, b := range text {
		x[i] = float32(b)
	}
	buf, err := r.dev.Alloc(device.Float, len(x))
	if err != nil {
		return err
	}
	defer r.dev.Free(buf)
	v := device.ViewOf(buf)
	r.dev.UploadFloats(v, x)
	device.Do(r.dev, device.Broadcast{X: v})
	if err := r.dev.Sync(); err != nil {
		return err
	}
	r.dev.DownloadFloats(x, v)
	for i := range text {
		text[i] = byte(x[i])
	}
	return nil
}

// Compare returns an error on all ranks if the parameters of one differ from rank 0's in any bit.
func (r *Ranks) Compare() error {
	r.complete()
	const digits = 4 // of 16 bits, which a float holds exactly
	own, err := r.dev.Alloc(device.Float, digits*(1+r.Ranks))
	if err != nil {
		return err
	}
	defer r.dev.Free(own)
	hash, x := r.hash(), make([]float64, digits*r.Ranks)
	for i := range digits {
		x[i] = float64(hash >> (16 * i) & 0xffff)
	}
	part, all := device.ViewOf(own).Slice(0, digits), device.ViewOf(own).Slice(digits, digits*(1+r.Ranks))
	r.dev.UploadDoubles(part, x[:digits])
	device.Do(r.dev, device.AllGather{Shard: device.Shard{Rank: r.Rank, Ranks: r.Ranks, Items: r.Ranks, Width: digits},
		X: part, Y: all})
	if err := r.dev.Sync(); err != nil {
		return err
	}
	r.dev.DownloadDoubles(x, all)
	var others []int
	for i := range x {
		if rank := i / digits; x[i] != x[i%digits] && (len(others) == 0 || others[len(others)-1] != rank) {
			others = append(others, rank)
		}
	}
	if len(others) > 0 {
		return fmt.Errorf("the parameters of rank %v differ from rank 0's after the same steps: their machines "+
			"compute differently (processor, program, VSETRAIN_BLAS), one is faulty, or one began with another "+
			"checkpoint; resume from the last checkpoint of the training, which was written when they were the same",
			others)
	}
	return nil
}

// hash is the FNV hash of all parameters and of their average, by words of 64 bits.
func (r *Ranks) hash() uint64 {
	const prime = 1099511628211
	h, x := fnv.New64a().Sum64(), make([]float64, 1<<16)
	for _, v := range []device.View{r.params.Values(), r.params.State(), r.average} {
		for lo := 0; lo < v.N; lo += len(x) {
			piece := x[:min(len(x), v.N-lo)]
			r.dev.DownloadDoubles(piece, v.Slice(lo, lo+len(piece)))
			for _, f := range piece {
				h = (h ^ math.Float64bits(f)) * prime
				h ^= h >> 32 // a product moves bits up alone
			}
		}
	}
	return h
}
