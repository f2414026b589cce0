package convert

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"vsetrain/internal/files/npy"
)

// Format is one kind of source. Each registers itself in the file that reads it; `vsetrain data convert` takes help
// texts, flags and what is done from here.
type Format struct {
	Kind  string       // the end of the name of a source, such as .tsv, or folder
	Help  string       // what it is, for the help text; lines of at most 108 characters
	Takes string       // names of the shared flags that it takes, blanks between them
	Own   []Flag       // flags of its own
	Parts bool         // several sources are the parts of one
	Stdin bool         // - is read from standard input
	File  bool         // --out names a file and not a folder
	Check func() error // whether the options can be used, before anything is read; nil is always

	// Run converts. Its report is nil where one array was written.
	Run func(Progress) (*Report, error)
}

// Flag is a flag of the command line. Value points to a string, bool, int, float64, []int or []string, which holds the
// default.
type Flag struct {
	Name, Usage string
	Value       any
}

// Options are what the flags say that several formats have; those of one format alone are its own.
type Options struct {
	Target
	Axes
	Sources                []string
	In                     io.Reader // what - stands for
	Scale                  float64   // see ArrayOptions
	Features, Boxes, Sizes string    // see ArrayOptions

	dtype  string
	splits []string // NAME or NAME=IDS
}

// Shared returns the flags that several formats have, and sets their defaults.
func (o *Options) Shared() []Flag {
	o.dtype = "f32"
	return []Flag{
		{"split", "output split and its ids file, `NAME[=IDS]`; may be repeated", &o.splits},
		{"dtype", "type of the stored features: f32 or f16", &o.dtype},
		{"regions", "regions per image; 0 takes them from the first image", &o.Regions},
		{"dim", "feature size; 0 takes it from the source", &o.Dim},
		{"fit", "pad images of fewer regions with zeros and cut those of more", &o.Fit},
		{"distinct", "one row for an image that an ids file names once for each caption", &o.Distinct},
		{"skip-broken", "leave out images that cannot be read, and name them", &o.SkipBroken},
		{"features-key", "name of the features in .npz; empty tries the usual ones", &o.Features},
		{"boxes-key", "name of the boxes in .npz; empty tries the usual ones", &o.Boxes},
		{"sizes-key", "name of the picture sizes in .npz; empty tries the usual ones", &o.Sizes},
		{"scale", "multiply the numbers of arrays; integers need it, 1 takes them as they are", &o.Scale},
		{"grid", "axes of arrays that hold grids: nchw or nhwc", &o.Grid},
		{"squeeze", "drop these axes of length 1 of arrays, counted from 0", &o.Squeeze},
	}
}

// Names returns the names of all flags of a format beside --out and --force.
func (f *Format) Names() []string {
	names := strings.Fields(f.Takes)
	for _, own := range f.Own {
		names = append(names, own.Name)
	}
	return names
}

// Parse reads the values of flags that are more than their text.
func (o *Options) Parse() (err error) {
	if o.DType, err = dtypeOf("dtype", o.dtype, "f32", "f16"); err != nil {
		return err
	}
	o.Splits = nil
	for _, s := range o.splits {
		name, ids, _ := strings.Cut(s, "=")
		o.Splits = append(o.Splits, Split{Name: name, IDs: ids})
	}
	return nil
}

// dtypeOf returns the type that a flag names, one of some.
func dtypeOf(flag, name string, some ...string) (npy.DType, error) {
	if !slices.Contains(some, name) {
		last := len(some) - 1
		return "", fmt.Errorf("--%s: expected %s or %s, found %q", flag, strings.Join(some[:last], ", "), some[last],
			name)
	}
	return map[string]npy.DType{"f16": npy.F16, "f32": npy.F32, "f64": npy.F64}[name], nil
}

// registry makes the formats anew for each command line, whose flags write into them.
var registry []func(*Options) *Format

func register(f func(*Options) *Format) { registry = append(registry, f) }

// Formats returns all formats, by their kinds, for the options of a command line.
func Formats(o *Options) (all []*Format) {
	for _, f := range registry {
		all = append(all, f(o))
	}
	slices.SortFunc(all, func(a, b *Format) int { return cmp.Compare(a.Kind, b.Kind) })
	return all
}
