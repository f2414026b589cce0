package eval

import (
	"context"

	"vsetrain/internal/compute/device"
	"vsetrain/models"
)

// pairScoring scores all pairs of two encoded sets in the order of a plan: for each block of images, for each column of
// tiles, tile by tile. The scores go to the matrix, and to the work file in tiles of the size of the file, which may
// differ from the size of the tiles that are scored.
type pairScoring struct {
	r                *models.PairRunner
	images, captions *models.EncodedSet
	order            []int32
	o                EncodeOptions
	plan             PairPlan
	into             *Dense[float32]
	fileTiles        tiling // of the work file
	work             *workFile
	kept             map[int]bool // tiles that the work file had at the start; nil without a work file
	ranks            *division
	held             []heldTile // tiles of the ranks of a job that are not exchanged yet, in order
	tiles            *pairTiles
	done             int // pairs

	buf  []float32   // a tile for the work file
	free [][]float32 // unused memory for scores
}

// heldTile is a tile whose scores only one rank has.
type heldTile struct {
	scores []float32
	finish func() error
}

// heldTiles is the number of tiles that each rank scores before all ranks exchange them: enough to even out the times
// of the ranks, and few enough for an interrupted scoring to end soon.
const heldTiles = 8

// agree tells all ranks which tiles the work file had.
func (s *pairScoring) agree() error {
	if s.ranks.ranks == 1 || s.o.Work == "" {
		return nil
	}
	kept := make([]float32, s.fileTiles.count())
	for tile := range s.kept {
		kept[tile] = 1
	}
	if err := s.ranks.same(kept); err != nil {
		return err
	}
	s.kept = map[int]bool{}
	for tile, is := range kept {
		s.kept[tile] = is > 0
	}
	return nil
}

// exchange gives rank 0 the scores of the held tiles.
func (s *pairScoring) exchange(ctx context.Context) error {
	if len(s.held) == 0 {
		return nil
	}
	if err := s.ranks.meet(ctx); err != nil {
		return err
	}
	var all []float32
	var sizes []int32
	for _, t := range s.held {
		all, sizes = append(all, t.scores...), append(sizes, int32(len(t.scores)))
	}
	if err := s.ranks.share(all, 1, sizes); err != nil {
		return err
	}
	for _, t := range s.held {
		all = all[copy(t.scores, all):]
		if err := t.finish(); err != nil {
			return err
		}
	}
	s.held = s.held[:0]
	return nil
}

// put copies a tile of the work file into the matrix.
func (s *pairScoring) put(tile int, scores []float32) {
	i0, i1, c0, c1 := s.fileTiles.tile(tile)
	s.copy(scores, i0, i1, c0, c1)
	s.done += len(scores)
}

// copy writes scores [i1-i0, c1-c0] to the columns of their captions, if this rank has the matrix.
func (s *pairScoring) copy(scores []float32, i0, i1, c0, c1 int) {
	if s.into == nil {
		return
	}
	for i := i0; i < i1; i++ {
		row := s.into.Data[i*s.fileTiles.captions:][:s.fileTiles.captions]
		for j, caption := range s.order[c0:c1] {
			row[caption] = scores[(i-i0)*(c1-c0)+j]
		}
	}
}

func (s *pairScoring) report() {
	if s.o.Pairs != nil {
		s.o.Pairs(s.done, s.fileTiles.images*s.fileTiles.captions)
	}
}

func (s *pairScoring) run(ctx context.Context) error {
	p := &s.plan
	s.tiles = &pairTiles{r: s.r, images: s.images, captions: s.captions, tileI: p.TileImages, tileC: p.TileCaptions,
		usual: s.o.tile, capacity: p.Capacity, warn: s.o.Warn, spare: s.giveBack}
	_, s.tiles.pipelined = device.As[models.Fetcher](s.r.Model.Instance.Dev)
	defer s.r.Evict(s.images)
	defer s.r.Evict(s.captions)
	s.report()
	images, captions, block := s.fileTiles.images, s.fileTiles.captions, max(p.BlockImages, p.TileImages)
	for b0 := 0; b0 < images; b0 += block {
		b1 := min(images, b0+block)
		for c0 := 0; c0 < captions; c0 += p.TileCaptions {
			c1 := min(captions, c0+p.TileCaptions)
			for i0 := b0; i0 < b1; i0 += p.TileImages {
				i1 := min(b1, i0+p.TileImages)
				missing := s.missing(i0, i1, c0, c1)
				if s.kept != nil && len(missing) == 0 {
					continue
				}
				if err := ctx.Err(); err != nil && s.ranks.ranks == 1 {
					if e := s.tiles.flush(); e != nil {
						return e
					}
					return err
				}
				if err := s.makeResident(b0, b1, c0, c1); err != nil {
					return err
				}
				scores := s.memory((i1 - i0) * (c1 - c0))
				err := s.turn(ctx, heldTile{scores, func() error { return s.finish(scores, i0, i1, c0, c1, missing) }},
					func(done func() error) error { return s.tiles.score(scores, i0, i1, c0, c1, done) })
				if err != nil {
					return err
				}
			}
		}
	}
	if err := s.tiles.flush(); err != nil {
		return err
	}
	return s.exchange(ctx)
}

// turn scores a tile, if it is this rank's turn.
func (s *pairScoring) turn(ctx context.Context, t heldTile, score func(done func() error) error) error {
	if s.ranks.ranks == 1 {
		return score(t.finish)
	}
	own := len(s.held)%s.ranks.ranks == s.ranks.rank
	if s.held = append(s.held, t); own {
		if err := score(func() error { return nil }); err != nil {
			return err
		}
	}
	if len(s.held) < heldTiles*s.ranks.ranks {
		return nil
	}
	return s.exchange(ctx)
}

// missing returns the tiles of the work file that are in a scored tile and not in the file yet.
func (s *pairScoring) missing(i0, i1, c0, c1 int) (tiles []int) {
	if s.kept == nil {
		return nil
	}
	k := &s.fileTiles
	for i := i0 / k.tileI; i*k.tileI < i1; i++ {
		for c := c0 / k.tileC; c*k.tileC < c1; c++ {
			if tile := i*k.across() + c; !s.kept[tile] {
				tiles = append(tiles, tile)
			}
		}
	}
	return tiles
}

// finish copies the scores of a tile into the matrix and the work file.
func (s *pairScoring) finish(scores []float32, i0, i1, c0, c1 int, missing []int) error {
	s.free = append(s.free, scores)
	if s.work == nil {
		s.copy(scores, i0, i1, c0, c1)
		s.done += len(scores)
		s.report()
		return nil
	}
	for _, tile := range missing {
		k0, k1, l0, l1 := s.fileTiles.tile(tile)
		s.buf = s.buf[:0]
		for i := k0; i < k1; i++ {
			s.buf = append(s.buf, scores[(i-i0)*(c1-c0)+l0-c0:][:l1-l0]...)
		}
		s.put(tile, s.buf)
		if err := s.work.add(tile, s.buf); err != nil {
			return err
		}
	}
	s.report()
	return nil
}

// memory returns memory for the scores of a tile.
func (s *pairScoring) memory(n int) []float32 {
	if last := len(s.free) - 1; last >= 0 && cap(s.free[last]) >= n {
		x := s.free[last][:n]
		s.free = s.free[:last]
		return x
	}
	return make([]float32, n)
}

// makeResident copies a block of images, and the captions of a tile or all captions, to the device, if the plan says so
// and they are not resident yet.
func (s *pairScoring) makeResident(b0, b1, c0, c1 int) error {
	if s.plan.Total == 0 || s.plan.BlockImages == 0 {
		return nil
	}
	if s.plan.CaptionsStay {
		c0, c1 = 0, s.captions.N
	}
	var err error
	if !s.images.IsResident(b0, b1) {
		err = s.r.MakeResident(s.images, b0, b1, 0)
	}
	if err == nil && !s.captions.IsResident(c0, c1) {
		err = s.r.MakeResident(s.captions, c0, c1, s.plan.Capacity)
	}
	if isFull(err) && s.giveBack() {
		s.tiles.tell(err)
		return nil
	}
	return err
}

// giveBack frees the resident encoded values, so that they are streamed with every tile from then on. It returns false
// if nothing was resident.
func (s *pairScoring) giveBack() bool {
	if s.plan.BlockImages == 0 || s.plan.Total == 0 {
		return false
	}
	s.plan.BlockImages = 0
	s.r.Evict(s.images)
	s.r.Evict(s.captions)
	return true
}
