package cuda

import (
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda/driver"
)

func (d *dev) Add(a device.Add) {
	c, head := d.vectors("add", a.Dst, a.A, a.B)
	c.long(head, a.Dst.N)
}

func (d *dev) Scale(a device.Scale) {
	c, head := d.vectors("scale", a.Dst, a.X)
	c.of(a.Factor).long(head, a.Dst.N)
}

func (d *dev) Combine(a device.Combine) {
	c, head := d.vectors("combine", a.Dst, a.A, a.B)
	c.float(a.Alpha, a.Beta).long(head, a.Dst.N)
}

func (d *dev) Activate(a device.Activate) {
	c, head := d.vectors("activate", a.Y, a.X)
	c.int(int(a.F)).long(head, a.Y.N)
}

func (d *dev) ActivateGrad(a device.Activate) {
	of := a.X
	if a.F == device.Tanh || a.F == device.Sigmoid {
		of = a.Y
	}
	c, head := d.vectors("activate_grad", a.DX, of, a.DY)
	c.int(int(a.F)).long(head, a.DX.N)
}

// BiasActivate has blocks of at least activePiece rows, and no more blocks than a large GPU runs at once.
const (
	activePiece  = 32
	activeBlocks = 528
)

func (d *dev) BiasActivate(a device.BiasActivate) {
	n := a.M * a.N
	x, dy := d.pointer(a.X), d.pointer(a.DY)
	dx, y, dbias := d.pointer(a.DX), d.pointer(a.Y), d.pointer(a.DBias)
	most := max(1, activeBlocks/max(1, (a.N+127)/128)) // pieces, where a block has 128 columns
	piece := max(activePiece, ((a.M+most-1)/most+7)/8*8)
	pieces, part := (a.M+piece-1)/piece, dbias
	if pieces > 1 && dbias != 0 {
		part = d.need(scratchPanel, 4*pieces*a.N)
	}
	if n > 0 {
		dxCopy, yCopy := d.operandCopy(dx, n), d.operandCopy(y, n)
		d.activePieces(a.F, a.M, a.N, piece, values(dx, dxCopy, a.Operand), values(y, yCopy, a.Operand), dxCopy, yCopy,
			part, x, dy)
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

// activePieces calls the kernel of BiasActivate on pieces of piece rows.
func (d *dev) activePieces(f device.Activation, m, n, piece int, dx, y, dxCopy, yCopy, part, x, dy driver.Ptr) {
	columns, aligned := 32, inFours(n, dx, y, part, x, dy, 2*dxCopy, 2*yCopy)
	if aligned {
		columns *= 4
	}
	d.start("bias_activate_grad", threads, (n+columns-1)/columns, (m+piece-1)/piece, 1).
		ptr(dx, y, dxCopy, yCopy, part, x, dy).int(int(f), m, n, piece).flag(aligned)
}

func (d *dev) SwapAxes(a device.SwapAxes) {
	n := a.A * a.B * a.Inner
	d.each("swap_axes", n).of(a.Dst, a.X).int(a.A, a.B, a.Inner).long(n)
}

func (d *dev) ColumnSum(a device.ColumnSum) {
	d.roundingSum(d.pointer(a.Dst), d.pointer(a.X), a.Rows, a.Columns)
}

// roundingSum is columnSums of x [rows, cols]. It also rounds many rows: they are the gradient of a layer, which
// products read too.
func (d *dev) roundingSum(dst, x driver.Ptr, rows, cols int) {
	n := rows * cols
	if rows <= columnPiece || d.currentCopy(x, n) != 0 {
		d.columnSums(dst, 0, x, rows, cols)
		return
	}
	copy := d.operandCopy(x, n)
	d.columnSums(dst, copy, x, rows, cols)
	d.fresh(copy, x, n)
}

// columnPiece is the number of rows that a block adds up. A block takes more rows instead of more than mostPieces
// pieces, which few blocks add up.
const (
	columnPiece = 128
	mostPieces  = 320
)

// columnSums writes the column sums of x [rows, cols]: first of pieces of rows, then of the pieces. If copy is not 0
// and x has several pieces, it also writes x rounded to copy.
func (d *dev) columnSums(dst, copy, x driver.Ptr, rows, cols int) {
	piece := columnPiece
	for rows > piece*mostPieces {
		piece *= 2
	}
	if pieces := (rows + piece - 1) / piece; pieces > 1 {
		part := d.need(scratchPanel, 4*pieces*cols)
		d.columnPieces(part, copy, x, rows, cols, piece)
		x, rows = part, pieces
	}
	d.columnTotal(dst, 0, x, rows, cols, cols, cols)
}

// columnPieces writes the column sums of the pieces of x [rows, cols], and x rounded to copy if that is not 0.
func (d *dev) columnPieces(dst, copy, x driver.Ptr, rows, cols, piece int) {
	d.start("column_sum", threads, (cols+31)/32, (rows+piece-1)/piece, 1).ptr(dst, 0, copy, x).int(rows, cols, cols).
		long(cols).int(piece)
}

// columnTotal writes the column sums of few rows, those from column split on to rest if that is not 0.
func (d *dev) columnTotal(dst, rest, x driver.Ptr, rows, cols, split, ld int) {
	d.start("column_sum", threads, (cols+31)/32, 1, 1).ptr(dst, rest, 0, x).int(rows, cols, split).long(ld).int(rows)
}
