package models

import (
	"fmt"
	"slices"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/graph"
	"vsetrain/models/nn"
)

// regionCounts is the constant [B] of B images of R regions each: the lengths of their sequences, or the counts of
// their rows.
func regionCounts(g *graph.Graph, b, r int) *graph.Node {
	return g.ConstInts(fmt.Sprintf("const.regions.%d.%d", b, r), slices.Repeat([]int32{int32(r)}, b))
}

// counted reports whether the images of a graph may have fewer than R regions: images of the data set, or in training
// because size augmentation drops some.
func (d Dims) counted(g *graph.Graph, augment bool) bool { return d.Counted || g.Training && augment }

// Inputs of graphs that keep R rows for every image though it may have fewer regions, [B, R].
const (
	inputRegionRows = "in.region_rows"      // int32, the row of InputRegions that each reads
	inputRegionMask = "in.region_mask"      // 1 where a region is, 0 elsewhere
	inputAttended   = "in.regions_attended" // int32, 1 where the other regions of the image may attend to it
)

// paddedRegions computes with R rows for every image, however many regions are there, and stages the inputs that this
// takes.
type paddedRegions struct {
	numbers, attended []int32
	mask              []float32
}

// rows makes concatenated regions [B·R, D] R rows for every image: [B·R, D]. Where no region is, the row is any. mask
// [B, R] is the mask of the inputs, alone.
func (p *paddedRegions) rows(g *graph.Graph, regions *graph.Node, b, r int) (x *graph.Node, mask []*graph.Node) {
	x = g.SelectRows(regions, g.InputInts(inputRegionRows, b, r), regionCounts(g, b, r))
	return x, []*graph.Node{g.Input(inputRegionMask, b, r)}
}

// linear is a layer on the regions of B images with R rows each: [B·R, E]. Where no region is the input is 0, so the
// bias is all that there is. mask and attended [B, R] are the masks of the inputs.
func (p *paddedRegions) linear(g *graph.Graph, regions *graph.Node, l *nn.Linear, r int) (x, mask,
	attended *graph.Node) {
	b, d, e := graph.Dim(regions, 0), l.Weight.Shape[1], l.Weight.Shape[0]
	mask, attended = g.Input(inputRegionMask, b, r), g.InputInts(inputAttended, b, r)
	x = g.LinearRows(g.InputInts(InputRegionCounts, b),
		graph.LinearTerm{X: g.Reshape(regions, b*r, d), W: l.Weight.Node(g)})
	x = g.SelectRows(x, g.InputInts(inputRegionRows, b, r), regionCounts(g, b, r))
	x = g.Multiply(x, g.Broadcast(mask, graph.AlongRows(e), b*r, e))
	return g.Add(x, g.Repeat(l.Bias.Node(g), b*r)), mask, attended
}

// feed sets the inputs for images with that many regions. Every region that is there is attended to; unless masked, as
// in the released code of CHAN, so is every row below the largest count of the batch, most, whatever is there.
func (p *paddedRegions) feed(s *graph.Instance, counts []int32, most int32, r int, masked bool) error {
	p.numbers, p.attended, p.mask = p.numbers[:0], p.attended[:0], p.mask[:0]
	first := int32(0)
	for _, there := range counts {
		if masked {
			most = there
		}
		for i := range int32(r) {
			row, mask, attended := first, float32(0), int32(0) // where none is, any row is read
			if i < there {
				row, mask = first+i, 1
			}
			if i < most {
				attended = 1
			}
			p.numbers, p.mask, p.attended = append(p.numbers, row), append(p.mask, mask), append(p.attended, attended)
		}
		first += there
	}
	if err := s.FeedInts(inputRegionRows, p.numbers); err != nil {
		return err
	}
	if err := s.FeedInts(inputAttended, p.attended); err != nil {
		return err
	}
	return s.Feed(inputRegionMask, p.mask)
}

// maskRegions makes the values x [N, B·R] of rows without a region 0, or with least less than the values of all others.
// masks is empty, or the mask [B, R] alone.
func maskRegions(g *graph.Graph, x *graph.Node, masks []*graph.Node, least bool) *graph.Node {
	for _, mask := range masks {
		n := x.Shape().TotalSize() / mask.Shape().TotalSize()
		x = g.Multiply(x, g.Repeat(mask, n))
		if least {
			x = g.Add(x, g.Repeat(leastRegions(g, masks), n))
		}
	}
	return x
}

// leastRegions is what makes the similarities of rows without a region less than the similarities of all others when it
// is added to them, as the bias of a product: [B·R], 0 where a region is and -1e9 elsewhere; nil without a mask.
func leastRegions(g *graph.Graph, masks []*graph.Node) *graph.Node {
	for _, mask := range masks {
		// 1/max(mask, 1e-9) is 1 or 1e9
		return g.Reshape(g.Minus(mask, g.Map(device.Inverse, 1e-9, mask)), mask.Shape().TotalSize())
	}
	return nil
}

// aggregateRegions is aggregate over the regions of each image that are there, of similarities u [N, B·R]: [N·B]. masks
// is empty, or the mask [B, R] alone.
func aggregateRegions(g *graph.Graph, way string, factor float64, u *graph.Node, masks []*graph.Node,
	r int) *graph.Node {
	over := graph.AlongRows(r)
	u = maskRegions(g, u, masks, way != "mean" && way != "sum")
	for _, mask := range masks {
		if way == "mean" {
			shares := g.Map(device.Reciprocal, 0, g.Sum(mask, over))
			return g.Multiply(g.Sum(u, over), g.Repeat(shares, u.Shape().TotalSize()/mask.Shape().TotalSize()))
		}
	}
	return aggregate(g, way, factor, u, over)
}
