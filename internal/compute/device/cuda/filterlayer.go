package cuda

import (
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda/driver"
)

// filterLayer is the layer of a filtration on similarity vectors (device.Filter); without one all addresses are 0.
type filterLayer struct {
	w, bias, logits             driver.Ptr
	weights, dSums, dLogits, dW driver.Ptr
}

func (f *filterLayer) set(d *dev, a *device.Filter) {
	f.w, f.bias, f.logits = d.pointer(a.W), d.pointer(a.Bias), d.pointer(a.Logits)
}

func (f *filterLayer) setGrad(d *dev, a *device.Filter) {
	f.weights, f.dLogits = d.pointer(a.Weights), d.pointer(a.DLogits)
	f.dSums, f.dW = d.pointer(a.DSums), d.pointer(a.DW)
}

// filteredGrad computes the gradient of W z of a tile from its factors; part gets what its blocks give of the bias and
// of the filter.
func (s *similarities) filteredGrad(d *dev, t *similarityTile, part driver.Ptr) {
	f, node, size := &s.filter, t.i0*s.nodes, s.a.S
	d.start("similarity_filter_grad", threads, nodeBlocks(t.n), 1, 1).
		ptr(s.inner, s.innerGrad16, part, at(s.out, s.firstNode(t)), f.w, at(f.weights, node),
			at(f.dSums, t.i0*s.captions*size), at(f.dLogits, node), s.firstNorm(t)).
		ptr(at(s.node, t.r0), s.caption).int(s.captions, t.rows, s.rows, s.nodes, size).long(t.n)
}
