package convert

import (
	"cmp"
	"io"
	"reflect"
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
	Own   any          // a pointer to the struct of its flags, or nil
	Parts bool         // several sources are the parts of one
	Stdin bool         // - is read from standard input
	File  bool         // --out names a file and not a folder
	Check func() error // whether the options can be used, before anything is read; nil is always

	// Run converts. Its report is nil where one array was written.
	Run func(Progress) (*Report, error)
}

// Options are what the command line says that several formats have; the options of one format alone are its own. Tags
// declare the flags (cmd/vsetrain/internal/flags).
type Options struct {
	Target
	Sources    []string `args:"SOURCE"`
	SplitFlags []string `flag:"split" arg:"NAME[=IDS]" usage:"output split and its ids file"`
	Type       string   `flag:"dtype" enum:"f32|f16" default:"f32" usage:"type of the stored features"`
	Features   string   `flag:"features-key" arg:"NAME" usage:"NAME of the features in .npz, if it is none of the usual ones" group:"Arrays"`
	Boxes      string   `flag:"boxes-key" arg:"NAME" usage:"NAME of the boxes in .npz, if it is none of the usual ones" group:"Arrays"`
	Sizes      string   `flag:"sizes-key" arg:"NAME" usage:"NAME of the picture sizes in .npz, if it is none of the usual ones" group:"Arrays"`
	Scale      float64  `flag:"scale" usage:"factor for the numbers in arrays; integers require it, 1 keeps them as they are" group:"Arrays"`
	Axes
	In io.Reader // what - stands for
}

// Names returns the names of all flags of a format beside --out and --force.
func (f *Format) Names() []string {
	names := strings.Fields(f.Takes)
	if f.Own != nil {
		for _, field := range reflect.VisibleFields(reflect.TypeOf(f.Own).Elem()) {
			names = append(names, field.Tag.Get("flag"))
		}
	}
	return names
}

// dtypes are the types of features by the names that flags have for them.
var dtypes = map[string]npy.DType{"f16": npy.F16, "f32": npy.F32, "f64": npy.F64}

// Parse reads the values of flags that are more than their text.
func (o *Options) Parse() {
	o.DType, o.Splits = dtypes[o.Type], nil
	for _, s := range o.SplitFlags {
		name, ids, _ := strings.Cut(s, "=")
		o.Splits = append(o.Splits, Split{Name: name, IDs: ids})
	}
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
