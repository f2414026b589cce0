package convert

import (
	"fmt"

	"vsetrain/internal/npy"
)

// Retype writes the array file src (float16, float32 or float64, [N, D] or [N, R, D]) to dst as dtype, row by row.
// Float16 halves the file and rounds to 11 bits; a value beyond its range (65504) or a value that is not finite is an
// error. dst may be src when force is set.
func Retype(src, dst string, dtype npy.DType, force bool, progress Progress) error {
	if dtype != npy.F32 && dtype != npy.F16 {
		return fmt.Errorf("convert: %s: feature type: expected f32 (%s) or f16 (%s), found %q", src, npy.F32, npy.F16,
			string(dtype))
	}
	if err := free(dst, force); err != nil {
		return fmt.Errorf("convert: %w", err)
	}
	in, err := npy.Open(src)
	if err != nil {
		return fmt.Errorf("convert: %w", err)
	}
	defer in.Close()
	if n := len(in.Shape); n != 2 && n != 3 || in.RowLen() > maxElements {
		return fmt.Errorf("convert: %s: expected rows of features, [N, D] or [N, R, D], found shape %v%s", src,
			in.Shape, npy.GridRemedy(in.Shape))
	}
	out, err := npy.Create(dst, dtype, in.Shape)
	if err != nil {
		return fmt.Errorf("convert: %w", err)
	}
	defer out.Abort()
	row, width := make([]float32, in.RowLen()), in.Shape[len(in.Shape)-1]
	for i := range in.Rows() {
		err := in.ReadRow(row, i)
		if err == nil {
			err = finite("features", row, max(1, width))
		}
		if err == nil {
			err = out.WriteFloat32(row)
		}
		if err != nil {
			return fmt.Errorf("convert: %s: row %d: %w", src, i, err)
		}
		progress.report("write", int64(i+1), int64(in.Rows()))
	}
	if err := out.Close(); err != nil {
		return fmt.Errorf("convert: %w", err)
	}
	return nil
}
