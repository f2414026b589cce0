package ranks

import (
	"math"

	"vsetrain/internal/compute/device"
)

// filtered computes filtrations (device.Filtrate), whose statistics are computed over a caption with the images of all
// ranks. The logits are normalised here; the kernel of the device computes the rest as in evaluation, with the mean 0
// and the variance 1.
type filtered[T float] struct{ *Device }

// each calls f for the nodes of every caption with every image.
func (f filtered[T]) each(a *device.Filtrate, do func(caption, node int)) {
	node := 0
	for range a.B {
		for c, n := range a.Lengths.Host {
			for range n + 1 {
				do(c, node)
				node++
			}
		}
	}
}

// begin returns scratch memory for the numbers of images and two numbers of each caption that ranks exchange.
func (f filtered[T]) begin(a *device.Filtrate) (whole device.View, first, second []T) {
	c := len(a.Lengths.Host)
	whole = f.scratch(statistics, 1+2*c)
	x := floats[T](whole)
	clear(x)
	x[0] = T(a.B)
	return whole, x[1 : 1+c], x[1+c:]
}

// standard is the kernel in evaluation on normalised logits.
func (f filtered[T]) standard(a device.Filtrate) device.Filtrate {
	captions, nodes := len(a.Lengths.Host), a.Logits.N
	z, fixed := f.scratch(values, nodes), f.scratch(running, 2+2*captions)
	x, to, mean, inv := floats[T](a.Logits), floats[T](z), floats[T](a.Mean), floats[T](a.InvStd)
	f.each(&a, func(c, i int) { to[i] = (x[i] - mean[c]) * inv[c] })
	constants := floats[T](fixed)
	clear(constants)
	constants[1] = 1
	for c := range captions {
		constants[2+captions+c] = 1
	}
	a.Train, a.Eps, a.Logits = false, 0, z
	a.RunningMean, a.RunningVar = fixed.Slice(0, 1), fixed.Slice(1, 2)
	a.Mean, a.InvStd = fixed.Slice(2, 2+captions), fixed.Slice(2+captions, 2+2*captions)
	return a
}

// cut cuts the logits to the nodes that are there.
func cut(a *device.Filtrate) {
	nodes := 0
	for _, n := range a.Lengths.Host {
		nodes += int(n) + 1
	}
	a.Logits = a.Logits.Slice(0, a.B*nodes)
	if a.Grad {
		a.DLogits = a.DLogits.Slice(0, a.B*nodes)
	}
}

func (f filtered[T]) forward(a device.Filtrate) {
	cut(&a)
	whole, means, squares := f.begin(&a)
	x := floats[T](a.Logits)
	sums, all := make([]float64, len(means)), make([]float64, len(means))
	f.each(&a, func(c, i int) { sums[c] += float64(x[i]) })
	for c, n := range a.Lengths.Host {
		sums[c] /= float64(a.B * (int(n) + 1))
		means[c] = T(sums[c])
	}
	f.each(&a, func(c, i int) { all[c] += square(float64(x[i]) - float64(means[c])) })
	for c, s := range all {
		squares[c] = T(s)
	}
	parts := exchange[T](f.Device, whole)
	mean, inv := floats[T](a.Mean), floats[T](a.InvStd)
	runningMean, runningVar := floats[T](a.RunningMean), floats[T](a.RunningVar)
	for c, length := range a.Lengths.Host { // one caption after the other
		var n, m, sum float64
		for _, p := range parts {
			own := float64(p[0]) * float64(length+1)
			n, m = n+own, m+own*float64(p[1+c])
		}
		m /= n
		for _, p := range parts {
			sum += float64(p[1+len(mean)+c]) + float64(p[0])*float64(length+1)*square(float64(p[1+c])-m)
		}
		mean[c], inv[c] = T(m), T(1/math.Sqrt(sum/n+a.Eps))
		runningMean[0] = T((1-a.Momentum)*float64(runningMean[0]) + a.Momentum*float64(mean[c]))
		if r := (1-a.Momentum)*float64(runningVar[0]) + a.Momentum*sum/max(1, n-1); r-r == 0 {
			runningVar[0] = T(r)
		}
	}
	device.Do(f.Device.Device, f.standard(a))
}

func (f filtered[T]) grad(a device.Filtrate) {
	cut(&a)
	local := f.standard(a)
	device.DoGrad(f.Device.Device, local)
	z, dz, inv := floats[T](local.Logits), floats[T](a.DLogits), floats[T](a.InvStd)
	whole, sums, along := f.begin(&a)
	f.each(&a, func(c, i int) { sums[c], along[c] = sums[c]+dz[i], along[c]+dz[i]*z[i] })
	parts := exchange[T](f.Device, whole)
	for c, length := range a.Lengths.Host {
		var n, sum, product float64
		for _, p := range parts {
			n += float64(p[0]) * float64(length+1)
			sum, product = sum+float64(p[1+c]), product+float64(p[1+len(sums)+c])
		}
		sums[c], along[c] = T(sum/n), T(product/n)
	}
	bias := 0.0
	f.each(&a, func(c, i int) {
		dz[i] = inv[c] * (dz[i] - sums[c] - z[i]*along[c])
		bias += float64(dz[i])
	})
	floats[T](a.DBias)[0] = T(bias)
}
