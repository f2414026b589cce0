package data

// RowSource is a matrix that is read row by row, such as a memory-mapped .npy file.
type RowSource interface {
	Rows() int
	RowLen() int
	ReadRow(dst []float32, row int) error
}

// floatRows is a RowSource in memory.
type floatRows struct {
	values []float64
	width  int
}

func (f *floatRows) Rows() int   { return len(f.values) / f.width }
func (f *floatRows) RowLen() int { return f.width }
func (f *floatRows) ReadRow(dst []float32, row int) error {
	for i, v := range f.values[row*f.width : (row+1)*f.width] {
		dst[i] = float32(v)
	}
	return nil
}
