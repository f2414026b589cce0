package device

// Bytes returns the least memory that a kernel reads and writes: each view once, and only the rows of a table that the
// kernel reads. It counts neither scratch memory of the device nor repeated reads. float is the size of a Float in
// bytes.
func Bytes(k Kernel, float int) (n int64) {
	c := Checker{Visit: func(o Operand) View {
		values, size := o.N, float
		if o.Rule == Whole || o.Rule == Padded {
			values = o.View.N
		}
		if o.Type == Int32 {
			size = 4
		}
		if o.Part > 0 {
			values = min(values, o.Part)
		}
		if o.View.Present() {
			n += int64(size) * int64(values)
		}
		return o.View
	}}
	k.Views(&c)
	return n
}

// Flops returns the floating-point operations of the matrix products in the equations of a kernel, two for each
// multiply-add. A gradient has two products for each product of the forward kernel, less those that are not requested.
// Elementwise kernels have none. If lengths are bounds (Ints.Bounded), it returns the operations for the bounds.
func Flops(k Kernel) float64 {
	switch a := k.(type) {
	case *Gemm:
		return products(a.M, a.N, a.K, max(1, a.Batch))
	case *SumSquaresFactored:
		return products(a.N, a.N, a.O+a.I)
	case *AdamFactored:
		return products(a.N, a.O, a.I)
	case *SegmentProducts:
		return products(a.Counts.squares(Total(a.Counts.Host)), a.D)
	case *GRU:
		return gruFlops(&a.Gradient, Total(a.Lengths.Host), a.I, a.H, a.DX)
	case *BiGRU:
		return 2 * gruFlops(&a.Gradient, Total(a.Lengths.Host), a.I, a.H, a.DX)
	case *Decoder:
		rows := Total(a.Lengths.Host)
		return a.forBoth(products(rows, a.A, a.H), products(rows, 3*a.H, a.E), products(rows, 3*a.H, a.H),
			products(rows, a.R, a.A+a.E))
	case *AdditiveAttention:
		return a.forBoth(products(a.B, a.R, a.H+a.E))
	case *SelfAttention:
		return a.forBoth(2 * products(a.Lengths.squares(Total(a.Lengths.Host)), a.D))
	case *Similarities:
		if a.Global {
			return a.forBoth(products(a.B, len(a.Lengths.Host), a.E, a.S))
		}
		return a.forBoth(products(a.B, Total(a.Lengths.Host), a.E, a.R+a.S))
	case *FiltrateSimilarities:
		return Flops(&a.Words) + Flops(&a.Captions)
	case *GraphReason:
		return a.forBoth(reasoningFlops(a))
	case *CrossScores:
		return a.forBoth(products(a.B*a.R, Total(a.Lengths.Host), a.E))
	case *BlockMatch:
		return a.forBoth(2 * products(a.B, Total(a.Lengths.Host), a.R, a.E))
	}
	return 0
}

// products returns the operations of a product of these sizes.
func products(sizes ...int) float64 {
	n := 2.0
	for _, s := range sizes {
		n *= float64(s)
	}
	return n
}

// forBoth returns the operations of a kernel from those of its products, or twice as many for its gradient.
func (g *Gradient) forBoth(work ...float64) (n float64) {
	for _, w := range work {
		n += w
	}
	if g.Grad {
		return 2 * n
	}
	return n
}

func gruFlops(g *Gradient, rows, in, hidden int, dx View) float64 {
	input, state := products(rows, 3*hidden, in), products(rows, 3*hidden, hidden)
	if g.Grad && !dx.Present() {
		return input + 2*state
	}
	return g.forBoth(input, state)
}

// reasoningFlops counts X M, Y Xᵀ, E X and E Wᵀ of every pair, of the first node alone with First.
func reasoningFlops(a *GraphReason) (n float64) {
	for _, l := range a.Lengths.Host {
		nodes := int(l) + 1
		rows := nodes
		if a.First {
			rows = 1
		}
		n += products(a.B, rows, a.S, 2*a.S+2*nodes)
	}
	return n
}
