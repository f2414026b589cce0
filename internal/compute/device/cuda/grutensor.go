package cuda

import "vsetrain/internal/compute/device/cuda/driver"

// The steps of a large GRU on tensor cores (grusteps.cuh). A kernel packs the weights once a pass. If the GPU runs all
// blocks at once, each with its columns of the weights in shared memory, all steps are one kernel. Otherwise each step
// is one kernel: the product with the recurrent weights and the gates. The bits are the same.

const (
	// mostTensor is the largest number of units. The weights of more units do not stay in the L2 cache until the next
	// step, whose blocks read them several times.
	mostTensor = 1024

	tensorUnits  = 16 // of a block, forward
	tensorSlopes = 32 // of a block, back, in bfloat16; half of that in TF32
)

// bytes is the size of values as operands.
func (t tensor) bytes(values int) int { return 4 / t.each() * values }

// slopes is the number of units of a block, back.
func (t tensor) slopes() int { return tensorSlopes / 2 * t.each() }

// columns is the shared memory of a block: columns of the weights of the given depth, and the parts of the sums.
func (t tensor) columns(columns, depth int) int { return columns * (t.bytes(depth) + partOfSums) }

// tensorSteps reports whether kernels on tensor cores compute the steps of a pass, with blocks of that many columns of
// the weights of the given depth. In TF32 the columns must fit into shared memory, so that all steps can be one kernel:
// operands are twice as large, and kernels that read all of them in every step are slower than products. The decision
// does not depend on lengths, so recorded and unrecorded steps decide alike.
func (d *dev) tensorSteps(l *layer, columns, depth int) bool {
	return d.tensor != tensorNone && l.h%32 == 0 && l.h <= mostTensor &&
		(d.tensor == tensorBF16 || d.tensor.columns(columns, depth) <= d.info.MaxSharedBytesPerBlock)
}

// splits is the number of parts into which the sequences are divided, each with that many groups of blocks, so that
// each multiprocessor of a large GPU has a block (Limits.StepBlocks).
func (d *dev) splits(batch, groups int) int {
	return max(1, min(d.limits.StepBlocks/groups, (batch+15)/16))
}

// tensorStep begins the call of a step whose blocks have that many units.
func (d *dev) tensorStep(k string, l *layer, units int) *command {
	groups := l.h / units
	return d.start(k, threads, groups*d.splits(l.batch, groups*l.directions), l.directions, 1)
}

// splitsAtOnce is splits for a kernel whose blocks must run at once, with that much shared memory each: 0 if they
// cannot.
func (d *dev) splitsAtOnce(k string, batch, groups, shared int) int {
	return min(d.splits(batch, groups), d.blocksAtOnce(k, shared)/groups)
}

// atOnce begins the call of a kernel whose blocks run at once.
func (d *dev) atOnce(k string, x, y, shared int) *command {
	d.together = d.together || d.recording
	c := d.start(k, threads, x, y, 1)
	c.launch.Shared, c.launch.Together = uint32(shared), true
	return c
}

// partOfSums is the shared memory of a column of a block for the parts of its sums: 16 float32 for each warp.
const partOfSums = threads / 32 * 4 * 16

// allSteps begins all steps as one kernel whose blocks have that many units, or returns nil if the blocks cannot run at
// once. Shared memory holds columns of the weights of the given depth, and the parts of the sums.
func (d *dev) allSteps(k string, l *layer, units, columns, depth int) *command {
	groups, shared := l.h/units, d.tensor.columns(columns, depth)
	splits := d.splitsAtOnce(k, l.batch, groups*l.directions, shared)
	if splits == 0 {
		return nil
	}
	return d.atOnce(k, groups*splits, l.directions, shared)
}

// tensorWeights packs the recurrent weights as operands [rows, columns], and sets the counters to 0.
func (d *dev) tensorWeights(l *layer, arrived driver.Ptr, rows, columns int, transposed bool) driver.Ptr {
	to, n := d.need(scratchHidden, d.tensor.bytes(l.directions*rows*columns)), d.tensor.bytes(rows*columns)/16
	d.both("gru_weights", l, n).ptr(to, l.of[0].whh, l.of[1].whh, arrived).int(rows, columns).
		flag(transposed).long(n)
	return to
}

// places are the two places that operands of the steps use in turn, width values for each sequence, the counters of the
// barriers between the steps of each direction, and room for that many floats after them.
func (d *dev) places(l *layer, width, floats int) (of [2]driver.Ptr, arrived, behind driver.Ptr) {
	size := d.tensor.bytes(l.directions * ((l.batch + 15) / 16 * 16) * width)
	first := d.need(scratchCarry, 2*size+16+4*floats)
	arrived = first + driver.Ptr(2*size)
	return [2]driver.Ptr{first, first + driver.Ptr(size)}, arrived, arrived + 16
}

func (d *dev) tensorForward(l *layer, y [2]driver.Ptr) {
	p, q, h := &l.of[0], &l.of[1], l.h
	state, arrived, _ := d.places(l, h, 0)
	weights := d.tensorWeights(l, arrived, 3*h, h, false)
	if c := d.allSteps("gru_tensor_steps", l, tensorUnits, 3*tensorUnits, h); c != nil {
		c.ptr(p.gates, q.gates, y[0], y[1], p.prev, q.prev, state[0], state[1], weights, p.bih, q.bih, p.bhh, q.bhh,
			arrived, l.starts).int(l.steps, l.rows, l.batch, h).flag(l.reverse)
		return
	}
	for done := range l.steps {
		d.tensorStep("gru_tensor_step", l, tensorUnits).ptr(p.gates, q.gates, y[0], y[1], p.prev, q.prev,
			state[done%2], state[1-done%2], weights, p.bih, q.bih, p.bhh, q.bhh, l.starts).
			int(done, l.steps, l.rows, l.batch, h).flag(l.reverse)
	}
}

func (d *dev) tensorBackward(l *layer, dy, final driver.Ptr, scale float64) {
	p, q, h := &l.of[0], &l.of[1], l.h
	units := d.tensor.slopes()
	slopes, arrived, carry := d.places(l, 3*h, l.directions*l.batch*h)
	weights := d.tensorWeights(l, arrived, h, 3*h, true)
	if c := d.allSteps("gru_tensor_grads", l, units, units, 3*h); c != nil {
		c.ptr(p.gates, q.gates, slopes[0], slopes[1], carry, weights, p.prev, q.prev, dy, final, arrived,
			l.starts).float(scale).int(l.steps, l.rows, l.batch, h).flag(l.reverse)
		return
	}
	for done := range l.steps {
		d.tensorStep("gru_tensor_grad", l, units).ptr(p.gates, q.gates, slopes[done%2], slopes[1-done%2],
			carry, weights, p.prev, q.prev, dy, final, l.starts).float(scale).
			int(done, l.steps, l.rows, l.batch, h).flag(l.reverse)
	}
}
