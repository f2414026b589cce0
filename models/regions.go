package models

import (
	"fmt"
	"slices"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/graph"
	"vsetrain/models/nn"
)

// regionCounts returns the constant [B] of B images with R regions each.
func regionCounts(g *graph.Graph, b, r int) *graph.Node {
	return g.ConstInts(fmt.Sprintf("const.regions.%d.%d", b, r), slices.Repeat([]int32{int32(r)}, b))
}

// counted reports whether images of a graph may have fewer than R regions, in the data set or because size augmentation
// drops some in training.
func (d Dims) counted(g *graph.Graph, augment bool) bool { return d.Counted || g.Training && augment }

// Inputs [B, R] of graphs that keep R rows for every image, which may have fewer regions.
const (
	inputRegionRows = "in.region_rows"      // int32, the row of InputRegions
	inputRegionMask = "in.region_mask"      // 1 for a region, 0 for padding
	inputAttended   = "in.regions_attended" // int32, 1 if the other regions of the image attend to it
)

// paddedRegions computes with R rows for every image, which may have fewer regions.
type paddedRegions struct {
	numbers, attended []int32
	mask              []float32
}

// rows pads concatenated regions to R rows for every image: [B·R, D]. Padding holds the values of any region. mask is
// the mask [B, R] alone.
func (p *paddedRegions) rows(g *graph.Graph, regions *graph.Node, b, r int) (x *graph.Node, mask []*graph.Node) {
	x = g.SelectRows(regions, g.InputInts(inputRegionRows, b, r), regionCounts(g, b, r))
	return x, []*graph.Node{g.Input(inputRegionMask, b, r)}
}

// linear applies a layer to the regions of B images, padded with zeros to R rows each: [B·R, E]. Padding becomes the
// bias. mask and attended [B, R] are inputs.
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

// feed sets the inputs for images with that many regions. All regions are attended to. Unless masked, so is padding up
// to the largest count of the batch, most, as in the released code of CHAN.
func (p *paddedRegions) feed(s *graph.Instance, counts []int32, most int32, r int, masked bool) error {
	p.numbers, p.attended, p.mask = p.numbers[:0], p.attended[:0], p.mask[:0]
	first := int32(0)
	for _, there := range counts {
		if masked {
			most = there
		}
		for i := range int32(r) {
			row, mask, attended := first, float32(0), int32(0) // padding reads any row
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

// maskRegions sets the values x [N, B·R] of padding to 0, or with least to less than all other values. masks is empty,
// or the mask [B, R] alone.
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

// leastRegions returns the bias [B·R] of a product that makes the similarities of padding less than all others: 0 for a
// region and -1e9 for padding; nil without a mask.
func leastRegions(g *graph.Graph, masks []*graph.Node) *graph.Node {
	for _, mask := range masks {
		// 1/max(mask, 1e-9) is 1 or 1e9
		return g.Reshape(g.Minus(mask, g.Map(device.Inverse, 1e-9, mask)), mask.Shape().TotalSize())
	}
	return nil
}

// aggregateRegions aggregates similarities u [N, B·R] over the regions of each image, without padding: [N·B]. masks is
// empty, or the mask [B, R] alone.
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
