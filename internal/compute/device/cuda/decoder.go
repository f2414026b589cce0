package cuda

import (
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda/driver"
)

var (
	kernelDecoderWeights = entryOf("decoder_weights")
	kernelDecoderSteps   = entryOf("decoder_steps")
	kernelDecoderGrads   = entryOf("decoder_grads")
	kernelDecoderSums    = entryOf("decoder_sums")
)

// The steps of a decoder on tensor cores (decoder_sm80.cu).
const (
	decoderWidth   = 512 // the greatest H, A and E, which have to be the same
	decoderRegions = 64  // the most regions of an image
)

// decoderBlocks are the blocks of a kernel of all steps: groups of units and parts of the sequences, in one or two
// kinds, each with so much shared memory.
type decoderBlocks struct{ x, y, shared int }

// decoderBlocks finds them for blocks of so many units and columns, of which summed are added at a time; x is 0 where
// they cannot run at once, or the sizes are others than the kernels have.
func (d *dev) decoderBlocks(k kernel, a *device.Decoder, units, kinds, columns, summed int) (s decoderBlocks) {
	h, batch := a.H, len(a.Lengths.Host)
	if d.tensor != tensorBF16 || h%32 != 0 || h > decoderWidth || a.A != h || a.E != h || a.R > decoderRegions ||
		batch == 0 {
		return s
	}
	groups := h / units
	s.y, s.shared = kinds, columns*2*h+summed*partOfSums
	s.x = groups * d.splitsAtOnce(k, batch, groups*kinds, s.shared)
	return s
}

// decoderOperands packs the weights, and returns them, memory of an operand of so many values for each sequence and of
// one of h, and the counter of barriers, which is 0.
func (d *dev) decoderOperands(a *device.Decoder, back bool, width int) (columns, first, second,
	arrived driver.Ptr) {
	h, rows := a.H, (len(a.Lengths.Host)+15)/16*16
	columns = d.need(scratchHidden, 2*7*h*h)
	first = d.need(scratchCarry, 2*rows*(width+h)+16)
	second = first + driver.Ptr(2*rows*width)
	arrived = second + driver.Ptr(2*rows*h)
	d.each(kernelDecoderWeights, 7*h*h/8).ptr(columns, d.pointer(a.WHH), d.pointer(a.WIH), d.pointer(a.Attend),
		arrived).int(h, a.LDWIH, a.LDAttend).flag(back)
	return columns, first, second, arrived
}

// DecoderSteps computes that kernel.
func (d *dev) DecoderSteps(a device.Decoder) bool {
	const state, context = 4 * tensorUnits, 3 * tensorUnits
	s := d.decoderBlocks(kernelDecoderSteps, &a, tensorUnits, 1, state+context, state)
	if s.x == 0 {
		return false
	}
	h := a.H
	columns, states, contexts, arrived := d.decoderOperands(&a, false, h)
	drop := d.drops(a.Drop)
	_, starts := d.starts(a.Lengths)
	steps := d.pack.Steps()
	d.atOnce(kernelDecoderSteps, s.x, s.y, s.shared).ptr(d.pointer(a.Gates), d.pointer(a.States), d.pointer(a.Prev),
		d.pointer(a.Query), d.pointer(a.Weights), d.pointer(a.Context), d.pointer(a.Keys), d.pointer(a.Regions),
		d.pointer(a.Score), d.pointer(a.Initial), d.pointer(a.BHH), columns, columns+driver.Ptr(2*4*h*h), states,
		contexts, arrived, starts).drops(&drop).int(steps, len(a.Lengths.Host), a.R, h)
	return true
}

// DecoderStepsGrad computes that kernel.
func (d *dev) DecoderStepsGrad(a device.Decoder) bool {
	const columns, deep = tensorSlopes, 3 + 1 // h values of the slopes, h of the query
	s := d.decoderBlocks(kernelDecoderGrads, &a, tensorSlopes, 2, deep*columns, columns)
	if s.x == 0 {
		return false
	}
	h, batch := a.H, len(a.Lengths.Host)
	weights, slopes, queries, arrived := d.decoderOperands(&a, true, 4*h)
	drop := d.drops(a.Drop)
	_, starts := d.starts(a.Lengths)
	rows, steps := d.pack.Rows(), d.pack.Steps()
	dContext := d.need(scratchSums, 4*rows*(h+a.R))
	dScores := at(dContext, rows*h)
	d.Fill(a.DInitial, 0)
	dQuery, keys, query, score := d.pointer(a.DQuery), d.pointer(a.Keys), d.pointer(a.Query), d.pointer(a.Score)
	d.atOnce(kernelDecoderGrads, s.x, s.y, s.shared).ptr(d.pointer(a.Gates), d.pointer(a.DInitial), dContext,
		dScores, dQuery, d.pointer(a.Prev), d.pointer(a.DStates), keys, d.pointer(a.Regions), query, score,
		d.pointer(a.Weights), weights, slopes, queries, arrived, starts).drops(&drop).int(steps, batch, a.R, h)
	d.columns(kernelDecoderSums, batch, h).ptr(d.pointer(a.DKeys), d.pointer(a.DRegions), d.pointer(a.DVector), keys,
		query, score, d.pointer(a.Weights), dScores, dContext, starts).int(steps, a.R, h)
	return true
}
