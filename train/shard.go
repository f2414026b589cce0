package train

import (
	"fmt"
	"slices"
	"strings"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/graph"
)

// shard is the part of the flat parameters that a rank updates and keeps moments of; with one rank it is all. Ranks sum
// the gradients of each piece on its rank (reduce-scatter) and update it there (S. Rajbhandari, J. Rasley, O. Ruwase,
// Y. He, "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", SC 2020, stage 1). After a step, a
// rank has the new parameters of its own pieces alone. The next step gathers the other parameters, part by part, during
// its forward pass, which waits for a part before it reads the part. All other readers must complete the parameters
// first.
type shard struct {
	parts  []part
	m, v   device.View // moments of the rank's pieces, one after the other
	dev    device.Device
	params *graph.Params
	bf16   bool // gradients are rounded to bfloat16 before they are summed
	apart  bool // other ranks have newer parameters of their pieces

	whole [2]device.View // moments of all ranks, between open and close
}

// part is a range of the flat parameters that is divided into a piece for every rank, in their order. Its gradients are
// summed together. It is a bucket of whole parameters, or one larger parameter.
type part struct {
	lo, hi   int
	from, to int          // the rank's piece
	at       int          // index of the moments of the piece in the moments of the shard
	columns  int          // if the part is a matrix that is cut between rows, otherwise 0
	deal     device.Shard // piece r is the piece of rank r
}

// bucketSize is the largest number of parameters that are summed together, unless one is larger: 25 MiB in float32 (the
// default bucket_cap_mb of torch.nn.parallel.DistributedDataParallel).
const bucketSize = 25 << 20 / 4

// firstBucket is the largest size of the part that a step reads first, unless one parameter is larger: 1 MiB, as for
// the first bucket of DistributedDataParallel. Nothing overlaps with gathering this part, nor with summing its
// gradients, which come last.
const firstBucket = 1 << 20 / 4

// newShard divides the parameters into parts, and each into pieces of nearly the same size.
func newShard(dev device.Device, p *graph.Params, bucket int) (*shard, error) {
	s := &shard{dev: dev, params: p}
	rank, ranks := device.RankOf(dev)
	own := 0
	add := func(lo, hi, columns int) {
		t := part{lo: lo, hi: hi, at: own, columns: columns}
		t.deal = device.Shard{Rank: rank, Ranks: ranks, Width: max(columns, graph.ParamAlign)}
		blocks := (hi - lo) / t.deal.Width
		limit := func(rank int) int { // all pieces but the last have the same size, so gathering needs no copies
			if rank == ranks {
				return blocks
			}
			return blocks / ranks * rank
		}
		for r := range ranks {
			t.deal.Lengths.Host = append(t.deal.Lengths.Host, int32(limit(r+1)-limit(r)))
		}
		t.from, t.to = lo+t.deal.Width*limit(rank), lo+t.deal.Width*limit(rank+1)
		own += t.to - t.from
		s.parts = append(s.parts, t)
	}
	lo, end := 0, p.OptimisedSize()
	begin, most := firstEncoder(p), bucket
	for _, spec := range p.Specs {
		if spec.State || ranks == 1 {
			continue
		}
		from, to := p.Range(spec.Name)
		begins := begin != "" && strings.HasPrefix(spec.Name, begin)
		if from > lo && (begins || to-lo > most) {
			add(lo, from, 0)
			lo, most = from, bucket
		}
		if begins {
			begin, most = "", min(bucket, firstBucket)
		}
		if to-from > bucket && len(spec.Shape) == 2 && spec.Shape[1]%graph.ParamAlign == 0 {
			add(from, to, spec.Shape[1])
			lo = to
		}
	}
	if lo < end {
		add(lo, end, 0)
	}
	if err := device.AllocViews(dev, device.Float, max(1, own), &s.m, &s.v); err != nil {
		return nil, fmt.Errorf("allocate optimiser state for %d parameters: %w", own, err)
	}
	s.m, s.v = s.m.Slice(0, own), s.v.Slice(0, own)
	return s, nil
}

// owner returns the rank that updates a parameter.
func (s *shard) owner(at int) (rank int) {
	t := &s.parts[slices.IndexFunc(s.parts, func(t part) bool { return at < t.hi })]
	for at -= t.lo; ; rank++ {
		if at -= int(t.deal.Lengths.Host[rank]) * t.deal.Width; at < 0 {
			return rank
		}
	}
}

// divided reports whether there are several ranks.
func (s *shard) divided() bool { return len(s.parts) > 0 && s.parts[0].deal.Ranks > 1 }

// matrix returns the part [lo, hi) if it is a matrix cut between rows, or nil.
func (s *shard) matrix(lo, hi int) *part {
	for i := range s.parts {
		if t := &s.parts[i]; t.columns > 0 && t.lo == lo && t.hi == hi {
			return t
		}
	}
	return nil
}

// scatter begins to set the gradients of the rank's piece of a part to the sum of all ranks' gradients.
func (s *shard) scatter(t *part) {
	g := s.params.Grads()
	device.Do(s.dev, device.ReduceScatter{Shard: t.deal, Async: true, BF16: s.bf16, X: g.Slice(t.lo, t.hi),
		Y: g.Slice(t.from, t.to)})
}

// gather begins to gather a part of all, a value for each parameter, from the ranks' pieces.
func (s *shard) gather(t *part, all device.View) {
	device.Do(s.dev, device.AllGather{Shard: t.deal, Async: true, X: all.Slice(t.from, t.to),
		Y: all.Slice(t.lo, t.hi)})
}

// rows returns the numbers of rows of each matrix that is cut between rows, by rank (graph.Shard).
func (s *shard) rows() map[string][]int32 {
	all := map[string][]int32{}
	for _, spec := range s.params.Specs {
		if t := s.matrix(s.params.Range(spec.Name)); t != nil && !spec.State {
			all[spec.Name] = t.deal.Lengths.Host
		}
	}
	return all
}

// complete gathers the parameters and their average, which may be absent, if a step has updated them. All ranks call
// it.
func (s *shard) complete(average device.View) {
	if s == nil || !s.apart {
		return
	}
	for _, all := range []device.View{s.params.Values(), average} {
		for i := 0; i < len(s.parts) && all.Present(); i++ {
			s.gather(&s.parts[i], all)
		}
	}
	device.Do(s.dev, device.Wait{})
	s.apart = false
}

// pieces returns the moments of the rank's piece of a part, in the shard and among the moments of all ranks.
func (s *shard) pieces(t *part) (pairs [2][2]device.View) {
	for i, own := range []device.View{s.m, s.v} {
		pairs[i] = [2]device.View{own.Slice(t.at, t.at+t.to-t.from), s.whole[i].Slice(t.from, t.to)}
	}
	return pairs
}

// open allocates the moments of all ranks, set to zero. The first moments share the memory of gradients, which are not
// needed between steps.
func (s *shard) open() error {
	if !s.divided() {
		return nil
	}
	n := s.params.OptimisedSize()
	b, err := s.dev.Alloc(device.Float, n)
	if err != nil {
		return fmt.Errorf("allocate the moments of %d parameters of all ranks: %w", n, err)
	}
	s.whole = [2]device.View{s.params.Grads(), device.ViewOf(b)}
	for _, v := range s.whole {
		device.Do(s.dev, device.Fill{Dst: v})
	}
	return nil
}

// close frees the memory that open allocated.
func (s *shard) close() {
	if s.divided() && s.whole[1].Present() {
		device.Do(s.dev, device.Fill{Dst: s.whole[0]})
		s.dev.Free(s.whole[1].Buf)
	}
	s.whole = [2]device.View{}
}

// moments returns the moments of all parameters: with one rank the shard's, otherwise the memory that open allocated.
func (s *shard) moments() (m, v device.View) {
	if !s.divided() {
		return s.m, s.v
	}
	return s.whole[0], s.whole[1]
}

// bring copies the moments of all ranks to moments.
func (s *shard) bring() {
	for i := range s.parts {
		for k, pair := range s.pieces(&s.parts[i]) {
			device.Do(s.dev, device.Copy{Dst: pair[1], Src: pair[0]})
			s.gather(&s.parts[i], s.whole[k])
		}
	}
	device.Do(s.dev, device.Wait{})
}

// take copies moments to the moments of the shard.
func (s *shard) take() {
	if !s.divided() {
		return
	}
	for i := range s.parts {
		for _, pair := range s.pieces(&s.parts[i]) {
			device.Do(s.dev, device.Copy{Dst: pair[0], Src: pair[1]})
		}
	}
}
