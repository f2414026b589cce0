package train

import (
	"errors"
	"fmt"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/graph"
	"vsetrain/models"
)

// average is the exponential moving average of the optimised weights over the updates of a run:
//
//	a_n = d_n a_{n-1} + (1 - d_n) w_n,    d_n = min(d, (n - 1) / (n + 8))
//
// w_n are the weights after update n, from 1. The average begins with the weights after the first update and soon
// forgets early weights. Running statistics are not averaged; the average uses the network's.
//
// Sources: B. Polyak, A. Juditsky, Acceleration of Stochastic Approximation by Averaging, 1992; TensorFlow's
// ExponentialMovingAverage with num_updates for the rise of d.
type average struct {
	decay  float64
	dev    device.Device
	params *graph.Params
	values device.View // as long as the optimised parameters
	piece  device.View // scratch memory
	factor device.View // [2] d_n and 1 - d_n
}

// averagePiece is the number of values that are averaged at a time.
const averagePiece = 1 << 20

func newAverage(dev device.Device, p *graph.Params, decay float64) (*average, error) {
	a := &average{decay: decay, dev: dev, params: p}
	n := p.OptimisedSize()
	err := errors.Join(device.AllocViews(dev, device.Float, n, &a.values),
		device.AllocViews(dev, device.Float, min(n, averagePiece), &a.piece),
		device.AllocViews(dev, device.Float, 2, &a.factor))
	if err != nil {
		return nil, fmt.Errorf("allocate the average of %d parameters (optim.ema): %w", n, err)
	}
	device.Do(dev, device.Fill{Dst: a.values})
	return a, nil
}

// count sets the factors of update n, from 1.
func (a *average) count(n int64) {
	d := min(a.decay, float64(n-1)/float64(n+8))
	a.dev.UploadDoubles(a.factor, []float64{d, 1 - d})
}

// update adds the weights that this rank has updated to the average.
func (a *average) update(parts []part) {
	for i := range parts {
		a.pieces(parts[i].from, parts[i].to, func(average, weights, scratch device.View) {
			device.Do(a.dev, device.Scale{Dst: average, X: average, Factor: a.factor.Slice(0, 1)})
			device.Do(a.dev, device.Scale{Dst: scratch, X: weights, Factor: a.factor.Slice(1, 2)})
			device.Do(a.dev, device.Add{Dst: average, A: average, B: scratch})
		})
	}
}

// exchange swaps the average and the weights.
func (a *average) exchange() {
	a.pieces(0, a.params.OptimisedSize(), func(average, weights, scratch device.View) {
		device.Do(a.dev, device.Copy{Dst: scratch, Src: weights})
		device.Do(a.dev, device.Copy{Dst: weights, Src: average})
		device.Do(a.dev, device.Copy{Dst: average, Src: scratch})
	})
}

func (a *average) pieces(from, to int, do func(average, weights, scratch device.View)) {
	for lo := from; lo < to; lo += averagePiece {
		hi := min(to, lo+averagePiece)
		do(a.values.Slice(lo, hi), a.params.Values().Slice(lo, hi), a.piece.Slice(0, hi-lo))
	}
}

// averaged are values with the average in place of the weights.
type averaged struct {
	models.Values
	*average
}

// DownloadFloats and DownloadDoubles implement models.Values.
func (a averaged) DownloadFloats(dst []float32, src device.View) {
	a.Values.DownloadFloats(dst, a.of(src))
}

func (a averaged) DownloadDoubles(dst []float64, src device.View) {
	a.Values.DownloadDoubles(dst, a.of(src))
}

// of returns the average of a view of weights, and other views as they are.
func (a averaged) of(v device.View) device.View {
	if w := a.params.Values(); v.Buf != w.Buf || v.Off >= w.N {
		return v
	}
	return a.values.Slice(v.Off, v.Off+v.N)
}
