package models

import (
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/graph"
)

// Names of the inputs of a network's graphs.
const (
	InputRegions = "in.regions" // [B, R·D]
	InputWords   = "in.words"   // int32 [B, L]
	InputLengths = "in.lengths" // int32 [B]
	// InputRegionCounts, int32 [B], is an input of graphs whose images have different numbers of regions. InputRegions
	// then holds the concatenated regions of all images, with a capacity of R each.
	InputRegionCounts = "in.region_counts"

	inputAllLengths = "in.all_lengths" // int32 [N], of the captions of all ranks (SharedCaptions)

	InputBoxes     = "in.boxes"      // [B, R·4]
	InputEdges     = "in.edges"      // int32 [capacity, 2]
	InputEdgeStart = "in.edge_start" // int32 [B + 1]

	// Inputs of a captioning branch, see Labels.
	InputLabels       = "in.labels"
	InputLabelMask    = "in.label_mask"
	InputLabelSteps   = "in.label_steps"
	InputLabelLengths = "in.label_lengths"
)

// ImageInputs adds the inputs for n images to a graph.
func (m *Model) ImageInputs(g *graph.Graph, n int) ImageInputs {
	in := ImageInputs{Regions: g.Input(InputRegions, n, m.Dims.Regions*m.Dims.Feature)}
	if m.Options.Traits().Boxes {
		in.Boxes = g.Input(InputBoxes, n, m.Dims.Regions*4)
	}
	return in
}

// CaptionInputs adds the inputs for n captions to a graph. bucket is the length that the longest caption is rounded up
// to, and capacity the capacity of words; 0 adds no dependencies.
func (m *Model) CaptionInputs(g *graph.Graph, n, bucket, capacity int) Captions {
	c := Captions{Words: g.InputInts(InputWords, n, bucket), Lengths: g.InputInts(InputLengths, n), Capacity: capacity}
	if capacity > 0 && g.Shard.Alone() { // SharedCaptions has the captions of all ranks
		c.Edges, c.EdgeStart = m.edgeInputs(g, n, capacity)
	}
	return c
}

// SharedCaptions gathers the results of Words from all ranks (graph.Shard), with that capacity of words.
func (m *Model) SharedCaptions(g *graph.Graph, c EncodedCaptions, capacity int) EncodedCaptions {
	if g.Shard.Alone() {
		return c
	}
	all := EncodedCaptions{Lengths: g.InputInts(inputAllLengths, g.Shard.Items)}
	all.Edges, all.EdgeStart = m.edgeInputs(g, g.Shard.Items, capacity)
	for _, x := range c.Words {
		all.Words = append(all.Words, graph.AllGatherShared(g, x, all.Lengths, capacity))
	}
	for _, x := range c.Values {
		all.Values = append(all.Values, graph.AllGatherShared(g, x, nil, 0))
	}
	return all
}

// edgeInputs adds the dependencies of n captions with that capacity of words. It returns nil if the network reads none.
func (m *Model) edgeInputs(g *graph.Graph, n, capacity int) (edges, start *graph.Node) {
	if !m.Options.Traits().ReadsEdges {
		return nil, nil
	}
	return g.InputInts(InputEdges, capacity, 2), g.InputInts(InputEdgeStart, n+1)
}

// LabelInputs adds the inputs of a captioning branch with at most that many steps to a graph.
func (m *Model) LabelInputs(g *graph.Graph, n, steps int) Labels {
	var lengths *graph.Node
	if m.PadsLabels() {
		lengths = g.InputInts(InputLabelLengths, n)
	}
	return Labels{Lengths: lengths, Words: g.InputInts(InputLabels, n, steps+1),
		Mask: g.InputInts(InputLabelMask, n, steps+1), Steps: g.InputInts(InputLabelSteps, n)}
}

// PadsLabels reports whether the captioning branch runs the same number of steps for every caption, as devices that
// record steps need.
func (m *Model) PadsLabels() bool {
	_, ok := device.As[device.Recorder](m.Instance.Dev)
	return ok
}
