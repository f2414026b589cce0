package device

import (
	"fmt"
	"reflect"
	"sync"
)

// Kernel is one computation of a device: a pointer to one of the structs of this package, whose comment defines it.
type Kernel interface {
	// Views declares the views of the kernel, each with the size that the other fields give it, and refuses parameters
	// that no device accepts.
	Views(c *Checker)
}

// Gradient is embedded in the kernels that have a gradient: with Grad they compute the gradient.
type Gradient struct{ Grad bool }

// SetGrad sets Grad.
func (g *Gradient) SetGrad(grad bool) { g.Grad = grad }

func (g *Gradient) isGrad() bool { return g.Grad }

// kinds lists the kernels, each with the methods by which devices compute it and its gradient. Add a line for a new
// kernel.
var kinds = []kind{
	plain(func(d interface{ Gemm(Gemm) }, k Gemm) { d.Gemm(k) }),
	plain(func(d interface{ Combine(Combine) }, k Combine) { d.Combine(k) }),
	plain(func(d interface{ Add(Add) }, k Add) { d.Add(k) }),
	plain(func(d interface{ Scale(Scale) }, k Scale) { d.Scale(k) }),
	both(func(d interface{ Activate(Activate) }, k Activate) { d.Activate(k) },
		func(d interface{ ActivateGrad(Activate) }, k Activate) { d.ActivateGrad(k) }),
	plain(func(d interface{ ColumnSum(ColumnSum) }, k ColumnSum) { d.ColumnSum(k) }),
	plain(func(d interface{ BiasActivate(BiasActivate) }, k BiasActivate) { d.BiasActivate(k) }),
	plain(func(d interface{ Fill(Fill) }, k Fill) { d.Fill(k) }),
	plain(func(d interface{ Copy(Copy) }, k Copy) { d.Copy(k) }),
	plain(func(d interface{ SwapAxes(SwapAxes) }, k SwapAxes) { d.SwapAxes(k) }),
	plain(func(d interface{ Multiply(Multiply) }, k Multiply) { d.Multiply(k) }),
	both(func(d interface{ Map(Map) }, k Map) { d.Map(k) },
		func(d interface{ MapGrad(Map) }, k Map) { d.MapGrad(k) }),
	plain(func(d interface{ Reduce(Reduce) }, k Reduce) { d.Reduce(k) }),
	plain(func(d interface{ SegmentProducts(SegmentProducts) }, k SegmentProducts) { d.SegmentProducts(k) }),
	both(func(d interface{ SegmentMeans(SegmentMeans) }, k SegmentMeans) { d.SegmentMeans(k) },
		func(d interface{ SegmentMeansGrad(SegmentMeans) }, k SegmentMeans) { d.SegmentMeansGrad(k) }),
	plain(func(d interface{ UnpackWords(UnpackWords) }, k UnpackWords) { d.UnpackWords(k) }),
	both(func(d interface{ GatherWords(GatherWords) }, k GatherWords) { d.GatherWords(k) },
		func(d interface{ GatherWordsGrad(GatherWords) }, k GatherWords) { d.GatherWordsGrad(k) }),
	plain(func(d interface{ Dropout(Dropout) }, k Dropout) { d.Dropout(k) }),
	both(func(d interface{ L2Norm(L2Norm) }, k L2Norm) { d.L2Norm(k) },
		func(d interface{ L2NormGrad(L2Norm) }, k L2Norm) { d.L2NormGrad(k) }),
	both(func(d interface{ OrderScores(OrderScores) }, k OrderScores) { d.OrderScores(k) },
		func(d interface{ OrderScoresGrad(OrderScores) }, k OrderScores) { d.OrderScoresGrad(k) }),
	both(func(d interface{ BatchNorm(BatchNorm) }, k BatchNorm) { d.BatchNorm(k) },
		func(d interface{ BatchNormGrad(BatchNorm) }, k BatchNorm) { d.BatchNormGrad(k) }),
	both(func(d interface{ PoolWeights(PoolWeights) }, k PoolWeights) { d.PoolWeights(k) },
		func(d interface{ PoolWeightsGrad(PoolWeights) }, k PoolWeights) { d.PoolWeightsGrad(k) }),
	both(func(d interface{ SortPool(SortPool) }, k SortPool) { d.SortPool(k) },
		func(d interface{ SortPoolGrad(SortPool) }, k SortPool) { d.SortPoolGrad(k) }),
	both(func(d interface{ GatedPool(GatedPool) }, k GatedPool) { d.GatedPool(k) },
		func(d interface{ GatedPoolGrad(GatedPool) }, k GatedPool) { d.GatedPoolGrad(k) }),
	both(func(d interface{ GRU(GRU) }, k GRU) { d.GRU(k) },
		func(d interface{ GRUGrad(GRU) }, k GRU) { d.GRUGrad(k) }),
	both(func(d interface{ BiGRU(BiGRU) }, k BiGRU) { d.BiGRU(k) },
		func(d interface{ BiGRUGrad(BiGRU) }, k BiGRU) { d.BiGRUGrad(k) }),
	both(func(d interface{ GRUCell(GRUCell) }, k GRUCell) { d.GRUCell(k) },
		func(d interface{ GRUCellGrad(GRUCell) }, k GRUCell) { d.GRUCellGrad(k) }),
	both(func(d interface{ AdditiveAttention(AdditiveAttention) }, k AdditiveAttention) { d.AdditiveAttention(k) },
		func(d interface{ AdditiveAttentionGrad(AdditiveAttention) }, k AdditiveAttention) {
			d.AdditiveAttentionGrad(k)
		}),
	some(func(d interface{ Decoder(Decoder) bool }, k Decoder) bool { return d.Decoder(k) }),
	both(func(d interface{ CrossEntropy(CrossEntropy) }, k CrossEntropy) { d.CrossEntropy(k) },
		func(d interface{ CrossEntropyGrad(CrossEntropy) }, k CrossEntropy) { d.CrossEntropyGrad(k) }),
	both(func(d interface{ Embed(Embed) }, k Embed) { d.Embed(k) },
		func(d interface{ EmbedGrad(Embed) }, k Embed) { d.EmbedGrad(k) }),
	both(func(d interface{ LayerNorm(LayerNorm) }, k LayerNorm) { d.LayerNorm(k) },
		func(d interface{ LayerNormGrad(LayerNorm) }, k LayerNorm) { d.LayerNormGrad(k) }),
	both(func(d interface{ SelfAttention(SelfAttention) }, k SelfAttention) { d.SelfAttention(k) },
		func(d interface{ SelfAttentionGrad(SelfAttention) }, k SelfAttention) { d.SelfAttentionGrad(k) }),
	both(func(d interface{ PairAttention(PairAttention) }, k PairAttention) { d.PairAttention(k) },
		func(d interface{ PairAttentionGrad(PairAttention) }, k PairAttention) { d.PairAttentionGrad(k) }),
	both(func(d interface{ Similarities(Similarities) }, k Similarities) { d.Similarities(k) },
		func(d interface{ SimilaritiesGrad(Similarities) }, k Similarities) { d.SimilaritiesGrad(k) }),
	both(func(d interface{ GraphReason(GraphReason) }, k GraphReason) { d.GraphReason(k) },
		func(d interface{ GraphReasonGrad(GraphReason) }, k GraphReason) { d.GraphReasonGrad(k) }),
	both(func(d interface{ Filtrate(Filtrate) }, k Filtrate) { d.Filtrate(k) },
		func(d interface{ FiltrateGrad(Filtrate) }, k Filtrate) { d.FiltrateGrad(k) }),
	some(func(d interface {
		FiltrateSimilarities(FiltrateSimilarities) bool
	}, k FiltrateSimilarities) bool {
		return d.FiltrateSimilarities(k)
	}),
	some(func(d CrossScorer, k CrossScores) bool { return d.CrossScores(k) }),
	both(func(d interface{ BlockMatch(BlockMatch) }, k BlockMatch) { d.BlockMatch(k) },
		func(d interface{ BlockMatchGrad(BlockMatch) }, k BlockMatch) { d.BlockMatchGrad(k) }),
	both(func(d interface{ PolarWeights(PolarWeights) }, k PolarWeights) { d.PolarWeights(k) },
		func(d interface{ PolarWeightsGrad(PolarWeights) }, k PolarWeights) { d.PolarWeightsGrad(k) }),
	both(func(d interface{ ScaleBlocks(ScaleBlocks) }, k ScaleBlocks) { d.ScaleBlocks(k) },
		func(d interface{ ScaleBlocksGrad(ScaleBlocks) }, k ScaleBlocks) { d.ScaleBlocksGrad(k) }),
	both(func(d interface{ MixNodes(MixNodes) }, k MixNodes) { d.MixNodes(k) },
		func(d interface{ MixNodesGrad(MixNodes) }, k MixNodes) { d.MixNodesGrad(k) }),
	both(func(d interface{ MeanNodes(MeanNodes) }, k MeanNodes) { d.MeanNodes(k) },
		func(d interface{ MeanNodesGrad(MeanNodes) }, k MeanNodes) { d.MeanNodesGrad(k) }),
	both(func(d interface{ WordGraph(WordGraph) }, k WordGraph) { d.WordGraph(k) },
		func(d interface{ WordGraphGrad(WordGraph) }, k WordGraph) { d.WordGraphGrad(k) }),
	plain(func(d interface{ Hinge(Hinge) }, k Hinge) { d.Hinge(k) }),
	plain(func(d interface{ SemanticMargins(SemanticMargins) }, k SemanticMargins) { d.SemanticMargins(k) }),
	plain(func(d interface{ UniversalWeighting(UniversalWeighting) }, k UniversalWeighting) {
		d.UniversalWeighting(k)
	}),
	plain(func(d interface{ SumSquares(SumSquares) }, k SumSquares) { d.SumSquares(k) }),
	plain(func(d interface{ SumSquaresFactored(SumSquaresFactored) }, k SumSquaresFactored) {
		d.SumSquaresFactored(k)
	}),
	plain(func(d interface{ ClipCoefficient(ClipCoefficient) }, k ClipCoefficient) { d.ClipCoefficient(k) }),
	plain(func(d interface{ Guard(Guard) }, k Guard) { d.Guard(k) }),
	plain(func(d interface{ Adam(Adam) }, k Adam) { d.Adam(k) }),
	plain(func(d interface{ AdamFactored(AdamFactored) }, k AdamFactored) { d.AdamFactored(k) }),
	plain(func(d interface{ Gather(Gather) }, k Gather) { d.Gather(k) }),
	plain(func(d interface{ GatherLists(GatherLists) }, k GatherLists) { d.GatherLists(k) }),
	plain(func(d interface{ AllReduce(AllReduce) }, k AllReduce) { d.AllReduce(k) }),
	plain(func(d interface{ Broadcast(Broadcast) }, k Broadcast) { d.Broadcast(k) }),
	some(func(d interface{ AllGather(AllGather) bool }, k AllGather) bool { return d.AllGather(k) }),
	some(func(d interface{ ReduceScatter(ReduceScatter) bool }, k ReduceScatter) bool {
		return d.ReduceScatter(k)
	}),
	plain(func(d interface{ Wait(Wait) }, k Wait) { d.Wait(k) }),
}

// kind is a type of kernel.
type kind struct {
	zero func() Kernel
	// of returns the function by which a value computes the kernel, nil if it has no method for it. The function
	// reports whether it computed the kernel.
	of func(methods any) func(Kernel) bool
}

// pointer is implemented by the pointer to a kernel.
type pointer[K any] interface {
	*K
	Kernel
}

// some is a kernel that devices compute only at some sizes, by one method that reports whether it did. The method
// computes the gradient too.
func some[D, K any, P pointer[K]](compute func(D, K) bool) kind {
	return kind{func() Kernel { return P(new(K)) }, func(methods any) func(Kernel) bool {
		d, ok := methods.(D)
		if !ok {
			return nil
		}
		return func(k Kernel) bool { return compute(d, *k.(P)) }
	}}
}

// plain is a kernel that one method computes, with its gradient, if it has one.
func plain[D, K any, P pointer[K]](compute func(D, K)) kind {
	return some[D, K, P](func(d D, k K) bool { compute(d, k); return true })
}

// both is a kernel whose gradient has its own method.
func both[D, G, K any, P interface {
	pointer[K]
	isGrad() bool
}](compute func(D, K), gradient func(G, K)) kind {
	return kind{func() Kernel { return P(new(K)) }, func(methods any) func(Kernel) bool {
		d, ok := methods.(D)
		g, has := methods.(G)
		if !ok || !has {
			return nil
		}
		return func(k Kernel) bool {
			if p := k.(P); p.isGrad() {
				gradient(g, *p)
			} else {
				compute(d, *p)
			}
			return true
		}
	}}
}

// Kernels lists one value of each kernel, for tests.
func Kernels() (all []Kernel) {
	for _, k := range kinds {
		all = append(all, k.zero())
	}
	return all
}

// KernelTable holds how a device computes kernels, by their types.
type KernelTable map[reflect.Type]func(Kernel) bool

// NewKernelTable finds the methods of some values that compute kernels. A method has the name of its kernel, for a
// gradient followed by Grad.
func NewKernelTable(values ...any) KernelTable {
	t := KernelTable{}
	for _, k := range kinds {
		for _, v := range values {
			if f := k.of(v); f != nil {
				t[reflect.TypeOf(k.zero())] = f
			}
		}
	}
	return t
}

// Do computes a kernel, or reports that the table has none.
func (t KernelTable) Do(k Kernel) bool {
	f := t[reflect.TypeOf(k)]
	return f != nil && f(k)
}

// NameOf names a kernel for people: "GRU", or "GRUGrad" with Grad.
func NameOf(k Kernel) string {
	v := reflect.Indirect(reflect.ValueOf(k))
	if g := v.FieldByName("Grad"); g.IsValid() && g.Kind() == reflect.Bool && g.Bool() {
		return v.Type().Name() + "Grad"
	}
	return v.Type().Name()
}

// Must computes a kernel on a device that has it. It panics otherwise: the program knows which kernels a device has.
func Must(d Device, k Kernel) {
	if !d.Do(k) {
		panic(fmt.Sprintf("%s has no kernel %s", d.Name(), NameOf(k)))
	}
}

// Do computes a kernel that is passed by value. To compute the same kernel often, keep it and call Must.
func Do[K any, P pointer[K]](d Device, k K) {
	do[K, P](d, k, false)
}

// DoGrad is Do of the gradient.
func DoGrad[K any, P interface {
	*K
	Kernel
	SetGrad(bool)
}](d Device, k K) {
	do[K, P](d, k, true)
}

func do[K any, P pointer[K]](d Device, k K, grad bool) {
	all, ok := pools.Load(reflect.TypeFor[K]())
	if !ok {
		all, _ = pools.LoadOrStore(reflect.TypeFor[K](), &sync.Pool{New: func() any { return new(K) }})
	}
	pool := all.(*sync.Pool)
	p := P(pool.Get().(*K))
	*p = k
	if grad {
		any(p).(interface{ SetGrad(bool) }).SetGrad(true)
	}
	Must(d, p)
	*p = *new(K) // which keeps no memory alive
	pool.Put((*K)(p))
}

// pools keep memory for the kernels of Do, so that calling one allocates nothing.
var pools sync.Map // of *sync.Pool, by type

// Wrapper is a device around another one.
type Wrapper interface{ Unwrap() Device }

// As returns a device as the interface T, if it or a device that it wraps implements T.
func As[T any](d Device) (found T, ok bool) {
	for {
		if found, ok = d.(T); ok {
			return found, true
		}
		w, wraps := d.(Wrapper)
		if !wraps {
			return found, false
		}
		d = w.Unwrap()
	}
}
