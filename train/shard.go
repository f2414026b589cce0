package train

import (
	"fmt"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/graph"
)

// shard is the range of the flat parameters that a rank updates, and whose moments it keeps: all of them where there is
// one rank. Ranks sum the gradients of each range on its rank (reduce-scatter), update it there, and gather the
// parameters (S. Rajbhandari, J. Rasley, O. Ruwase, Y. He, "ZeRO: Memory Optimizations Toward Training Trillion
// Parameter Models", SC 2020, stage 1).
type shard struct {
	lo, hi int
	m, v   device.View // moments of the range
	deal   device.Deal // of all ranges
	dev    device.Device
	params *graph.Params

	whole [2]device.View // moments of all ranges, between open and close
}

// newShard divides the parameters into ranges of nearly the same size.
func newShard(dev device.Device, p *graph.Params) (*shard, error) {
	s := &shard{dev: dev, params: p, deal: device.Deal{Width: graph.ParamAlign}}
	s.deal.Rank, s.deal.Ranks = device.RankOf(dev)
	blocks := p.OptimisedSize() / graph.ParamAlign
	limit := func(rank int) int { return blocks * rank / s.deal.Ranks }
	for rank := range s.deal.Ranks {
		s.deal.Lengths.Host = append(s.deal.Lengths.Host, int32(limit(rank+1)-limit(rank)))
	}
	s.lo, s.hi = graph.ParamAlign*limit(s.deal.Rank), graph.ParamAlign*limit(s.deal.Rank+1)
	for _, v := range []*device.View{&s.m, &s.v} {
		b, err := dev.Alloc(device.Float, max(1, s.hi-s.lo))
		if err != nil {
			return nil, fmt.Errorf("allocate optimiser state for %d parameters: %w", s.hi-s.lo, err)
		}
		*v = device.Of(b).Slice(0, s.hi-s.lo)
	}
	return s, nil
}

// divided reports whether there are several ranks.
func (s *shard) divided() bool { return s.deal.Ranks > 1 }

// of is the part of all parameters, or of all gradients, that the range is.
func (s *shard) of(all device.View) device.View { return all.Slice(s.lo, s.hi) }

// scatter sets the gradients of the range to the sum of those of all ranks.
func (s *shard) scatter() {
	device.Do(s.dev, device.ReduceScatter{Deal: s.deal, X: s.params.Grads(), Y: s.of(s.params.Grads())})
}

// gather sets values of all parameters to those that the ranks have of their ranges.
func (s *shard) gather(all, own device.View) {
	device.Do(s.dev, device.AllGather{Deal: s.deal, X: own, Y: all})
}

// open makes room for the moments of all ranges, which are zero. Those of m lie where gradients do, which no step needs
// any more.
func (s *shard) open() error {
	if !s.divided() {
		return nil
	}
	n := s.params.OptimisedSize()
	b, err := s.dev.Alloc(device.Float, n)
	if err != nil {
		return fmt.Errorf("allocate the moments of %d parameters of all ranks: %w", n, err)
	}
	s.whole = [2]device.View{s.params.Grads(), device.Of(b)}
	for _, v := range s.whole {
		device.Do(s.dev, device.Fill{Dst: v})
	}
	return nil
}

// close gives back the room of open.
func (s *shard) close() {
	if s.divided() && s.whole[1].Present() {
		device.Do(s.dev, device.Fill{Dst: s.whole[0]})
		s.dev.Free(s.whole[1].Buf)
	}
	s.whole = [2]device.View{}
}

// moments are those of all parameters: of the shard where there is one rank, and else between open and close.
func (s *shard) moments() (m, v device.View) {
	if !s.divided() {
		return s.m, s.v
	}
	return s.whole[0], s.whole[1]
}

// take sets the moments of the range to those of moments.
func (s *shard) take() {
	if m, v := s.moments(); s.divided() {
		device.Do(s.dev, device.Copy{Dst: s.m, Src: s.of(m)})
		device.Do(s.dev, device.Copy{Dst: s.v, Src: s.of(v)})
	}
}
