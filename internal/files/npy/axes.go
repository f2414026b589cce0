package npy

import (
	"fmt"
	"slices"
	"strings"

	"vsetrain/internal/files/elements"
	"vsetrain/internal/files/regular"
)

// Reading is a way to convert an array with other axes to features.
type Reading struct {
	Flags string // of data convert
	Does  string // for a message: "drops axis 1"
	Shape []int  // of the result
}

// Readings returns the ways in which data convert can make features, [N, R, D] or [N, D], of an array with other axes;
// with one, of the array of one image, [R, D] or [D]. It returns all that the lengths allow: four axes longer than 1
// may be a grid in either order. There are none for more such axes.
func Readings(shape []int, one bool) (list []Reading) {
	lead := 1 // axes before the axes of an image
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
	first := append([]int{0}, ones...) // to be dropped if images are along a later axis
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

// AxesRemedy says which commands make features of the array at path, and what each does. The text begins with a
// semicolon.
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

// Reshape gives an open array in C order another shape with the same number of elements.
func (f *File) Reshape(shape []int) error {
	n, err := elements.Count(shape, f.DType.Size())
	if err != nil || len(shape) == 0 || n != f.rows*f.rowLen || f.Fortran {
		return fmt.Errorf("npy: %s: shape %v cannot become %v", f.Path, f.Shape, shape)
	}
	f.Shape, f.rows, f.rowLen = slices.Clone(shape), shape[0], elements.Len(shape[1:])
	return nil
}
