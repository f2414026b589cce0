package convert

import (
	"fmt"
	"math"
	"path/filepath"

	"vsetrain/internal/files/atomicfile"
	"vsetrain/internal/files/integrity"
	"vsetrain/internal/files/npy"
)

// RetypeOptions say what Retype makes of an array.
type RetypeOptions struct {
	DType npy.DType // npy.F32 or npy.F16
	// Scale multiplies all numbers; 0 takes floats as they are and refuses integers, whose meaning it would be.
	Scale float64
	Grid  string // axes of grids: "nchw", "nhwc", or "" where rows are vectors or regions
	Force bool   // replace a file that exists
}

// Validate returns an error that names the first field that cannot be used.
func (o RetypeOptions) Validate() error {
	switch {
	case o.DType != npy.F32 && o.DType != npy.F16:
		return fmt.Errorf("convert: feature type: expected f32 (%s) or f16 (%s), found %q", npy.F32, npy.F16,
			string(o.DType))
	case math.IsNaN(o.Scale) || math.IsInf(o.Scale, 0) || o.Scale < 0:
		return fmt.Errorf("convert: scale: expected a number > 0, found %v", o.Scale)
	case o.Grid != "" && o.Grid != "nchw" && o.Grid != "nhwc":
		return fmt.Errorf("convert: grid: expected nchw or nhwc, found %q", o.Grid)
	}
	return nil
}

// Retype writes the features of the array file src, [N, D], [N, R, D] or grids, to dst in another type, row by row.
// Float16 halves the file and rounds to 11 bits; a value beyond its range (65504) or a value that is not finite is an
// error. dst may be src when Force is set. Its folder is made where it is missing.
func Retype(src, dst string, o RetypeOptions, progress Progress) error {
	if err := o.Validate(); err != nil {
		return err
	}
	if err := free(dst, o.Force); err != nil {
		return fmt.Errorf("convert: %w", err)
	}
	in, err := npy.Open(src)
	if err != nil {
		return fmt.Errorf("convert: %w", err)
	}
	defer in.Close()
	shape, err := o.shape(in)
	if err != nil {
		return fmt.Errorf("convert: %s: %w", src, err)
	}
	if err := atomicfile.MkdirAll(filepath.Dir(dst)); err != nil {
		return fmt.Errorf("convert: %w", err)
	}
	out, err := npy.Create(dst, o.DType, shape)
	if err != nil {
		return fmt.Errorf("convert: %w", err)
	}
	defer out.Abort()
	read := in.ReadRow
	if o.Scale != 0 {
		read = func(dst []float32, row int) error { return in.ReadScaled(dst, row, o.Scale) }
	}
	row, width := make([]float32, in.RowLen()), shape[len(shape)-1]
	turned := make([]float32, len(row))
	for i := range in.Rows() {
		err := read(row, i)
		if err == nil && o.Grid == "nchw" {
			turn(turned, row, width)
			row, turned = turned, row
		}
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
	set := &atomicfile.Set{}
	f, err := out.Prepare()
	if err == nil {
		set.Add(f)
		err = integrity.Commit(set)
	}
	if err != nil {
		return fmt.Errorf("convert: %w", err)
	}
	return nil
}

// shape returns that of the result.
func (o RetypeOptions) shape(in *npy.File) ([]int, error) {
	s := in.Shape
	switch {
	case in.RowLen() > maxElements:
		return nil, fmt.Errorf("shape %v: expected at most %d values for an image", s, maxElements)
	case o.Scale == 0 && in.Whole():
		return nil, fmt.Errorf("found %s; its numbers stand for others: say with --scale what they are multiplied by; "+
			"--scale 1 takes them as they are", in.DType.Name())
	case o.Grid != "" && len(s) != 4:
		return nil, fmt.Errorf("shape %v; --grid %s expects 4 axes", s, o.Grid)
	case o.Grid == "nchw":
		return []int{s[0], s[2] * s[3], s[1]}, nil
	case o.Grid == "nhwc":
		return []int{s[0], s[1] * s[2], s[3]}, nil
	case len(s) != 2 && len(s) != 3:
		return nil, fmt.Errorf("expected rows of features, [N, D] or [N, R, D], found shape %v%s", s, npy.GridRemedy(s))
	}
	return s, nil
}

// turn writes the values [width, R] of a grid as regions [R, width].
func turn(dst, src []float32, width int) {
	regions := len(src) / max(1, width)
	for c := range width {
		for r := range regions {
			dst[r*width+c] = src[c*regions+r]
		}
	}
}
