package convert

import (
	"fmt"
	"slices"
	"strings"

	"vsetrain/internal/files/npy"
)

// Axes says what the axes of an array mean if they are not the axes of features, [N, R, D] or [N, D], or of one image,
// [R, D] or [D]. Without it an array with other axes is an error that names the choices (npy.Readings).
type Axes struct {
	Squeeze []int `flag:"squeeze" list:"," min:"0" usage:"drop these axes of length 1 of arrays, counted from 0" group:"Arrays"`
	// Grid turns the places of a grid into regions, [N, H*W, C]; "" is no grid.
	Grid string `flag:"grid" enum:"nchw|nhwc" usage:"order of the axes, for arrays that hold grids" group:"Arrays"`
}

// squeeze returns a shape without the dropped axes.
func (a Axes) squeeze(shape []int) (squeezed []int, err error) {
	for _, axis := range a.Squeeze {
		if axis >= len(shape) || shape[axis] != 1 {
			return nil, fmt.Errorf("shape %v has no axis %d of length 1, which --squeeze would drop", shape, axis)
		}
	}
	for i, n := range shape {
		if !slices.Contains(a.Squeeze, i) {
			squeezed = append(squeezed, n)
		}
	}
	return squeezed, nil
}

// features returns the shape without the dropped axes, and the shape of the features: [N, R, D] or [N, D], for one
// image [R, D].
func (a Axes) features(shape []int, one bool) (squeezed, features []int, err error) {
	s, err := a.squeeze(shape)
	if err != nil {
		return nil, nil, err
	}
	lead, want := 1, "[N, R, D] or [N, D]"
	if one {
		lead, want = 0, "[R, D] or [D]"
	}
	switch axes := len(s) - lead; {
	case a.Grid != "" && axes != 3:
		return nil, nil, fmt.Errorf("shape %v; --grid %s expects %d axes", s, a.Grid, 3+lead)
	case a.Grid == "nchw":
		return s, append(slices.Clone(s[:lead]), s[lead+1]*s[lead+2], s[lead]), nil
	case a.Grid == "nhwc":
		return s, append(slices.Clone(s[:lead]), s[lead]*s[lead+1], s[lead+2]), nil
	case axes == 2 || axes == 1 && !one:
		return s, s, nil
	case axes == 1:
		return s, []int{1, s[0]}, nil
	}
	var choices strings.Builder
	for _, r := range npy.Readings(shape, one) {
		fmt.Fprintf(&choices, "; %s %s: %v", r.Flags, r.Does, r.Shape)
	}
	return nil, nil, fmt.Errorf("expected features %s, found shape %v%s", want, shape, choices.String())
}

// order reorders the values of an image by regions if the grid has its channels first. turned is as long as row. It
// returns the reordered row, and the other slice.
func (a Axes) order(row, turned []float32, width int) (ordered, spare []float32) {
	if a.Grid != "nchw" {
		return row, turned
	}
	regions := len(row) / max(1, width)
	for c := range width {
		for r := range regions {
			turned[r*width+c] = row[c*regions+r]
		}
	}
	return turned, row
}
