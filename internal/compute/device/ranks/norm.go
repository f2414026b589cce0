package ranks

import (
	"math"

	"vsetrain/internal/compute/device"
)

// Batch normalisation over the batches of all ranks. Forward, each rank takes the statistics of its own values, and the
// ranks exchange them with their counts, so that pieces may differ in size:
//
//	μ = Σ n_r μ_r / n    M = Σ M_r + n_r (μ_r - μ)²    M_r = Σ (x - μ_r)²
//
// Then each normalises its values as in evaluation. Back, they exchange the sums of dy and dy·x̂; the gradients of
// weights and biases stay sums over a rank's own values, for the ranks add them up with all others. Every rank combines
// in the order of the ranks, in float64, and so comes to the same bits.

// normal computes batch norms.
type normal[T float] struct{ *Device }

// exchange sends the values of a view to all ranks, and returns the values of each.
func exchange[T float](d *Device, own device.View) (all [][]T) {
	x := floats[T](d.scratch(gathered, d.ranks*own.N))
	d.try(func() error { return d.world.AllGather(x, floats[T](own)) })
	for rank := range d.ranks {
		all = append(all, x[rank*own.N:][:own.N])
	}
	return all
}

// The counts in front of what ranks exchange.
const (
	rowsOf  = iota // values of a channel
	itemsOf        // items with regions
	mostOf         // the most regions of an item
	counts
)

// begin sets the counts of this rank, and returns them followed by two rows of C values.
func (b normal[T]) begin(a *device.BatchNorm) (whole, first, second device.View) {
	whole = b.scratch(statistics, counts+2*a.C)
	x := floats[T](whole)
	x[rowsOf], x[itemsOf], x[mostOf] = T(a.Outer*a.Inner), 0, 0
	if a.Pad.Present() {
		for _, n := range a.Counts.Host {
			x[itemsOf], x[mostOf] = x[itemsOf]+1, max(x[mostOf], T(n))
		}
	}
	return whole, whole.Slice(counts, counts+a.C), whole.Slice(counts+a.C, counts+2*a.C)
}

// padding returns the number of padding rows of a rank if the largest item of all ranks has most rows.
func padding[T float](x []T, most T) float64 {
	if x[itemsOf] == 0 {
		return 0
	}
	return float64(most*x[itemsOf] - x[rowsOf])
}

// totals are the values of a channel on all ranks, padding rows included, these alone, and the most regions of an item.
func totals[T float](all [][]T) (n, pads float64, most T) {
	for _, x := range all {
		most = max(most, x[mostOf])
	}
	for _, x := range all {
		n, pads = n+float64(x[rowsOf]), pads+padding(x, most)
	}
	return n + pads, pads, most
}

// evaluation returns the kernel with given statistics, and without padding rows, which do not matter then.
func evaluation(a device.BatchNorm) device.BatchNorm {
	a.Train, a.Pads, a.Pad, a.DPad = false, 0, device.View{}, device.View{}
	return a
}

func (b normal[T]) forward(a device.BatchNorm) {
	whole, mean, variance := b.begin(&a)
	local := a
	local.Pads, local.Pad, local.Momentum, local.RunningMean, local.RunningVar = 0, device.View{}, 1, mean, variance
	device.Do(b.Device.Device, local)
	means, squares, inv := floats[T](mean), floats[T](variance), floats[T](a.InvStd)
	copy(means, floats[T](a.Mean)) // the running ones leave out what is not finite
	for c := range squares {
		if squares[c] *= max(1, T(a.Outer*a.Inner)-1); !(inv[c] > 0) {
			squares[c] = T(math.NaN())
		}
	}
	all := exchange[T](b.Device, whole)
	n, pads, _ := totals(all)
	pad, runningMean, runningVar := floats[T](a.Pad), floats[T](a.RunningMean), floats[T](a.RunningVar)
	for c := range means {
		m, sum := 0.0, 0.0
		for _, x := range all {
			m += float64(x[rowsOf]) * float64(x[counts+c])
		}
		if pads > 0 {
			m += pads * float64(pad[c])
		}
		m /= n
		for _, x := range all {
			sum += float64(x[counts+a.C+c]) + float64(x[rowsOf])*square(float64(x[counts+c])-m)
		}
		if pads > 0 {
			sum += pads * square(float64(pad[c])-m)
		}
		means[c], squares[c] = T(m), T(sum/n)
		if sum-sum == 0 { // else the step is lost, the running statistics are not
			runningMean[c] = T((1-a.Momentum)*float64(runningMean[c]) + a.Momentum*m)
			runningVar[c] = T((1-a.Momentum)*float64(runningVar[c]) + a.Momentum*sum/max(1, n-1))
		}
	}
	apply := evaluation(a)
	apply.RunningMean, apply.RunningVar = mean, variance
	device.Do(b.Device.Device, apply)
}

func square(x float64) float64 { return x * x }

func (b normal[T]) grad(a device.BatchNorm) {
	whole, dWeight, dBias := b.begin(&a)
	local := evaluation(a)
	local.DWeight, local.DBias = dWeight, dBias
	device.DoGrad(b.Device.Device, local) // DX becomes w·dy/σ
	copy(floats[T](a.DWeight), floats[T](dWeight))
	copy(floats[T](a.DBias), floats[T](dBias))
	all := exchange[T](b.Device, whole)
	n, _, most := totals(all)
	w, inv, mean := floats[T](a.Weight), floats[T](a.InvStd), floats[T](a.Mean)
	x, dx, pad, dPad := floats[T](a.X), floats[T](a.DX), floats[T](a.Pad), floats[T](a.DPad)
	for c := range a.C {
		var along, sum float64
		for _, x := range all {
			along, sum = along+float64(x[counts+c]), sum+float64(x[counts+a.C+c])
		}
		k := float64(w[c]) * float64(inv[c]) / n
		u, v := T(-k*float64(inv[c])*along), T(-k*sum)
		for o := 0; o < a.Outer && dx != nil; o++ {
			at := (o*a.C + c) * a.Inner
			for i := at; i < at+a.Inner; i++ {
				dx[i] += u*(x[i]-mean[c]) + v
			}
		}
		if dPad != nil {
			dPad[c] = 0
			if rows := padding(all[b.rank], most); rows > 0 {
				dPad[c] = T(rows) * (u*(pad[c]-mean[c]) + v)
			}
		}
	}
}
