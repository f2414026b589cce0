package npy

import (
	"fmt"
	"slices"
	"strings"

	"vsetrain/internal/files/elements"
	"vsetrain/internal/files/regular"
)

// Reading is a command that makes features of an array whose axes are not the axes of features.
type Reading struct {
	Flags string // of data convert
	Does  string // for a message: "drops axis 1"
	Shape []int  // of the result
}

// Readings returns how data convert can make features, [N, R, D] or [N, D], of an array of other axes; where one is
// set, of the array of one image, [R, D] or [D]. It names what the lengths allow and prefers none: four axes longer
// than 1 may be a grid in either order. There is none where more axes are longer than 1.
func Readings(shape []int, one bool) (list []Reading) {
	lead := 1 // axes in front of the axes of an image
	if one {
		lead = 0
	}
	var ones, rest []int
	for i, n := range shape {
		if i >= lead && n == 1 {
			ones = append(ones, i)
		} else {
			rest = append(rest, n)
		}
	}
	add := func(drop, shape []int, grid, does string) {
		var flags, texts []string
		if len(drop) > 0 {
			axes := strings.Trim(fmt.Sprint(drop), "[]")
			flags = append(flags, "--squeeze "+strings.ReplaceAll(axes, " ", ","))
			texts = append(texts, "drops axis "+strings.ReplaceAll(axes, " ", ", axis "))
		}
		if grid != "" {
			flags = append(flags, "--grid "+grid)
		}
		if does != "" {
			texts = append(texts, does)
		}
		list = append(list, Reading{strings.Join(flags, " "), strings.Join(texts, ", "), shape})
	}
	grids := func(drop, rest []int) {
		n, g, names := rest[:lead], rest[lead:], strings.Repeat("N, ", lead)
		add(drop, slices.Concat(n, []int{g[1] * g[2], g[0]}), "nchw", "takes the axes for ["+names+"C, H, W]")
		add(drop, slices.Concat(n, []int{g[0] * g[1], g[2]}), "nhwc", "takes the axes for ["+names+"H, W, C]")
	}
	first := append([]int{0}, ones...) // to be dropped where images lie along a later axis
	switch values := len(rest) - lead; {
	case len(shape) < 3+lead || values < 1:
	case lead == 1 && shape[0] == 1 && values == 3:
		add(first, rest[1:], "", fmt.Sprintf("for %d images", rest[1]))
	case lead == 1 && shape[0] == 1 && values == 4:
		grids(first, rest[1:])
	case lead == 1 && shape[0] == 1 && values == 2:
		add(ones, rest, "", fmt.Sprintf("for one image of %d regions", rest[1]))
		add(first, rest[1:], "", fmt.Sprintf("for %d images of one vector", rest[1]))
	case values < 3:
		add(ones, rest, "", "")
	case values == 3:
		grids(ones, rest)
	}
	return list
}

// AxesRemedy says which commands make features of the array at path, and what each does. It begins with a semicolon.
func AxesRemedy(path string, shape []int) string {
	var b strings.Builder
	readings := Readings(shape, false)
	if len(readings) == 0 {
		return "; no command knows what its axes stand for: reshape it in Python"
	}
	for _, r := range readings {
		fmt.Fprintf(&b, "; `vsetrain data convert %s --out NEW.npy %s` %s: %v", regular.Quote(path), r.Flags, r.Does,
			r.Shape)
	}
	return b.String()
}

// Reshape gives an open array in C order another shape of as many elements.
func (f *File) Reshape(shape []int) error {
	n, err := elements.Count(shape, f.DType.Size())
	if err != nil || len(shape) == 0 || n != f.rows*f.rowLen || f.Fortran {
		return fmt.Errorf("npy: %s: shape %v cannot become %v", f.Path, f.Shape, shape)
	}
	f.Shape, f.rows, f.rowLen = slices.Clone(shape), shape[0], 1
	for _, d := range shape[1:] {
		f.rowLen *= d
	}
	return nil
}
