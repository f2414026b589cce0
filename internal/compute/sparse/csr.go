// Package sparse holds compressed sparse row matrices, their products with dense blocks of vectors, and the truncated
// singular value decomposition of a sparse matrix.
//
// Why not gonum or james-bowman/sparse: neither has a truncated decomposition of a sparse matrix, and the captions of
// COCO as a dense matrix do not fit into memory.
package sparse

import (
	"errors"
	"fmt"
	"math"
)

// CSR is a sparse matrix [Rows, Cols]. Row r has the values Val[RowPtr[r]:RowPtr[r+1]] in the columns of the same
// places of Col, in increasing order.
type CSR struct {
	Rows, Cols int
	RowPtr     []int
	Col        []int32
	Val        []float64
}

// Row returns the columns and values of row r.
func (a *CSR) Row(r int) ([]int32, []float64) {
	lo, hi := a.RowPtr[r], a.RowPtr[r+1]
	return a.Col[lo:hi], a.Val[lo:hi]
}

// Check returns an error where the matrix breaks a rule of its type or holds a value that is not finite.
func (a *CSR) Check() error {
	if a.Rows < 0 || a.Cols < 0 || a.Cols > math.MaxInt32 || len(a.RowPtr) != a.Rows+1 {
		return fmt.Errorf("sparse matrix [%d, %d]: %d row pointers, expected rows + 1", a.Rows, a.Cols, len(a.RowPtr))
	}
	if a.RowPtr[0] != 0 || a.RowPtr[a.Rows] != len(a.Col) || len(a.Col) != len(a.Val) {
		return errors.New("sparse matrix: row pointers, columns and values differ in length")
	}
	for r := range a.Rows {
		if a.RowPtr[r] > a.RowPtr[r+1] || a.RowPtr[r+1] > len(a.Col) {
			return fmt.Errorf("sparse matrix: row %d ends before it starts", r)
		}
		cols, vals := a.Row(r)
		for i, c := range cols {
			if c < 0 || int(c) >= a.Cols || i > 0 && c <= cols[i-1] {
				return fmt.Errorf("sparse matrix: row %d: column %d out of order or outside [0, %d)", r, c, a.Cols)
			}
			if v := vals[i]; math.IsNaN(v) || math.IsInf(v, 0) {
				return fmt.Errorf("sparse matrix: row %d, column %d: value %v is not finite", r, c, v)
			}
		}
	}
	return nil
}

// Transpose returns the transposed matrix [Cols, Rows].
func (a *CSR) Transpose() *CSR {
	t := &CSR{Rows: a.Cols, Cols: a.Rows, RowPtr: make([]int, a.Cols+1), Col: make([]int32, len(a.Col)),
		Val: make([]float64, len(a.Val))}
	for _, c := range a.Col {
		t.RowPtr[c+1]++
	}
	for c := range a.Cols {
		t.RowPtr[c+1] += t.RowPtr[c]
	}
	next := append([]int(nil), t.RowPtr[:a.Cols]...)
	for r := range a.Rows {
		cols, vals := a.Row(r)
		for i, c := range cols {
			at := next[c]
			t.Col[at], t.Val[at] = int32(r), vals[i]
			next[c]++
		}
	}
	return t
}
