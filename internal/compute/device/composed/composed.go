// Package composed writes kernels in terms of others: it makes a whole device of one that has few (lab/reference).
// Networks then train on a new device before a single fused kernel exists, and a fused kernel has a form to be measured
// against.
//
// The comments of the kernels in internal/compute/device define them; the code here follows them from top to bottom.
// What is no arithmetic is done by the host: index lists, masks, the order of sorted values, the geometry of boxes.
// Such kernels wait for the device where they read from it, and cannot be recorded (device.Recorder).
//
// Intermediate values lie in memory that a kernel takes at its beginning and gives back at its end (scratch.go), so
// that a kernel which has run once with some sizes allocates nothing when it runs again.
package composed

import "vsetrain/internal/compute/device"

// Device is a device with the kernels that it has itself and those that are composed here.
type Device struct {
	device.Device

	alone   bool // see Alone
	scratch scratch
	kernels device.KernelTable
	checker device.Checker
}

// Over returns a device with all kernels: those that the given one lacks are composed.
func Over(own device.Device) *Device {
	if d, ok := own.(*Device); ok {
		return d
	}
	d := &Device{Device: own}
	d.scratch.dev, d.kernels = own, methods(d)
	d.checker = device.Checker{Device: own.Name(), Memory: sizes{}}
	return d
}

// Alone is Over of a device of which no kernel is used that can be composed.
func Alone(own device.Device) *Device {
	d := Over(own)
	d.alone = true
	return d
}

// Unwrap implements device.Wrapper.
func (d *Device) Unwrap() device.Device { return d.Device }

// Do implements device.Device: the device's own kernel, or the composed one.
func (d *Device) Do(k device.Kernel) bool {
	if d.alone {
		return d.compose(k) || d.Device.Do(k)
	}
	return d.Device.Do(k) || d.compose(k)
}

// compose computes a kernel in terms of others, and reports whether there is such a form.
func (d *Device) compose(k device.Kernel) bool {
	d.checker.Check(k)
	return d.kernels.Do(k)
}

// methods lists the composed kernels: each is the method of its name, and its gradient that with Grad behind it.
func methods(d *Device) device.KernelTable {
	t := device.KernelTable{}
	device.Has(t, rows{d}.Add)
	device.Has(t, rows{d}.Scale)
	device.Has(t, rows{d}.ColumnSum)
	device.Has(t, rows{d}.BiasActivate)
	device.Has(t, layouts{d}.SwapAxes)
	device.HasGrad(t, segments{d}.SegmentMeans, segments{d}.SegmentMeansGrad)
	device.Has(t, segments{d}.UnpackWords)
	device.HasGrad(t, rows{d}.L2Norm, rows{d}.L2NormGrad)
	device.HasGrad(t, orders{d}.OrderScores, orders{d}.OrderScoresGrad)
	device.HasGrad(t, normalisation{d}.BatchNorm, normalisation{d}.BatchNormGrad)
	device.HasGrad(t, pooling{d}.PoolWeights, pooling{d}.PoolWeightsGrad)
	device.HasGrad(t, pooling{d}.SortPool, pooling{d}.SortPoolGrad)
	device.HasGrad(t, segments{d}.GatedPool, segments{d}.GatedPoolGrad)
	device.HasGrad(t, recurrent{d}.GRU, recurrent{d}.GRUGrad)
	device.HasGrad(t, recurrent{d}.BiGRU, recurrent{d}.BiGRUGrad)
	device.HasGrad(t, cells{d}.GRUCell, cells{d}.GRUCellGrad)
	device.HasGrad(t, attention{d}.AdditiveAttention, attention{d}.AdditiveAttentionGrad)
	device.HasGrad(t, decoding{d}.Decoder, decoding{d}.DecoderGrad)
	device.HasGrad(t, likelihood{d}.CrossEntropy, likelihood{d}.CrossEntropyGrad)
	device.HasGrad(t, transformer{d}.Embed, transformer{d}.EmbedGrad)
	device.HasGrad(t, transformer{d}.LayerNorm, transformer{d}.LayerNormGrad)
	device.HasGrad(t, transformer{d}.SelfAttention, transformer{d}.SelfAttentionGrad)
	device.HasGrad(t, pairs{d}.PairAttention, pairs{d}.PairAttentionGrad)
	device.HasGrad(t, pairs{d}.Similarities, pairs{d}.SimilaritiesGrad)
	device.HasGrad(t, pairs{d}.GraphReason, pairs{d}.GraphReasonGrad)
	device.HasGrad(t, pairs{d}.Filtrate, pairs{d}.FiltrateGrad)
	device.Has(t, func(a device.FiltrateSimilarities) {
		device.Do(d, a.Words)
		device.Do(d, a.Captions)
		device.Do(d, a.Filtrate)
	})
	device.HasGrad(t, matching{d}.BlockMatch, matching{d}.BlockMatchGrad)
	device.HasGrad(t, matching{d}.PolarWeights, matching{d}.PolarWeightsGrad)
	device.HasGrad(t, matching{d}.ScaleBlocks, matching{d}.ScaleBlocksGrad)
	device.HasGrad(t, matching{d}.MixNodes, matching{d}.MixNodesGrad)
	device.HasGrad(t, matching{d}.MeanNodes, matching{d}.MeanNodesGrad)
	device.HasGrad(t, matching{d}.WordGraph, matching{d}.WordGraphGrad)
	device.Has(t, losses{d}.Hinge)
	device.Has(t, losses{d}.SemanticMargins)
	device.Has(t, losses{d}.UniversalWeighting)
	device.Has(t, factoring{d}.SumSquaresFactored)
	device.Has(t, losses{d}.Guard)
	device.Has(t, segments{d}.SegmentProducts)
	device.Has(t, optimiser{d}.Dropout)
	device.Has(t, optimiser{d}.SumSquares)
	device.Has(t, optimiser{d}.ClipCoefficient)
	device.Has(t, optimiser{d}.Adam)
	device.Has(t, factoring{d}.AdamFactored)
	device.Has(t, func(device.AllReduce) {}) // of one rank
	device.Has(t, func(device.Broadcast) {})
	device.Has(t, func(device.Join) {})
	device.HasSome(t, rows{d}.AllGather)
	device.HasSome(t, rows{d}.ReduceScatter)
	return t
}

// sizes is a device.Inspector that looks at type and size alone: whose memory it is its own kernels see.
type sizes struct{}

// Inspect implements device.Inspector.
func (sizes) Inspect(b device.Buffer) (t device.DType, n int, fault string) {
	return b.DType(), b.Len(), ""
}

// Sync implements device.Device; it also returns what no memory was found for.
func (d *Device) Sync() error {
	if err := d.Device.Sync(); err != nil {
		return err
	}
	return d.scratch.lacked
}

// Lacked implements device.Scratch, of the composed kernels and of the device.
func (d *Device) Lacked() error {
	err := d.scratch.lacked
	d.scratch.lacked = nil
	if s, ok := device.As[device.Scratch](d.Device); ok && err == nil {
		err = s.Lacked()
	}
	return err
}

// Close releases the intermediate values and closes the device.
func (d *Device) Close() error {
	d.scratch.release()
	return d.Device.Close()
}
