package convert

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"vsetrain/internal/files/atomicfile"
	"vsetrain/internal/files/integrity"
	"vsetrain/internal/files/npy"
)

func init() {
	register(func(o *Options) *Format {
		var r RetypeOptions
		own := &struct {
			Mean bool `flag:"mean" usage:"store the mean of the regions of each image (.npy)" group:"Arrays"`
		}{}
		return &Format{Kind: ".npy", File: true,
			Help: `features to store in another type or with other axes; --out names the new file. --scale multiplies
them, as codes of uint8 need it; --grid makes the places of a grid [N, C, H, W] or [N, H, W, C] regions;
--squeeze drops axes of length 1; --mean stores the mean of the regions, one vector for an image`,
			Takes: "dtype scale grid squeeze",
			Own:   own,
			Check: func() error {
				r = RetypeOptions{DType: o.DType, Scale: o.Scale, Axes: o.Axes, Mean: own.Mean, Force: o.Force}
				return r.Validate()
			},
			Run: func(p Progress) (*Report, error) { return nil, Retype(o.Sources[0], o.Out, r, p) }}
	})
}

// RetypeOptions say what Retype makes of an array.
type RetypeOptions struct {
	DType npy.DType // npy.F32 or npy.F16
	// Scale multiplies all numbers; 0 takes floats as they are and refuses integers, whose meaning it would be.
	Scale float64
	Axes
	Mean  bool // the mean of the regions [N, R, D], added in their order in float32, as NumPy does: [N, D]
	Force bool // replace a file that exists
}

// Validate returns an error that names the first field that cannot be used.
func (o RetypeOptions) Validate() error {
	switch {
	case o.DType != npy.F32 && o.DType != npy.F16:
		return fmt.Errorf("convert: feature type: expected f32 (%s) or f16 (%s), found %q", npy.F32, npy.F16,
			string(o.DType))
	}
	if err := checkScale(o.Scale); err != nil {
		return err
	}
	return o.Axes.validate()
}

// checkScale returns an error for a number that is not a scale; 0 stands for none.
func checkScale(scale float64) error {
	if math.IsNaN(scale) || math.IsInf(scale, 0) || scale < 0 {
		return fmt.Errorf("convert: scale: expected a number > 0, found %v", scale)
	}
	return nil
}

// errCodes says that integers need a scale.
func errCodes(d npy.DType) error {
	return fmt.Errorf("found %s; its numbers stand for others: say with --scale what they are multiplied by; --scale "+
		"1 takes them as they are", d.Name())
}

// Retype writes the features of the array file src to dst in another type or with other axes, row by row.
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
	row, width := make([]float32, in.RowLen()), shape[len(shape)-1]
	if o.Mean {
		if shape, err = meanShape(src, shape); err != nil {
			return fmt.Errorf("convert: %s: %w", src, err)
		}
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
	turned := make([]float32, len(row))
	for i := range in.Rows() {
		err := read(row, i)
		if err == nil {
			row, turned = o.order(row, turned, width)
			err = finite("features", row, max(1, width))
		}
		if err == nil {
			whole := row
			if o.Mean {
				whole = meanOf(row, width)
			}
			err = out.WriteFloat32(whole)
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

// meanShape is the shape of the means of regions, whose padding may not be counted.
func meanShape(src string, shape []int) ([]int, error) {
	if len(shape) != 3 {
		return nil, fmt.Errorf("--mean: expected regions [N, R, D], found the shape %v", shape)
	}
	if base, ok := strings.CutSuffix(src, "_ims.npy"); ok {
		if _, err := os.Stat(base + "_lengths.npy"); err == nil {
			return nil, fmt.Errorf("--mean: expected as many regions in each image, found %s_lengths.npy, which says "+
				"which are padding; take arrays without padding", base)
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

// shape returns the shape of the result, and drops axes of the source.
func (o RetypeOptions) shape(in *npy.File) ([]int, error) {
	if o.Scale == 0 && in.Whole() {
		return nil, errCodes(in.DType)
	}
	squeezed, shape, err := o.features(in.Shape, false)
	if err == nil && !in.Fortran { // which cannot be read by rows, as their reader says
		err = in.Reshape(squeezed)
	}
	if err == nil && in.RowLen() > maxElements {
		err = fmt.Errorf("shape %v: expected at most %d values for an image", shape, maxElements)
	}
	return shape, err
}
