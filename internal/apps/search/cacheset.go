package search

import (
	"fmt"

	"vsetrain/internal/files/safetensors"
	"vsetrain/models"
)

// packSet returns the tensors of an encoded set: SIDE.value.K [N, width], and for captions SIDE.words.K [words, width],
// SIDE.length [N] and the dependencies.
func packSet(side string, s *models.EncodedSet) (all []safetensors.Tensor) {
	for k, r := range s.Values {
		all = append(all, safetensors.FromFloat32s(fmt.Sprintf("%s.value.%d", side, k), []int{s.N, r.Width}, r.Data))
	}
	for k, r := range s.Words {
		all = append(all, safetensors.FromFloat32s(fmt.Sprintf("%s.words.%d", side, k),
			[]int{len(r.Data) / r.Width, r.Width}, r.Data))
	}
	if len(s.Length) > 0 {
		all = append(all, ints(side+".length", s.Length))
	}
	if len(s.EdgeStart) > 0 {
		all = append(all, ints(side+".edges", s.Edges), ints(side+".edge_start", s.EdgeStart))
	}
	return all
}

// unpackSet is the inverse of packSet for n images or captions.
func unpackSet(f *safetensors.File, side string, n int) (s *models.EncodedSet, err error) {
	s = &models.EncodedSet{N: n}
	rows := func(kind string, to *[]models.Rows) error {
		for k := 0; ; k++ {
			name := fmt.Sprintf("%s.%s.%d", side, kind, k)
			t, ok := f.Tensor(name)
			if !ok {
				return nil
			}
			if len(t.Shape) != 2 {
				return fmt.Errorf("tensor %s has shape %v; expected two dimensions", name, t.Shape)
			}
			x, err := floats(f, name, t.Len())
			if err != nil {
				return err
			}
			*to = append(*to, models.Rows{Width: t.Shape[1], Data: x})
		}
	}
	if err := rows("value", &s.Values); err != nil {
		return nil, err
	}
	if err := rows("words", &s.Words); err != nil {
		return nil, err
	}
	if _, ok := f.Tensor(side + ".length"); ok {
		if s.Length, err = f.Int32s(side + ".length"); err != nil {
			return nil, err
		}
		s.First = append(s.First, 0)
		for _, l := range s.Length {
			s.First = append(s.First, s.First[len(s.First)-1]+int(l))
		}
	}
	if _, ok := f.Tensor(side + ".edge_start"); ok {
		if s.Edges, err = f.Int32s(side + ".edges"); err != nil {
			return nil, err
		}
		s.EdgeStart, err = f.Int32s(side + ".edge_start")
	}
	return s, err
}

func floats(f *safetensors.File, name string, n int) ([]float32, error) {
	if t, ok := f.Tensor(name); !ok || t.DType != "F32" || t.Len() != n {
		return nil, fmt.Errorf("no tensor %s of %d float32 values", name, n)
	}
	x := make([]float32, n)
	return x, f.Float32s(name, x)
}

func ints(name string, x []int32) safetensors.Tensor {
	return safetensors.FromInt32s(name, []int{len(x)}, x)
}
