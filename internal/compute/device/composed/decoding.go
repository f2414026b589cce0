package composed

import "vsetrain/internal/compute/device"

// rowsOf returns the rows [start, start+n) of width values.
func rowsOf(v device.View, start, n, width int) device.View {
	return v.Slice(start*width, (start+n)*width)
}

func attentionOf(a *device.Decoder, start, n int) device.AdditiveAttention {
	return device.AdditiveAttention{B: n, R: a.R, H: a.A, E: a.E, Keys: a.Keys,
		Query: rowsOf(a.Query, start, n, a.A), Vector: a.Score, Values: a.Regions,
		Weights: rowsOf(a.Weights, start, n, a.R)}
}

// Decoder computes the steps one after the other.
func (k forms) Decoder(a device.Decoder) bool {
	if a.Grad {
		k.back(a)
	} else {
		k.steps(a)
	}
	return true
}

func (k forms) steps(a device.Decoder) {
	defer k.Give(k.Use())
	p, h, before := a.Lengths.Packing(), a.H, a.Initial
	hidden := k.Floats(len(a.Lengths.Host) * 3 * h)
	for t := range p.Steps() {
		n, start := p.Active(t), p.Start(t)
		at := attentionOf(&a, start, n)
		at.Context = rowsOf(a.Context, start, n, a.E)
		gates, now := rowsOf(a.Gates, start, n, 4*h), rowsOf(a.States, start, n, h)
		device.Do(k, device.Gemm{TransB: true, M: n, N: a.A, K: h, Alpha: 1, A: before, B: a.Attend, LDB: a.LDAttend,
			C: at.Query})
		device.Do(k, at)
		k.dropout(at.Context, a.Drop.Part(start, start+n), a.E)
		device.Do(k, device.Gemm{TransB: true, M: n, N: 3 * h, K: a.E, Alpha: 1, Beta: 1, A: at.Context, B: a.WIH,
			LDB: a.LDWIH, C: gates, LDC: 4 * h})
		device.Do(k, device.Gemm{TransB: true, M: n, N: 3 * h, K: h, Alpha: 1, A: before, B: a.WHH, C: hidden,
			Bias: a.BHH})
		device.Do(k, device.GRUCell{N: n, H: h, Gates: gates, Hidden: hidden, Before: before, Y: now,
			Prev: rowsOf(a.Prev, start, n, h)})
		before = now
	}
}

// back goes back through the steps. Each leaves the gradients of its gates, of its query and of its context,
// which the attention adds up.
func (k forms) back(a device.Decoder) {
	defer k.Give(k.Use())
	p, h, b := a.Lengths.Packing(), a.H, len(a.Lengths.Host)
	carry, dContext := k.Floats(b*h), k.Floats(b*a.E)
	for _, v := range []device.View{carry, a.DKeys, a.DVector, a.DRegions} {
		device.Do(k, device.Fill{Dst: v})
	}
	for t := p.Steps() - 1; t >= 0; t-- {
		n, start := p.Active(t), p.Start(t)
		gates, state := rowsOf(a.Gates, start, n, 4*h), carry.Slice(0, n*h)
		device.DoGrad(k, device.GRUCell{N: n, H: h, Gates: gates, Prev: rowsOf(a.Prev, start, n, h),
			DY: rowsOf(a.DStates, start, n, h), Carry: state})
		device.Do(k, device.Gemm{M: n, N: h, K: 3 * h, Alpha: 1, Beta: 1, A: from(gates, h), LDA: 4 * h, B: a.WHH,
			C: state})
		at := attentionOf(&a, start, n)
		at.DContext, at.DQuery = dContext.Slice(0, n*a.E), rowsOf(a.DQuery, start, n, a.A)
		at.DKeys, at.DValues, at.DVector = a.DKeys, a.DRegions, a.DVector
		device.Do(k, device.Gemm{M: n, N: a.E, K: 2 * h, Alpha: 1, A: from(gates, h), LDA: 4 * h, B: a.WIH,
			LDB: a.LDWIH, C: at.DContext})
		device.Do(k, device.Gemm{M: n, N: a.E, K: h, Alpha: 1, Beta: 1, A: gates, LDA: 4 * h,
			B: from(a.WIH, 2*h*a.LDWIH), LDB: a.LDWIH, C: at.DContext})
		k.dropout(at.DContext, a.Drop.Part(start, start+n), a.E)
		device.DoGrad(k, at)
		device.Do(k, device.Gemm{M: n, N: h, K: a.A, Alpha: 1, Beta: 1, A: at.DQuery, B: a.Attend, LDB: a.LDAttend,
			C: state})
	}
	device.Do(k, device.Copy{Dst: a.DInitial, Src: carry})
}

// from is v without its first n elements.
func from(v device.View, n int) device.View { return v.Slice(n, v.N) }

// dropout drops elements of x, rows of a width, in place.
func (k forms) dropout(x device.View, drop device.DropoutParams, width int) {
	if drop.Rate > 0 {
		device.Do(k, device.Dropout{DropoutParams: drop, Width: width, X: x, Y: x})
	}
}
