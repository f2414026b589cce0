package cuda

import "vsetrain/internal/compute/device/cuda/driver"

// The steps of a large GRU on tensor cores (grusteps.cuh). A kernel packs the weights once a pass. Then all steps are
// one kernel where the GPU runs its blocks at once, each with its columns of the weights in shared memory. Elsewhere
// each step is one kernel, the product with the recurrent weights and the gates. The bits are the same.

const (
	// mostTensor is the greatest number of units. The weights of more are no longer in the L2 cache when a step needs
	// them, and its blocks read them several times.
	mostTensor = 1024

	tensorUnits  = 16 // of a block, forward
	tensorSlopes = 32 // of a block, back, in bfloat16; half of that in TF32
)

// bytes is what that many values take as operands.
func (t tensor) bytes(values int) int { return 4 / t.each() * values }

// slopes is the number of units of a block, back.
func (t tensor) slopes() int { return tensorSlopes / 2 * t.each() }

// columns is the shared memory of a block with that many columns of the weights, as deep as that, and the parts of the
// sums.
func (t tensor) columns(columns, depth int) int { return columns * (t.bytes(depth) + partOfSums) }

// tensorSteps reports whether the steps of a layer one way are kernels on tensor cores, whose blocks have that many
// columns of the weights, as deep as that. In TF32 they are where the columns fit shared memory, so that all steps can
// be one kernel: operands are twice as large, and kernels that read all of them in every step take longer than products
// do. The lengths of the sequences have no say: a step of a recording is computed as one that is not recorded.
func (d *dev) tensorSteps(l *layer, columns, depth int) bool {
	return d.tensor != tensorNone && l.h%32 == 0 && l.h <= mostTensor &&
		(d.tensor == tensorBF16 || d.tensor.columns(columns, depth) <= d.info.MaxSharedBytesPerBlock)
}

// splits is how many parts the sequences are divided into, with that many groups of blocks for each: as many as give
// each multiprocessor of a large GPU a block (Limits.StepBlocks).
func (d *dev) splits(batch, groups int) int {
	return max(1, min(d.limits.StepBlocks/groups, (batch+15)/16))
}

// tensorStep begins a step whose blocks have that many units.
func (d *dev) tensorStep(k string, l *layer, units int) *command {
	groups := l.h / units
	return d.start(k, threads, groups*d.splits(l.batch, groups*l.directions), l.directions, 1)
}

// splitsAtOnce is splits for a kernel whose blocks have to run at once, with so much shared memory each: 0 where they
// cannot.
func (d *dev) splitsAtOnce(k string, batch, groups, shared int) int {
	return min(d.splits(batch, groups), d.blocksAtOnce(k, shared)/groups)
}

// atOnce begins a kernel whose blocks run at once.
func (d *dev) atOnce(k string, x, y, shared int) *command {
	d.together = d.together || d.recording
	c := d.start(k, threads, x, y, 1)
	c.launch.Shared, c.launch.Together = uint32(shared), true
	return c
}

// partOfSums are the bytes that each column of a block takes in shared memory, beside its values, for the parts of its
// sums: of each warp 16 float32.
const partOfSums = threads / 32 * 4 * 16

// allSteps begins all steps as one kernel, nil where its blocks, with that many units, cannot run at once. Each block
// has the weights of that many columns, which are as deep as that, and the parts of the sums in shared memory.
func (d *dev) allSteps(k string, l *layer, units, columns, depth int) *command {
	groups, shared := l.h/units, d.tensor.columns(columns, depth)
	splits := d.splitsAtOnce(k, l.batch, groups*l.directions, shared)
	if splits == 0 {
		return nil
	}
	return d.atOnce(k, groups*splits, l.directions, shared)
}

// tensorWeights packs the recurrent weights as operands of rows times columns, and sets the counters to 0.
func (d *dev) tensorWeights(l *layer, arrived driver.Ptr, rows, columns int, transposed bool) driver.Ptr {
	to, n := d.need(scratchHidden, d.tensor.bytes(l.directions*rows*columns)), d.tensor.bytes(rows*columns)/16
	d.both("gru_weights", l, n).ptr(to, l.of[0].whh, l.of[1].whh, arrived).int(rows, columns).
		flag(transposed).long(n)
	return to
}

// places are where operands of the steps lie in turn, width values for each sequence, the counters of the barriers
// between the steps of each direction, and room for that many floats after them.
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
