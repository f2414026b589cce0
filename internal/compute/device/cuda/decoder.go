package cuda

import (
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda/driver"
)

// The steps of a decoder on tensor cores (decoder_sm80.cu).
const (
	decoderWidth   = 512 // the largest H = A = E
	decoderRegions = 64  // of an image, at most
)

// decoderBlocks are the blocks of a kernel of all steps: groups of units times parts of the sequences, in one or two
// kinds, each with the given shared memory.
type decoderBlocks struct{ x, y, shared int }

// decoderBlocks returns blocks of that many units and columns, of which summed are added at a time. x is 0 if they
// cannot run at once, or if the kernels do not support the sizes.
func (d *dev) decoderBlocks(k string, a *device.Decoder, units, kinds, columns, summed int) (s decoderBlocks) {
	h, batch := a.H, len(a.Lengths.Host)
	if d.tensor != tensorBF16 || h%32 != 0 || h > decoderWidth || a.A != h || a.E != h || a.R > decoderRegions ||
		batch == 0 {
		return s
	}
	groups := h / units
	s.y, s.shared = kinds, columns*2*h+summed*partOfSums
	s.x = groups * d.splitsAtOnce(k, batch, groups*kinds, s.shared)
	if why := d.barred[k]; s.x == 0 && why != "" {
		for _, with := range [2]string{"decoder_weights", "decoder_sums"} {
			d.bar(with, "it is used with %s, and there %s", k, why)
		}
	}
	return s
}

// decoderOperands packs the weights. It returns them, memory for an operand of width values for each sequence and for
// one of h values, and the counter of barriers, which is 0.
func (d *dev) decoderOperands(a *device.Decoder, back bool, width int) (columns, first, second, arrived driver.Ptr) {
	h, rows := a.H, (len(a.Lengths.Host)+15)/16*16
	columns = d.need(scratchHidden, 2*7*h*h)
	first = d.need(scratchCarry, 2*rows*(width+h)+16)
	second = first + driver.Ptr(2*rows*width)
	arrived = second + driver.Ptr(2*rows*h)
	d.each("decoder_weights", 7*h*h/8).ptr(columns).of(a.WHH, a.WIH, a.Attend).ptr(arrived).
		int(h, a.LDWIH, a.LDAttend).flag(back)
	return columns, first, second, arrived
}

// Decoder computes the kernel if the GPU runs all blocks of a step at once.
func (d *dev) Decoder(a device.Decoder) bool {
	if a.Grad {
		return d.decodeBack(a)
	}
	const state, context = 4 * tensorUnits, 3 * tensorUnits
	s := d.decoderBlocks("decoder_steps", &a, tensorUnits, 1, state+context, state)
	if s.x == 0 {
		return false
	}
	h := a.H
	columns, states, contexts, arrived := d.decoderOperands(&a, false, h)
	drop := d.drops(a.Drop)
	_, starts := d.starts(a.Lengths)
	steps := d.pack.Steps()
	d.atOnce("decoder_steps", s.x, s.y, s.shared).
		of(a.Gates, a.States, a.Prev, a.Query, a.Weights, a.Context, a.Keys, a.Regions, a.Score, a.Initial, a.BHH).
		ptr(columns, columns+driver.Ptr(2*4*h*h), states, contexts, arrived, starts).drops(&drop).
		int(steps, len(a.Lengths.Host), a.R, h)
	return true
}

func (d *dev) decodeBack(a device.Decoder) bool {
	const columns, deep = tensorSlopes, 3 + 1 // h values of the slopes, h of the query
	s := d.decoderBlocks("decoder_grads", &a, tensorSlopes, 2, deep*columns, columns)
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
	d.Fill(device.Fill{Dst: a.DInitial})
	d.atOnce("decoder_grads", s.x, s.y, s.shared).of(a.Gates, a.DInitial).ptr(dContext, dScores).
		of(a.DQuery, a.Prev, a.DStates, a.Keys, a.Regions, a.Query, a.Score, a.Weights).
		ptr(weights, slopes, queries, arrived, starts).drops(&drop).int(steps, batch, a.R, h)
	d.columns("decoder_sums", batch, h).of(a.DKeys, a.DRegions, a.DVector, a.Keys, a.Query, a.Score, a.Weights).
		ptr(dScores, dContext, starts).int(steps, a.R, h)
	return true
}
