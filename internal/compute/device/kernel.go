package device

import (
	"fmt"
	"reflect"
	"sync"
)

// Kernel is one computation of a device: a pointer to one of the structs of this package, whose comment defines it.
type Kernel interface {
	// Views declares the views of the kernel, each with the size that the other fields give it, and refuses numbers
	// that no device takes.
	Views(c *Checker)
}

// Gradient is part of the kernels that have a gradient: with Grad it is the gradient that is computed.
type Gradient struct{ Grad bool }

// SetGrad sets Grad.
func (g *Gradient) SetGrad(grad bool) { g.Grad = grad }

func (g *Gradient) isGrad() bool { return g.Grad }

// Kernels lists one value of each kernel, for tests.
func Kernels() []Kernel {
	return []Kernel{
		&Gemm{}, &Combine{}, &Add{}, &Scale{}, &Activate{}, &ColumnSum{}, &BiasActivate{}, &Fill{}, &Copy{},
		&SwapAxes{}, &Multiply{}, &Map{}, &Reduce{}, &SegmentProducts{}, &SegmentMeans{}, &UnpackWords{},
		&GatherWords{}, &Dropout{}, &L2Norm{}, &OrderScores{}, &BatchNorm{}, &PoolWeights{}, &SortPool{}, &GatedPool{},
		&GRU{}, &BiGRU{}, &GRUCell{}, &AdditiveAttention{}, &Decoder{}, &CrossEntropy{}, &Embed{},
		&LayerNorm{}, &SelfAttention{}, &PairAttention{}, &Similarities{}, &GraphReason{}, &Filtrate{},
		&FiltrateSimilarities{}, &BlockMatch{}, &PolarWeights{}, &ScaleBlocks{}, &MixNodes{}, &MeanNodes{},
		&WordGraph{}, &Hinge{}, &SemanticMargins{}, &UniversalWeighting{}, &SumSquares{}, &SumSquaresFactored{},
		&ClipCoefficient{}, &Guard{}, &Adam{}, &AdamFactored{}, &Gather{}, &GatherLists{},
		&AllReduce{}, &Broadcast{}, &AllGather{}, &ReduceScatter{}, &Join{},
	}
}

// NameOf names a kernel for people: "GRU", or "GRUGrad" with Grad.
func NameOf(k Kernel) string {
	v := reflect.Indirect(reflect.ValueOf(k))
	if g := v.FieldByName("Grad"); g.IsValid() && g.Kind() == reflect.Bool && g.Bool() {
		return v.Type().Name() + "Grad"
	}
	return v.Type().Name()
}

// Must computes a kernel on a device that has it, or panics: which kernels a device has is known before it runs.
func Must(d Device, k Kernel) {
	if !d.Do(k) {
		panic(fmt.Sprintf("%s has no kernel %s", d.Name(), NameOf(k)))
	}
}

// Do computes a kernel that is given by value. Who computes the same one often keeps it, and calls Must.
func Do[K any, P interface {
	*K
	Kernel
}](d Device, k K) {
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

func do[K any, P interface {
	*K
	Kernel
}](d Device, k K, grad bool) {
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

// KernelTable holds how a device computes kernels, by their types.
type KernelTable map[reflect.Type]func(Kernel) bool

// Do computes a kernel, or reports that the table has none.
func (t KernelTable) Do(k Kernel) bool {
	f := t[reflect.TypeOf(k)]
	return f != nil && f(k)
}

// Has puts a kernel into a table.
func Has[K any, P interface {
	*K
	Kernel
}](t KernelTable, itself func(K)) {
	HasSome[K, P](t, func(k K) bool { itself(k); return true })
}

// HasGrad is Has of a kernel and of its gradient.
func HasGrad[K any, P interface {
	*K
	Kernel
	isGrad() bool
}](t KernelTable, itself, gradient func(K)) {
	t[reflect.TypeFor[P]()] = func(k Kernel) bool {
		if p := k.(P); p.isGrad() {
			gradient(*p)
		} else {
			itself(*p)
		}
		return true
	}
}

// HasSome is Has of a kernel that is computed at some sizes alone: itself reports whether it was.
func HasSome[K any, P interface {
	*K
	Kernel
}](t KernelTable, itself func(K) bool) {
	t[reflect.TypeFor[P]()] = func(k Kernel) bool { return itself(*k.(P)) }
}

// pools keep memory for the kernels of Do, so that calling one allocates nothing.
var pools sync.Map // of *sync.Pool, by type

// Wrapper is a device around another one.
type Wrapper interface{ Unwrap() Device }

// As finds an interface that a device implements, or the device that it wraps.
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
