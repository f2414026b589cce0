package data

import (
	"fmt"
	"sync/atomic"

	"vsetrain/internal/compute/vec"
	"vsetrain/internal/files/half"
	"vsetrain/internal/files/npy"
	"vsetrain/internal/files/regular"
)

// openFeatures maps the features, if there are any.
func openFeatures(s *Split, o *OpenOptions) error {
	s.imagePath, s.onDisk = s.path("_ims.npy"), filesOf(s)
	f, err := s.array("_ims.npy")
	if missing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := checkFeatures(f, o.FeatureDType); err != nil {
		return err
	}
	s.images = f
	s.regions, s.dim = 1, f.Shape[len(f.Shape)-1]
	if len(f.Shape) == 3 {
		s.regions = f.Shape[1]
	}
	s.finite = make([]atomic.Uint32, (f.Rows()+31)/32)
	return nil
}

// checkFeatures checks shape and type of a feature file.
func checkFeatures(f *npy.File, dtype string) error {
	if f.DType == npy.Object {
		return fmt.Errorf("%s: elements of type object: NumPy does this for images with different numbers of regions; "+
			"expected numbers [rows, regions, features]: cut or pad every image to the same number of regions", f.Path)
	}
	if len(f.Shape) != 2 && len(f.Shape) != 3 {
		return fmt.Errorf("%s: shape %v; expected [rows, regions, features] or [rows, features]%s", f.Path, f.Shape,
			npy.AxesRemedy(f.Path, f.Shape))
	}
	for _, n := range f.Shape {
		if n < 1 {
			return fmt.Errorf("%s: shape %v; every dimension must be at least 1", f.Path, f.Shape)
		}
	}
	var want npy.DType
	switch dtype {
	case "", "auto":
	case "f32":
		want = npy.F32
	case "f16":
		want = npy.F16
	default:
		return fmt.Errorf("feature type %q; expected auto, f32 or f16", dtype)
	}
	if f.DType != npy.F32 && f.DType != npy.F16 || f.Fortran {
		order, remedy := "", f.Rewrite()
		if f.Fortran {
			order = " in Fortran order"
		} else if f.DType == npy.F64 {
			remedy = "`vsetrain data convert " + regular.Quote(f.Path) + " --out NEW.npy` makes it so"
		}
		return fmt.Errorf("%s: expected features of float32 or float16 in C order, found %s%s; %s", f.Path,
			f.DType.Name(), order, remedy)
	}
	if want != "" && f.DType != want {
		return fmt.Errorf("%s: features of %s, but data.feature_dtype is %s; set it to auto or convert the file",
			f.Path, f.DType.Name(), dtype)
	}
	return nil
}

// ReadImage writes the features [R, D] of a row to dst. Features that are not finite are an error.
func (s *Split) ReadImage(dst []float32, row int) error {
	if err := s.images.ReadRow(dst, row); err != nil {
		return err
	}
	if s.isFinite(row) {
		return nil
	}
	if i := vec.NotFinite(dst); i >= 0 {
		return s.notFinite(row, i, dst[i])
	}
	s.setFinite(row)
	return nil
}

// ReadHalves is ReadImage for features in half precision (HalfFeatures). dst receives the bits of float16.
func (s *Split) ReadHalves(dst []uint16, row int) error {
	f, ok := s.images.(*npy.File)
	if !ok {
		return fmt.Errorf("%s: the features are not stored in half precision", s.imagePath)
	}
	if err := f.ReadHalves(dst, row); err != nil || s.isFinite(row) {
		return err
	}
	if i := half.NotFinite(dst); i >= 0 {
		return s.notFinite(row, i, half.Float32(dst[i]))
	}
	s.setFinite(row)
	return nil
}

func (s *Split) isFinite(row int) bool { return s.finite[row/32].Load()>>(row%32)&1 != 0 }

func (s *Split) setFinite(row int) { s.finite[row/32].Or(1 << (row % 32)) }

func (s *Split) notFinite(row, i int, value float32) error {
	return fmt.Errorf("%s: row %d (image id %s), region %d, feature %d is %v: features must be finite; `vsetrain data "+
		"check %s` lists every such row",
		s.imagePath, row, s.ImageID(row), i/s.dim, i%s.dim, value, s.dir)
}
