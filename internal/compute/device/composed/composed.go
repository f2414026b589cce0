// Package composed writes kernels in terms of others: it makes a whole device of one that has few (device/toy).
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
	checker device.Checker
}

// Over returns a device with all kernels: those that the given one lacks are composed.
func Over(own device.Device) *Device {
	if d, ok := own.(*Device); ok {
		return d
	}
	d := &Device{Device: own}
	d.scratch.dev = own
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
	switch a := k.(type) {
	case *device.Add:
		rows{d}.Add(a.Dst, a.A, a.B)
	case *device.Scale:
		rows{d}.Scale(a.Dst, a.X, a.Factor)
	case *device.ColumnSum:
		rows{d}.ColumnSum(a.Dst, a.X, a.Rows, a.Columns)
	case *device.BiasActivate:
		rows{d}.BiasActivateGrad(*a)
	case *device.SwapAxes:
		layouts{d}.SwapAxes(a.Dst, a.X, a.A, a.B, a.Inner)
	case *device.SegmentMeans:
		if a.Grad {
			segments{d}.SegmentMeansGrad(a.Rows, a.Means, a.Counts, a.D)
		} else {
			segments{d}.SegmentMeans(a.Means, a.Rows, a.Counts, a.D)
		}
	case *device.UnpackWords:
		segments{d}.UnpackWords(a.Dst, a.Src, a.Lengths, a.D, a.Back)
	case *device.L2Norm:
		device.Either(a.Grad, rows{d}.L2NormGrad, rows{d}.L2Norm, *a)
	case *device.OrderScores:
		device.Either(a.Grad, orders{d}.OrderScoresGrad, orders{d}.OrderScores, *a)
	case *device.BatchNorm:
		device.Either(a.Grad, normalisation{d}.BatchNormGrad, normalisation{d}.BatchNorm, *a)
	case *device.PoolWeights:
		device.Either(a.Grad, pooling{d}.PoolWeightsGrad, pooling{d}.PoolWeights, *a)
	case *device.SortPool:
		device.Either(a.Grad, pooling{d}.SortPoolGrad, pooling{d}.SortPool, *a)
	case *device.GatedPool:
		device.Either(a.Grad, segments{d}.GatedPoolGrad, segments{d}.GatedPool, *a)
	case *device.GRU:
		device.Either(a.Grad, recurrent{d}.GRUGrad, recurrent{d}.GRU, *a)
	case *device.BiGRU:
		device.Either(a.Grad, recurrent{d}.BiGRUGrad, recurrent{d}.BiGRU, *a)
	case *device.GRUCell:
		device.Either(a.Grad, cells{d}.GRUCellGrad, cells{d}.GRUCell, *a)
	case *device.AdditiveAttention:
		device.Either(a.Grad, attention{d}.AdditiveAttentionGrad, attention{d}.AdditiveAttention, *a)
	case *device.Decoder:
		device.Either(a.Grad, decoding{d}.grad, decoding{d}.steps, *a)
	case *device.CrossEntropy:
		device.Either(a.Grad, likelihood{d}.CrossEntropyGrad, likelihood{d}.CrossEntropy, *a)
	case *device.Embed:
		device.Either(a.Grad, transformer{d}.EmbedGrad, transformer{d}.Embed, *a)
	case *device.LayerNorm:
		device.Either(a.Grad, transformer{d}.LayerNormGrad, transformer{d}.LayerNorm, *a)
	case *device.SelfAttention:
		device.Either(a.Grad, transformer{d}.SelfAttentionGrad, transformer{d}.SelfAttention, *a)
	case *device.PairAttention:
		device.Either(a.Grad, pairs{d}.PairAttentionGrad, pairs{d}.PairAttention, *a)
	case *device.Similarities:
		device.Either(a.Grad, pairs{d}.SimilaritiesGrad, pairs{d}.Similarities, *a)
	case *device.GraphReason:
		device.Either(a.Grad, pairs{d}.GraphReasonGrad, pairs{d}.GraphReason, *a)
	case *device.Filtrate:
		device.Either(a.Grad, pairs{d}.FiltrateGrad, pairs{d}.Filtrate, *a)
	case *device.FiltrateSimilarities:
		device.Do(d, a.Words)
		device.Do(d, a.Captions)
		device.Do(d, a.Filtrate)
	case *device.BlockMatch:
		device.Either(a.Grad, matching{d}.BlockMatchGrad, matching{d}.BlockMatch, *a)
	case *device.PolarWeights:
		device.Either(a.Grad, matching{d}.PolarWeightsGrad, matching{d}.PolarWeights, *a)
	case *device.ScaleBlocks:
		device.Either(a.Grad, matching{d}.ScaleBlocksGrad, matching{d}.ScaleBlocks, *a)
	case *device.MixNodes:
		device.Either(a.Grad, matching{d}.MixNodesGrad, matching{d}.MixNodes, *a)
	case *device.MeanNodes:
		device.Either(a.Grad, matching{d}.MeanNodesGrad, matching{d}.MeanNodes, *a)
	case *device.WordGraph:
		device.Either(a.Grad, matching{d}.WordGraphGrad, matching{d}.WordGraph, *a)
	case *device.Hinge:
		losses{d}.Hinge(*a)
	case *device.SemanticMargins:
		losses{d}.SemanticMargins(*a)
	case *device.UniversalWeighting:
		losses{d}.UniversalWeighting(*a)
	case *device.SumSquaresFactored:
		factoring{d}.SumSquaresFactored(a.Sum, a.Factored)
	case *device.Guard:
		d.guard(a)
	case *device.SegmentProducts:
		segments{d}.SegmentProducts(*a)
	case *device.Dropout:
		optimiser{d}.Dropout(*a)
	case *device.SumSquares:
		optimiser{d}.SumSquares(*a)
	case *device.ClipCoefficient:
		optimiser{d}.ClipCoefficient(*a)
	case *device.Adam:
		optimiser{d}.Adam(*a)
	case *device.AdamFactored:
		factoring{d}.AdamFactored(a.Adam, a.Factored)
	case *device.SumBits:
		optimiser{d}.SumBits(a)
	case *device.AllReduce, *device.Broadcast, *device.Join: // of one rank
	case *device.AllGather:
		return rows{d}.AllGather(*a)
	case *device.ReduceScatter:
		return rows{d}.alone(a.Deal, a.Y, a.X)
	default:
		return false
	}
	return true
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
