package cuda

import (
	"fmt"

	"vsetrain/internal/device"
	"vsetrain/internal/device/cuda/driver"
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

// Add implements device.Rows.
func (d *dev) Add(dst, a, b device.View) {
	y, x, z := d.floats("Add dst", dst, -1), d.exactly("Add a", a, dst.N), d.exactly("Add b", b, dst.N)
	if dst.N > 0 {
		d.each(kernelAdd, dst.N).ptr(y, x, z).long(dst.N)
	}
}

// Scale implements device.Rows.
func (d *dev) Scale(dst, x, factor device.View) {
	y, from, f := d.floats("Scale dst", dst, -1), d.exactly("Scale x", x, dst.N), d.floats("Scale factor", factor, 1)
	if dst.N > 0 {
		d.each(kernelScale, dst.N).ptr(y, from, f).long(dst.N)
	}
}

// Combine implements device.Pooling.
func (d *dev) Combine(dst, a, b device.View, alpha, beta float64) {
	y, x := d.floats("Combine dst", dst, -1), d.exactly("Combine a", a, dst.N)
	z := d.optional("Combine b", b, dst.N)
	if dst.N > 0 {
		d.each(kernelCombine, dst.N).ptr(y, x, z).float(alpha, beta).long(dst.N)
	}
}

// Activate implements device.Rows.
func (d *dev) Activate(f device.Activation, y, x device.View) {
	known("Activate", f)
	to, from := d.floats("Activate y", y, -1), d.exactly("Activate x", x, y.N)
	if y.N > 0 {
		d.each(kernelActivate, y.N).ptr(to, from).int(int(f)).long(y.N)
	}
}

// ActivateGrad implements device.Rows.
func (d *dev) ActivateGrad(f device.Activation, dx, x, y, dy device.View) {
	known("ActivateGrad", f)
	to, from := d.floats("ActivateGrad dx", dx, -1), d.exactly("ActivateGrad dy", dy, dx.N)
	of := x
	if f == device.Tanh || f == device.Sigmoid {
		of = y
	}
	at := d.exactly("ActivateGrad x or y", of, dx.N)
	if dx.N > 0 {
		d.each(kernelActivateGrad, dx.N).ptr(to, at, from).int(int(f)).long(dx.N)
	}
}

// BiasActivateGrad implements device.Rows.
func (d *dev) BiasActivateGrad(a device.BiasActivateArgs) {
	const what = "BiasActivateGrad"
	positive(what, a.N)
	known(what, a.F)
	if a.F == device.Tanh || a.F == device.Sigmoid {
		panic(fmt.Sprintf("cuda: %s: function %d, expected one whose slope is known from the input", what, a.F))
	}
	n, pieces := a.M*a.N, (a.M+columnPiece-1)/columnPiece
	x, dy := d.floats("BiasActivateGrad X", a.X, n), d.floats("BiasActivateGrad DY", a.DY, n)
	dx, y, dbias := d.floats("BiasActivateGrad DX", a.DX, n), d.optional("BiasActivateGrad Y", a.Y, n), d.optional("BiasActivateGrad DBias", a.DBias, a.N)
	part := dbias
	if pieces > 1 && dbias != 0 {
		part = d.need(scratchPanel, 4*pieces*a.N)
	}
	if n > 0 {
		dxCopy, yCopy := d.operandCopy(dx, n), d.operandCopy(y, n)
		d.start(kernelBiasActGrad, threads, (a.N+31)/32, pieces, 1).ptr(dx, y, dxCopy, yCopy, part, x, dy).int(int(a.F), a.M, a.N, columnPiece)
		d.fresh(dxCopy, dx, n)
		d.fresh(yCopy, y, n)
	}
	switch {
	case dbias == 0:
	case n == 0:
		d.fill(dbias, 4*a.N, 0)
	case pieces > 1:
		d.start(kernelColumnSum, threads, (a.N+31)/32, 1, 1).ptr(dbias, part).int(pieces, a.N).long(a.N).int(pieces)
	}
}

// known panics unless the kernels know a function: the numbers are those of elementwise.cu.
func known(what string, f device.Activation) {
	if f > device.GELU {
		panic(fmt.Sprintf("cuda: %s: unknown function %d", what, f))
	}
}

// SwapAxes implements device.Layouts.
func (d *dev) SwapAxes(dst, x device.View, a, b, inner int) {
	positive("SwapAxes", a, b, inner)
	n := a * b * inner
	d.each(kernelSwapAxes, n).ptr(d.floats("SwapAxes dst", dst, n), d.floats("SwapAxes x", x, n)).int(a, b, inner).long(n)
}

// ColumnSum implements device.Rows.
func (d *dev) ColumnSum(dst, x device.View, rows, cols int) {
	positive("ColumnSum cols", cols)
	to, from := d.floats("ColumnSum dst", dst, cols), d.floats("ColumnSum x", x, rows*cols)
	d.columnSum(to, from, rows, cols, cols)
}

// columnPiece is the number of rows that a block adds up.
const columnPiece = 128

// columnSum writes the column sums of x [rows, ld]: over pieces of rows, then over the pieces.
func (d *dev) columnSum(dst, x driver.Ptr, rows, cols, ld int) {
	if pieces := (rows + columnPiece - 1) / columnPiece; pieces > 1 {
		part := d.need(scratchPanel, 4*pieces*cols)
		d.start(kernelColumnSum, threads, (cols+31)/32, pieces, 1).ptr(part, x).int(rows, cols).long(ld).int(columnPiece)
		x, rows, ld = part, pieces, cols
	}
	d.start(kernelColumnSum, threads, (cols+31)/32, 1, 1).ptr(dst, x).int(rows, cols).long(ld).int(rows)
}
