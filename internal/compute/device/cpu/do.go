package cpu

import "vsetrain/internal/compute/device"

// Do implements device.Device.
func (d *dev[T]) Do(k device.Kernel) bool {
	d.checker.Check(k)
	switch a := k.(type) {
	case *device.Gemm:
		d.Gemm(*a)
	case *device.Combine:
		d.Combine(a.Dst, a.A, a.B, a.Alpha, a.Beta)
	case *device.Add:
		d.Add(a.Dst, a.A, a.B)
	case *device.Scale:
		d.Scale(a.Dst, a.X, a.Factor)
	case *device.Activate:
		if a.Grad {
			d.ActivateGrad(a.F, a.DX, a.X, a.Y, a.DY)
		} else {
			d.Activate(a.F, a.Y, a.X)
		}
	case *device.ColumnSum:
		d.ColumnSum(a.Dst, a.X, a.Rows, a.Columns)
	case *device.BiasActivate:
		d.BiasActivateGrad(*a)
	case *device.Fill:
		d.Fill(a.Dst, a.Value)
	case *device.Copy:
		d.Copy(a.Dst, a.Src)
	case *device.SwapAxes:
		d.SwapAxes(a.Dst, a.X, a.A, a.B, a.Inner)
	case *device.Multiply:
		d.Multiply(a.Dst, a.A, a.B)
	case *device.Map:
		device.Either(a.Grad, d.MapGrad, d.Map, *a)
	case *device.Reduce:
		d.Reduce(*a)
	case *device.SegmentProducts:
		d.SegmentProducts(*a)
	case *device.SegmentMeans:
		if a.Grad {
			d.SegmentMeansGrad(a.Rows, a.Means, a.Counts, a.D)
		} else {
			d.SegmentMeans(a.Means, a.Rows, a.Counts, a.D)
		}
	case *device.UnpackWords:
		d.UnpackWords(a.Dst, a.Src, a.Lengths, a.D, a.Back)
	case *device.GatherWords:
		device.Either(a.Grad, d.ScatterWords, d.GatherWords, *a)
	case *device.Dropout:
		d.Dropout(*a)
	case *device.L2Norm:
		device.Either(a.Grad, d.L2NormGrad, d.L2Norm, *a)
	case *device.OrderScores:
		device.Either(a.Grad, d.OrderScoresGrad, d.OrderScores, *a)
	case *device.BatchNorm:
		device.Either(a.Grad, d.BatchNormGrad, d.BatchNorm, *a)
	case *device.PoolWeights:
		device.Either(a.Grad, d.PoolWeightsGrad, d.PoolWeights, *a)
	case *device.SortPool:
		device.Either(a.Grad, d.SortPoolGrad, d.SortPool, *a)
	case *device.GatedPool:
		device.Either(a.Grad, d.GatedPoolGrad, d.GatedPool, *a)
	case *device.GRU:
		device.Either(a.Grad, d.GRUGrad, d.GRU, *a)
	case *device.BiGRU:
		device.Either(a.Grad, d.BiGRUGrad, d.BiGRU, *a)
	case *device.GRUCell:
		device.Either(a.Grad, d.GRUCellGrad, d.GRUCell, *a)
	case *device.AdditiveAttention:
		device.Either(a.Grad, d.AdditiveAttentionGrad, d.AdditiveAttention, *a)
	case *device.CrossEntropy:
		device.Either(a.Grad, d.CrossEntropyGrad, d.CrossEntropy, *a)
	case *device.Embed:
		device.Either(a.Grad, d.EmbedGrad, d.Embed, *a)
	case *device.LayerNorm:
		device.Either(a.Grad, d.LayerNormGrad, d.LayerNorm, *a)
	case *device.SelfAttention:
		device.Either(a.Grad, d.SelfAttentionGrad, d.SelfAttention, *a)
	case *device.PairAttention:
		device.Either(a.Grad, d.PairAttentionGrad, d.PairAttention, *a)
	case *device.Similarities:
		device.Either(a.Grad, d.SimilaritiesGrad, d.Similarities, *a)
	case *device.GraphReason:
		device.Either(a.Grad, d.GraphReasonGrad, d.GraphReason, *a)
	case *device.Filtrate:
		device.Either(a.Grad, d.FiltrateGrad, d.Filtrate, *a)
	case *device.BlockMatch:
		device.Either(a.Grad, d.BlockMatchGrad, d.BlockMatch, *a)
	case *device.PolarWeights:
		device.Either(a.Grad, d.PolarWeightsGrad, d.PolarWeights, *a)
	case *device.ScaleBlocks:
		device.Either(a.Grad, d.ScaleBlocksGrad, d.ScaleBlocks, *a)
	case *device.MixNodes:
		device.Either(a.Grad, d.MixNodesGrad, d.MixNodes, *a)
	case *device.MeanNodes:
		device.Either(a.Grad, d.MeanNodesGrad, d.MeanNodes, *a)
	case *device.WordGraph:
		device.Either(a.Grad, d.WordGraphGrad, d.WordGraph, *a)
	case *device.Hinge:
		d.Hinge(*a)
	case *device.SemanticMargins:
		d.SemanticMargins(*a)
	case *device.UniversalWeighting:
		d.UniversalWeighting(*a)
	case *device.SumSquares:
		d.SumSquares(a.Sum, a.X)
	case *device.SumSquaresFactored:
		d.SumSquaresFactored(a.Sum, a.Factored)
	case *device.ClipCoefficient:
		d.ClipCoefficient(a.Coefficient, a.Norm, a.SumSquares, a.Most)
	case *device.Adam:
		d.Adam(*a)
	case *device.AdamFactored:
		d.AdamFactored(a.Adam, a.Factored)
	case *device.SumBits:
		sumBits(d, a)
	default:
		return false
	}
	return true
}
