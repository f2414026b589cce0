package data

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"

	"vsetrain/internal/files/integrity"
	"vsetrain/internal/files/npy"
	"vsetrain/internal/files/regular"
)

// OpenOptions says how Open reads a split. The zero value reads what the files hold and refuses what does not
// fit together.
type OpenOptions struct {
	// CaptionsPerImage is k; 0 derives it from the files (see Split.CaptionsPerImage).
	CaptionsPerImage int

	// FeatureDType insists on "f32" or "f16" features; "" and "auto" accept both.
	FeatureDType string

	// Semantics names an .npy matrix [captions, k] of semantic vectors; "" reads none.
	Semantics string

	// MaxCaptions keeps the first so many captions, rounded down to whole images. 0 is the field's rule: 5,000 for
	// the dev split (Flickr30K has 5,070, of which every published result uses the first 5,000), all for others.
	// A negative number keeps all.
	MaxCaptions int

	// Boxes reads where the regions are (see ReadBoxes).
	Boxes bool

	// Dependencies reads the dependency trees of the captions: "" reads none, "check" those that are there, "need"
	// insists on them.
	Dependencies string

	// WordIDs takes {split}_precaps_stan.txt, if there is one, instead of tokenising the captions.
	WordIDs bool

	// Partial accepts a split of images alone, or of captions alone. Training and evaluation need both.
	Partial bool

	// Original leaves out what was added and removed since the files of a gallery were written.
	Original bool

	// Warn is told of files that fit the manifest of the data set in all but their time; nil is nobody.
	Warn func(error)

	// AllowEmpty accepts captions without a word, which the references train on as <start> <end>.
	AllowEmpty bool
}

// devCaptions is the number of captions of the dev split that the references validate on.
const devCaptions = 5000

// Open opens a split of the data set in dir: captions are read, features mapped, ids read if there are any, and
// all of them checked against each other. Features are checked for NaN and infinity when they are first read.
func Open(dir, split string, o OpenOptions) (_ *Split, err error) {
	s := &Split{name: split, dir: dir}
	s.onDisk = filesOf(s)
	defer func() {
		if err != nil {
			s.Close()
			err = fmt.Errorf("data: %w", err)
		}
	}()
	if o.CaptionsPerImage < 0 {
		return nil, fmt.Errorf("captions per image %d; expected a positive number, or 0 to derive it from the files",
			o.CaptionsPerImage)
	}
	var names []string
	for _, k := range fileKinds {
		names = append(names, split+k.suffix)
	}
	moved, err := integrity.CheckOpen(dir, names...)
	if err != nil {
		return nil, err
	}
	if len(moved) > 0 && o.Warn != nil {
		o.Warn(fmt.Errorf("%s: written at another time than the manifest of %s says: 'vsetrain verify %[2]s' compares "+
			"the contents, 'vsetrain verify --record %[2]s' takes them as they are", strings.Join(moved, ", "), dir))
	}
	if err := errors.Join(s.openCaptions(), s.openImages(o.FeatureDType)); err != nil {
		return nil, err
	}
	switch {
	case s.captions == nil && s.images == nil:
		return nil, missingSplit(s.dir, s.name)
	case !o.Partial:
		if err := Need(s, true, true); err != nil {
			return nil, err
		}
	}
	if s.ids, err = readLines(s.path("_ids.txt"), "ids"); err != nil && !missing(err) {
		return nil, err
	}
	for i := 0; s.ids != nil && i < s.ids.len(); i++ {
		if id := s.ids.line(i); id != "" { // blank lines are told with the layout
			if err := regular.CheckID(id); err != nil {
				return nil, fmt.Errorf("%s: %w", at(s.ids, i), err)
			}
		}
	}
	if s.layout, err = solveLayout(s.captions, s.images, s.ids, o.CaptionsPerImage, s.imagePath); err != nil {
		return nil, err
	}
	s.limit(o.MaxCaptions)
	if s.images != nil {
		if err := openLengths(s); err != nil {
			return nil, err
		}
	}
	if o.Warn != nil {
		for _, err := range []error{oddIDs(s), dropped(s, o.MaxCaptions), padding(s)} {
			if err != nil {
				o.Warn(err)
			}
		}
	}
	if n, line := s.captions.empty(s.n); n > 0 && !o.AllowEmpty {
		return nil, fmt.Errorf("%s:%d: empty caption (%d in all); write a caption on the line, or remove the line "+
			"together with its image row and id",
			s.captions.path, line, n)
	}
	if o.Boxes && s.images != nil {
		if err := s.openBoxes(); err != nil {
			return nil, err
		}
	}
	if !o.Original && s.images != nil {
		if err := openChanges(s); err != nil {
			return nil, err
		}
	}
	if o.WordIDs && s.captions != nil {
		if err := s.openWordIDs(); err != nil {
			return nil, err
		}
	}
	if o.Dependencies != "" && s.captions != nil {
		if err := s.openDependencies(o.Dependencies == "need"); err != nil {
			return nil, err
		}
	}
	if o.Semantics != "" {
		if err := s.openSemantics(o.Semantics); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// openCaptions reads the captions, if there are any.
func (s *Split) openCaptions() error {
	path := s.CaptionPath()
	lines, err := readLines(path, "captions")
	if missing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if lines.len() == 0 {
		return fmt.Errorf("%s: the file is empty; expected one caption per line", path)
	}
	if lines.len() > math.MaxInt32 {
		return fmt.Errorf("%s: %d captions; at most %d are read", path, lines.len(), math.MaxInt32)
	}
	s.captions = lines
	return refuseForeign(lines)
}

// openImages maps the features, if there are any.
func (s *Split) openImages(dtype string) error {
	s.imagePath = s.path("_ims.npy")
	f, err := npy.Open(s.imagePath)
	if missing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	s.files = append(s.files, f)
	if err := checkFeatures(f, dtype); err != nil {
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
		return fmt.Errorf("%s: elements of type object: NumPy stores images of different numbers of regions so; "+
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

// openDependencies reads the dependency file; required says that there must be one.
func (s *Split) openDependencies(required bool) error {
	d, err := readDependencies(s.path("_caps.json"))
	if missing(err) {
		d, err = readDependencies(s.path("_caps.conllu"))
	}
	if missing(err) {
		if !required {
			return nil
		}
		return fmt.Errorf("split %q has no dependencies: expected %s, a JSON list with [[governor, dependent], ...] "+
			"for every caption, or %s in the CoNLL-U format; model.gsmn.mode: dense needs neither",
			s.name, s.path("_caps.json"), s.path("_caps.conllu"))
	}
	if err != nil {
		return err
	}
	if d.Len() != s.layout.captions {
		return fmt.Errorf("%s: dependencies of %d captions, but %s has %d", d.path, d.Len(), s.CaptionPath(),
			s.layout.captions)
	}
	s.dependencies = d
	return nil
}

// readDependencies reads a dependency file: CoNLL-U where the name ends in .conllu, otherwise JSON.
func readDependencies(path string) (*Dependencies, error) {
	f, _, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	d := &Dependencies{path: path, first: []int32{0}}
	if isCoNLLU(path) {
		return d, regular.Explain(d.readCoNLLU(f), path, regular.Text, regular.Table)
	}
	return d, regular.Explain(d.readJSON(f), path, regular.JSON)
}

func (s *Split) openSemantics(path string) error {
	f, err := npy.Open(path)
	if missing(err) {
		return fmt.Errorf("%s: no semantic vectors; `vsetrain precompute-svd --data %s` writes them", path, s.dir)
	}
	if err != nil {
		return err
	}
	s.files = append(s.files, f)
	if len(f.Shape) != 2 {
		return fmt.Errorf("%s: shape %v; expected [captions, k]", path, f.Shape)
	}
	return s.AttachSemantics(f, path)
}

// dropped says that captions are left out of a split whose published results do not leave them out too.
func dropped(s *Split, asked int) error {
	if n := s.layout.captions; s.n == n || asked > 0 && asked != devCaptions || n == 5070 || n == 25000 {
		return nil // Flickr30K and MS-COCO
	}
	return fmt.Errorf("%s: the first %d of %d captions are used; data.dev_captions: 0 uses all", s.CaptionPath(), s.n,
		s.layout.captions)
}

func (s *Split) limit(most int) {
	s.n = s.layout.captions
	if most == 0 && s.name == "dev" {
		most = devCaptions
	}
	if most > 0 && most < s.n {
		s.groups = s.groups.Part(0, s.groups.atMost(most))
		s.n = s.groups.Items()
	}
}
