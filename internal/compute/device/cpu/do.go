package cpu

import (
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/vec"
)

// Do implements device.Device.
func (d *dev[T]) Do(k device.Kernel) bool {
	d.checker.Check(k)
	return d.kernels.Do(k)
}

// methods lists the kernels: each is the method of its name, and its gradient that with Grad behind it.
func methods[T vec.Float](d *dev[T]) device.KernelTable {
	t := device.KernelTable{}
	device.Has(t, d.Gemm)
	device.Has(t, d.Combine)
	device.Has(t, d.Add)
	device.Has(t, d.Scale)
	device.HasGrad(t, d.Activate, d.ActivateGrad)
	device.Has(t, d.ColumnSum)
	device.Has(t, d.BiasActivate)
	device.Has(t, d.Fill)
	device.Has(t, d.Copy)
	device.Has(t, d.SwapAxes)
	device.Has(t, d.Multiply)
	device.HasGrad(t, d.Map, d.MapGrad)
	device.Has(t, d.Reduce)
	device.HasGrad(t, d.SegmentMeans, d.SegmentMeansGrad)
	device.Has(t, d.UnpackWords)
	device.HasGrad(t, d.GatherWords, d.GatherWordsGrad)
	device.Has(t, d.Dropout)
	device.HasGrad(t, d.L2Norm, d.L2NormGrad)
	device.HasGrad(t, d.OrderScores, d.OrderScoresGrad)
	device.HasGrad(t, d.BatchNorm, d.BatchNormGrad)
	device.HasGrad(t, d.PoolWeights, d.PoolWeightsGrad)
	device.HasGrad(t, d.SortPool, d.SortPoolGrad)
	device.HasGrad(t, d.GatedPool, d.GatedPoolGrad)
	device.HasGrad(t, d.GRU, d.GRUGrad)
	device.HasGrad(t, d.BiGRU, d.BiGRUGrad)
	device.HasGrad(t, d.GRUCell, d.GRUCellGrad)
	device.HasGrad(t, d.AdditiveAttention, d.AdditiveAttentionGrad)
	device.HasGrad(t, d.CrossEntropy, d.CrossEntropyGrad)
	device.HasGrad(t, d.Embed, d.EmbedGrad)
	device.HasGrad(t, d.LayerNorm, d.LayerNormGrad)
	device.HasGrad(t, d.SelfAttention, d.SelfAttentionGrad)
	device.HasGrad(t, d.PairAttention, d.PairAttentionGrad)
	device.HasGrad(t, d.Similarities, d.SimilaritiesGrad)
	device.HasGrad(t, d.GraphReason, d.GraphReasonGrad)
	device.HasGrad(t, d.Filtrate, d.FiltrateGrad)
	device.HasGrad(t, d.BlockMatch, d.BlockMatchGrad)
	device.HasGrad(t, d.PolarWeights, d.PolarWeightsGrad)
	device.HasGrad(t, d.ScaleBlocks, d.ScaleBlocksGrad)
	device.HasGrad(t, d.MixNodes, d.MixNodesGrad)
	device.HasGrad(t, d.MeanNodes, d.MeanNodesGrad)
	device.HasGrad(t, d.WordGraph, d.WordGraphGrad)
	device.Has(t, d.Hinge)
	device.Has(t, d.SemanticMargins)
	device.Has(t, d.UniversalWeighting)
	device.Has(t, d.SumSquares)
	device.Has(t, d.SumSquaresFactored)
	device.Has(t, d.ClipCoefficient)
	device.Has(t, d.Adam)
	device.Has(t, d.AdamFactored)
	return t
}
