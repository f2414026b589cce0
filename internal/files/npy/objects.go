package npy

import (
	"bufio"
	"fmt"
	"io"

	"vsetrain/internal/files/elements"
	"vsetrain/internal/files/pickle"
	"vsetrain/internal/files/regular"
)

// ReadObjects reads an array of Python objects ('|O', for example the dicts {image_w, image_h} of GSMN's
// {split}_ims_size.npy), written by Python 2 or 3, and returns its elements in C order as values of package pickle:
// dicts are *pickle.Dict, NumPy numbers int64 or float64. It executes nothing.
func ReadObjects(path string) ([]any, error) {
	f, _, err := regular.Open(path)
	if err != nil {
		return nil, fmt.Errorf("npy: %w", err)
	}
	defer f.Close()
	objects, err := readObjects(f)
	if err != nil {
		return nil, regular.Explain(fmt.Errorf("npy: %s: %w", path, err), path, regular.NPY)
	}
	return objects, nil
}

func readObjects(r io.Reader) ([]any, error) {
	in := bufio.NewReader(r)
	h, err := readHeader(in)
	if err != nil {
		return nil, err
	}
	if h.dtype != Object {
		return nil, fmt.Errorf("array of %s: expected Python objects (|O)", h.dtype)
	}
	if h.fortran && len(h.shape) > 1 {
		return nil, fmt.Errorf("array of objects in Fortran order; rewrite it in Python: np.save(f, " +
			"np.ascontiguousarray(a))")
	}
	v, _, err := pickle.Decode(in, pickle.Options{Globals: pickle.Merge(pickle.Standard(), pickle.NumPy())})
	if err != nil {
		return nil, err
	}
	a, ok := v.(*pickle.Array)
	if !ok {
		return nil, fmt.Errorf("it holds a pickled %s: expected a NumPy array", pickle.TypeName(v))
	}
	n, err := elements.Count(h.shape, 1)
	if err != nil {
		return nil, err
	}
	if a.DType != string(Object) || len(a.Objects) != n {
		return nil, fmt.Errorf("it holds %d objects of type %s: the header's shape %v needs %d of |O", len(a.Objects),
			a.DType, h.shape, n)
	}
	return a.Objects, nil
}
