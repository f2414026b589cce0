package convert

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"vsetrain/internal/files/atomicfile"
	"vsetrain/internal/files/integrity"
	"vsetrain/internal/files/npy"
)

// errCodes returns the error of integers without a scale.
func errCodes(d npy.DType) error {
	return fmt.Errorf("found %s: integers need --scale, the number that they are multiplied by; --scale 1 keeps "+
		"them as they are", d.Name())
}

// retype writes the features of an array to Out in another type or with other axes, row by row. Float16 halves the file
// and rounds to 11 bits; a value beyond its range (65504) or a value that is not finite is an error. Out may be the
// source when Force is set.
func (c *conversion) retype() error {
	src := c.Sources[0]
	if err := free(c.Out, c.Force); err != nil {
		return err
	}
	in, err := npy.Open(src)
	if err != nil {
		return err
	}
	defer in.Close()
	shape, err := c.retypedShape(in)
	if err != nil {
		return fmt.Errorf("%s: %w", src, err)
	}
	if err := atomicfile.MkdirAll(filepath.Dir(c.Out)); err != nil {
		return err
	}
	row, width := make([]float32, in.RowLen()), shape[len(shape)-1]
	if c.Mean {
		if shape, err = meanShape(src, shape); err != nil {
			return fmt.Errorf("%s: %w", src, err)
		}
	}
	read := in.ReadRow
	if c.Scale != 0 {
		read = func(dst []float32, row int) error { return in.ReadScaled(dst, row, c.Scale) }
	}
	turned := make([]float32, len(row))
	set := &atomicfile.Set{}
	defer set.Abort()
	err = npy.Stage(set, c.Out, c.DType, shape, func(out *npy.Writer) error {
		for i := range in.Rows() {
			err := read(row, i)
			if err == nil {
				row, turned = c.order(row, turned, width)
				err = finite("features", row, max(1, width))
			}
			if err == nil && c.Mean {
				err = out.WriteFloat32(meanOf(row, width))
			} else if err == nil {
				err = out.WriteFloat32(row)
			}
			if err != nil {
				return fmt.Errorf("%s: row %d: %w", src, i, err)
			}
			c.progress.report("write", int64(i+1), int64(in.Rows()))
		}
		return nil
	})
	if err != nil {
		return err
	}
	return integrity.Commit(set)
}

// meanShape returns the shape of the means of regions. Padded regions are an error.
func meanShape(src string, shape []int) ([]int, error) {
	if len(shape) != 3 {
		return nil, fmt.Errorf("--mean: expected regions [N, R, D], found shape %v", shape)
	}
	if base, ok := strings.CutSuffix(src, "_ims.npy"); ok {
		if _, err := os.Stat(base + "_lengths.npy"); err == nil {
			return nil, fmt.Errorf("--mean: expected the same number of regions in each image, but %s_lengths.npy "+
				"says that some are padding; use arrays without padding", base)
		}
	}
	return []int{shape[0], shape[2]}, nil
}

// meanOf overwrites the first of the regions with the mean of all, and returns it.
func meanOf(regions []float32, width int) []float32 {
	mean := regions[:width]
	for at := width; at < len(regions); at += width {
		for i, v := range regions[at : at+width] {
			mean[i] += v
		}
	}
	for i := range mean {
		mean[i] /= float32(len(regions) / width)
	}
	return mean
}

// retypedShape returns the shape of the result, and drops axes of the source.
func (o *Options) retypedShape(in *npy.File) ([]int, error) {
	if o.Scale == 0 && in.Whole() {
		return nil, errCodes(in.DType)
	}
	squeezed, shape, err := o.Axes.features(in.Shape, false)
	if err == nil && !in.Fortran { // which cannot be read by rows, as their reader says
		err = in.Reshape(squeezed)
	}
	if err == nil && in.RowLen() > maxElements {
		err = fmt.Errorf("shape %v: expected at most %d values for an image", shape, maxElements)
	}
	return shape, err
}
