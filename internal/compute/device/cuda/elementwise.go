package cuda

import (
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda/driver"
)

var (
	kernelAdd          = entryOf("add")
	kernelScale        = entryOf("scale")
	kernelCombine      = entryOf("combine")
	kernelActivate     = entryOf("activate")
	kernelActivateGrad = entryOf("activate_grad")
	kernelBiasActGrad  = entryOf("bias_activate_grad")
	kernelSwapAxes     = entryOf("swap_axes")
	kernelColumnSum    = entryOf("column_sum")
)

// Add computes that kernel.
func (d *dev) Add(dst, a, b device.View) {
	y, x, z := d.pointer(dst), d.pointer(a), d.pointer(b)
	if dst.N > 0 {
		head := headOf(dst.N, y, x, z)
		d.fours(kernelAdd, head, dst.N).ptr(y, x, z).long(head, dst.N)
	}
}

// Scale computes that kernel.
func (d *dev) Scale(dst, x, factor device.View) {
	y, from, f := d.pointer(dst), d.pointer(x), d.pointer(factor)
	if dst.N > 0 {
		head := headOf(dst.N, y, from)
		d.fours(kernelScale, head, dst.N).ptr(y, from, f).long(head, dst.N)
	}
}

// Combine computes that kernel.
func (d *dev) Combine(dst, a, b device.View, alpha, beta float64) {
	y, x, z := d.pointer(dst), d.pointer(a), d.pointer(b)
	if dst.N > 0 {
		head := headOf(dst.N, y, x, z)
		d.fours(kernelCombine, head, dst.N).ptr(y, x, z).float(alpha, beta).long(head, dst.N)
	}
}

// Activate computes that kernel.
func (d *dev) Activate(f device.Activation, y, x device.View) {
	to, from := d.pointer(y), d.pointer(x)
	if y.N > 0 {
		head := headOf(y.N, to, from)
		d.fours(kernelActivate, head, y.N).ptr(to, from).int(int(f)).long(head, y.N)
	}
}

// ActivateGrad computes that kernel.
func (d *dev) ActivateGrad(f device.Activation, dx, x, y, dy device.View) {
	to, from := d.pointer(dx), d.pointer(dy)
	of := x
	if f == device.Tanh || f == device.Sigmoid {
		of = y
	}
	at := d.pointer(of)
	if dx.N > 0 {
		head := headOf(dx.N, to, at, from)
		d.fours(kernelActivateGrad, head, dx.N).ptr(to, at, from).int(int(f)).long(head, dx.N)
	}
}

// BiasActivateGrad computes that kernel.
func (d *dev) BiasActivateGrad(a device.BiasActivate) {
	n, pieces := a.M*a.N, (a.M+columnPiece-1)/columnPiece
	x, dy := d.pointer(a.X), d.pointer(a.DY)
	dx, y, dbias := d.pointer(a.DX), d.pointer(a.Y), d.pointer(a.DBias)
	part := dbias
	if pieces > 1 && dbias != 0 {
		part = d.need(scratchPanel, 4*pieces*a.N)
	}
	if n > 0 {
		dxCopy, yCopy := d.operandCopy(dx, n), d.operandCopy(y, n)
		d.start(kernelBiasActGrad, threads, (a.N+31)/32, pieces, 1).ptr(values(dx, dxCopy, a.Operand), values(y, yCopy,
			a.Operand), dxCopy, yCopy, part, x, dy).int(int(a.F), a.M, a.N, columnPiece)
		d.stored(dxCopy, dx, n, a.Operand)
		d.stored(yCopy, y, n, a.Operand)
	}
	switch {
	case dbias == 0:
	case n == 0:
		d.fill(dbias, 4*a.N, 0)
	case pieces > 1:
		d.columnTotal(dbias, 0, part, pieces, a.N, a.N, a.N)
	}
}

// SwapAxes computes that kernel.
func (d *dev) SwapAxes(dst, x device.View, a, b, inner int) {
	n := a * b * inner
	d.each(kernelSwapAxes, n).ptr(d.pointer(dst), d.pointer(x)).int(a, b, inner).long(n)
}

// ColumnSum computes that kernel.
func (d *dev) ColumnSum(dst, x device.View, rows, cols int) {
	d.roundingSum(d.pointer(dst), d.pointer(x), rows, cols)
}

// roundingSum is columnSum of x [rows, cols], which it also rounds where it has many rows: they are the gradient of a
// layer, which products read too.
func (d *dev) roundingSum(dst, x driver.Ptr, rows, cols int) {
	n := rows * cols
	if rows <= columnPiece || d.currentCopy(x, n) != 0 {
		d.columnSum(dst, x, rows, cols)
		return
	}
	copy := d.operandCopy(x, n)
	d.columnSums(dst, copy, x, rows, cols)
	d.fresh(copy, x, n)
}

// columnPiece is the number of rows that a block adds up.
const columnPiece = 128

// columnSum writes the column sums of x [rows, cols]: over pieces of rows, then over the pieces.
func (d *dev) columnSum(dst, x driver.Ptr, rows, cols int) { d.columnSums(dst, 0, x, rows, cols) }

// columnSums is columnSum, and writes copy, x rounded, where it is not 0 and x has several pieces.
func (d *dev) columnSums(dst, copy, x driver.Ptr, rows, cols int) {
	if pieces := (rows + columnPiece - 1) / columnPiece; pieces > 1 {
		part := d.need(scratchPanel, 4*pieces*cols)
		d.columnPieces(part, copy, x, rows, cols)
		x, rows = part, pieces
	}
	d.columnTotal(dst, 0, x, rows, cols, cols, cols)
}

// columnPieces writes the column sums of the pieces of x [rows, cols], and copy, x rounded, where it is not 0.
func (d *dev) columnPieces(dst, copy, x driver.Ptr, rows, cols int) {
	d.start(kernelColumnSum, threads, (cols+31)/32, (rows+columnPiece-1)/columnPiece, 1).ptr(dst, 0, copy,
		x).int(rows, cols, cols).long(cols).int(columnPiece)
}

// columnTotal writes the column sums of few rows, those of the columns from split on to rest where that is not 0.
func (d *dev) columnTotal(dst, rest, x driver.Ptr, rows, cols, split, ld int) {
	d.start(kernelColumnSum, threads, (cols+31)/32, 1, 1).ptr(dst, rest, 0, x).int(rows, cols, split).long(ld).int(rows)
}
