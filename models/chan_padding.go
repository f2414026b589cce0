package models

import (
	"slices"
	"strconv"

	"vsetrain/internal/graph"
	"vsetrain/internal/options"
)

// Inputs of training graphs of CHAN that drop regions, [B, R]: the regions of every image, dropped ones included, fill
// R rows.
const (
	inputRegionRows = "in.region_rows"      // int32, the row of InputRegions that each reads
	inputRegionMask = "in.region_mask"      // 1 where a region is and 0 where one was dropped
	inputAttended   = "in.regions_attended" // int32, 1 where the other regions of the image may attend to it
)

// padding is the staging of these inputs.
type padding struct {
	rows, attended []int32
	mask           []float32
}

// feedCounts implements countReader for images with so many regions. As in the released code a row below the largest
// count of the batch is attended to, whatever is there, unless padding is masked.
func (n *chanNet) feedCounts(s *graph.Session, counts []int32) error {
	p, r, first := &n.padded, n.dims.Regions, int32(0)
	p.rows, p.attended, p.mask = p.rows[:0], p.attended[:0], p.mask[:0]
	most := slices.Max(counts)
	for _, there := range counts {
		if n.opt.MaskPadding {
			most = there
		}
		for i := range int32(r) {
			row, mask, attended := first, float32(0), int32(0) // what is dropped reads any row that there is
			if i < there {
				row, mask = first+i, 1
			}
			if i < most {
				attended = 1
			}
			p.rows, p.mask, p.attended = append(p.rows, row), append(p.mask, mask), append(p.attended, attended)
		}
		first += there
	}
	if err := s.FeedInts(inputRegionRows, p.rows); err != nil {
		return err
	}
	if err := s.FeedInts(inputAttended, p.attended); err != nil {
		return err
	}
	return s.Feed(inputRegionMask, p.mask)
}

// checkCHAN returns the first option of CHAN that cannot be used.
func checkCHAN(o *Options) *options.Error {
	c := o.CHAN
	switch {
	case c.ImageEncoder == "basic":
		return nil
	case o.EmbedDim%c.Heads != 0:
		return &options.Error{Key: "chan.heads", Found: strconv.Itoa(c.Heads),
			Expected: "a divisor of embed_dim = " + strconv.Itoa(o.EmbedDim)}
	case c.MaskPadding && c.ImageEncoder == "transformer" && c.Axis == "batch":
		return &options.Error{Key: "chan.mask_padding", Found: "true", Expected: "false with transformer_axis batch"}
	}
	return nil
}
