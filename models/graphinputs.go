package models

import (
	"fmt"
	"slices"

	"vsetrain/internal/graph"
)

// Inputs of networks that look at more than features and words: where the regions are, and how words depend on each other (GSMN).
const (
	InputBoxes     = "in.boxes"      // [B, R·4]
	InputEdges     = "in.edges"      // int32 [room, 2]
	InputEdgeStart = "in.edge_start" // int32 [B + 1]
)

// FeedBoxes feeds the boxes [n, R, 4] of n images where the network needs them.
func (m *Model) FeedBoxes(boxes []float32, n int) error {
	if !m.Options.NeedsBoxes() {
		return nil
	}
	if len(boxes) != n*m.Dims.Regions*4 {
		return fmt.Errorf("network %s needs the boxes of the regions: %d values for %d images of %d regions", m.Options.Network, len(boxes), n, m.Dims.Regions)
	}
	return m.Session.Feed(InputBoxes, boxes)
}

// boxesNode is the input that FeedBoxes feeds, nil where there is none.
func (m *Model) boxesNode(g *graph.Graph, n int) *graph.Node {
	if !m.Options.NeedsBoxes() {
		return nil
	}
	return g.Input(InputBoxes, n, m.Dims.Regions*4)
}

// EdgeNodes returns the inputs that FeedEdges feeds for n captions with room for so many words, nil where there are none.
func (m *Model) EdgeNodes(g *graph.Graph, n, room int) (edges, start *graph.Node) {
	if !m.Options.NeedsEdges() {
		return nil, nil
	}
	return g.InputInts(InputEdges, room, 2), g.InputInts(InputEdgeStart, n+1)
}

// FeedEdges feeds the dependencies of captions where the network needs them: pairs of positions, those of caption i from start[i] to
// start[i+1]. There are at most room of them.
func (m *Model) FeedEdges(edges, start []int32, n, room int) error {
	if !m.Options.NeedsEdges() {
		return nil
	}
	if len(start) != n+1 || len(edges) != 2*int(start[n]-start[0]) {
		return fmt.Errorf("network %s in mode %s needs the dependencies of %d captions, there are those of %d", m.Options.Network, m.Options.GSMN.Mode, n, len(start)-1)
	}
	if len(edges) > 2*room {
		return fmt.Errorf("%d dependencies between the words of %d captions, expected at most %d: a word has one governor", len(edges)/2, n, room)
	}
	m.edges = append(m.edges[:0], edges...)
	m.edges = slices.Grow(m.edges, 2*room-len(edges))[:2*room]
	clear(m.edges[len(edges):])
	m.edgeStart = m.edgeStart[:0]
	for _, s := range start {
		m.edgeStart = append(m.edgeStart, s-start[0])
	}
	if err := m.Session.FeedInts(InputEdges, m.edges); err != nil {
		return err
	}
	return m.Session.FeedInts(InputEdgeStart, m.edgeStart)
}

// AppendEdges keeps the dependencies of the captions that AppendCaptions has just encoded, for networks that need them.
func (s *EncodedSet) AppendEdges(edges, start []int32) {
	if len(start) == 0 {
		return
	}
	if len(s.EdgeStart) == 0 {
		s.EdgeStart = append(s.EdgeStart, 0)
	}
	at := s.EdgeStart[len(s.EdgeStart)-1]
	for _, e := range start[1:] {
		s.EdgeStart = append(s.EdgeStart, at+e)
	}
	s.Edges = append(s.Edges, edges...)
}

// edgesOf returns the dependencies of captions [c0, c1).
func (s *EncodedSet) edgesOf(c0, c1 int) (edges, start []int32) {
	if len(s.EdgeStart) <= c1 {
		return nil, nil
	}
	start = s.EdgeStart[c0 : c1+1]
	return s.Edges[2*start[0] : 2*start[c1-c0]], start
}
