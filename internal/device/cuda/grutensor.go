package cuda

import "vsetrain/internal/device/cuda/driver"

var (
	kernelGRUWeights    = entryOf("gru_weights")
	kernelGRUTensorStep = entryOf("gru_tensor_step")
	kernelGRUTensorGrad = entryOf("gru_tensor_grad")
)

// The steps of a large GRU on tensor cores (gru_sm80.cu): each is one kernel, the product with the recurrent weights
// and the gates. A kernel packs the weights once a pass.

const (
	// mostTensor is the greatest number of units. The weights of more are no longer in the L2 cache when a step needs
	// them, and its blocks read them several times.
	mostTensor = 1024

	tensorUnits  = 16 // of a block, forward
	tensorSlopes = 32 // of a block, back
)

// tensorSteps reports whether the steps of a layer are kernels on tensor cores. The lengths of the sequences have no
// say: a step of a recording is computed as one that is not recorded.
func (d *dev) tensorSteps(l *layer) bool { return d.tensor && l.h%32 == 0 && l.h <= mostTensor }

// tensorStep begins a step whose blocks have so many units. Sequences are divided into as many parts as give each
// multiprocessor of a large GPU a block (Limits.StepBlocks).
func (d *dev) tensorStep(k kernel, l *layer, units int) *command {
	groups := l.h / units
	splits := max(1, min(d.limits.StepBlocks/(groups*l.directions), (l.batch+15)/16))
	return d.start(k, threads, groups*splits, l.directions, 1)
}

// tensorWeights packs the recurrent weights as operands of rows times columns.
func (d *dev) tensorWeights(l *layer, rows, columns int, transposed bool) driver.Ptr {
	to, n := d.need(scratchHidden, 2*l.directions*rows*columns), rows*columns/8
	d.both(kernelGRUWeights, l, n).ptr(to, l.of[0].whh, l.of[1].whh).int(rows, columns).flag(transposed).long(n)
	return to
}

// places are where operands of the steps lie in turn, width values for each sequence, and room for so many floats
// behind them.
func (d *dev) places(l *layer, width, floats int) (of [2]driver.Ptr, behind driver.Ptr) {
	size := 2 * l.directions * ((l.batch + 15) / 16 * 16) * width
	first := d.need(scratchCarry, 2*size+4*floats)
	return [2]driver.Ptr{first, first + driver.Ptr(size)}, first + driver.Ptr(2*size)
}

func (d *dev) tensorForward(l *layer, y [2]driver.Ptr) {
	p, q, h := &l.of[0], &l.of[1], l.h
	weights := d.tensorWeights(l, 3*h, h, false)
	state, _ := d.places(l, h, 0)
	for done := range l.steps {
		d.tensorStep(kernelGRUTensorStep, l, tensorUnits).ptr(p.gates, q.gates, y[0], y[1], p.prev, q.prev,
			state[done%2], state[1-done%2], weights, p.bih, q.bih, p.bhh, q.bhh, l.starts).
			int(done, l.steps, l.rows, l.batch, h).flag(l.reverse)
	}
}

func (d *dev) tensorBackward(l *layer, dy, final driver.Ptr, scale float64) {
	p, q, h := &l.of[0], &l.of[1], l.h
	weights := d.tensorWeights(l, h, 3*h, true)
	slopes, carry := d.places(l, 3*h, l.directions*l.batch*h)
	for done := range l.steps {
		d.tensorStep(kernelGRUTensorGrad, l, tensorSlopes).ptr(p.gates, q.gates, slopes[done%2], slopes[1-done%2],
			carry, weights, p.prev, q.prev, dy, final, l.starts).float(scale).
			int(done, l.steps, l.rows, l.batch, h).flag(l.reverse)
	}
}
