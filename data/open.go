package data

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"vsetrain/internal/files/integrity"
)

// reader reads one part of a split.
type reader struct {
	kind string
	ends []string // of the names of its files, after the name of the split

	// open reads the part into the split if the options ask for it, and checks it against the parts before it. nil is a
	// part that another reader reads.
	open func(*Split, *OpenOptions) error
}

// The layout follows from items, which are read independently. extras belong to the items and are read in this order.
var items, extras = []reader{
	{"captions", []string{"_caps.txt"}, openCaptions},
	{"features", []string{"_ims.npy"}, openFeatures},
	{"ids", []string{"_ids.txt"}, openIDs},
}, []reader{
	{"region counts", []string{lengthsEnd}, openLengths},
	{"boxes", boxNames, openBoxes},
	{"sizes", sizeNames, nil},
	{"changes", []string{changesEnd}, openChanges},
	{"word ids", []string{wordIDsEnd}, openWordIDs},
	{"dependencies", []string{"_caps.json", "_caps.conllu"}, openDependencies},
	{"semantics", []string{"_svd.npy", "_bert.npy", "_svd.txt", "_bert.txt"}, openSemantics},
}

// kindOf returns the kind of a file and the split it belongs to.
func kindOf(name string) (kind, split string) {
	for _, p := range slices.Concat(items, extras) {
		for _, end := range p.ends {
			if split, ok := strings.CutSuffix(name, end); ok && split != "" {
				return p.kind, split
			}
		}
	}
	switch {
	case name == integrity.ManifestName:
		return "manifest", ""
	case name == "id_mapping.json":
		return "id mapping", ""
	case strings.Contains(name, "vocab"):
		return "vocabulary", ""
	}
	return "other", ""
}

// Open opens a split of the data set in dir. It reads captions and ids, maps features, and checks them against each
// other. Features are checked for NaN and infinity when they are first read.
func Open(dir, split string, o OpenOptions) (*Split, error) {
	s := &Split{name: split, dir: dir}
	if err := s.open(&o); err != nil {
		s.Close()
		return nil, fmt.Errorf("data: %w", err)
	}
	return s, nil
}

func (s *Split) open(o *OpenOptions) error {
	if err := s.checkManifest(o); err != nil {
		return err
	}
	var errs []error
	for _, p := range items {
		errs = append(errs, p.open(s, o))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := openLayout(s, o); err != nil {
		return err
	}
	for _, p := range extras {
		if p.open == nil {
			continue
		}
		if err := p.open(s, o); err != nil {
			return err
		}
	}
	return nil
}

// checkManifest compares the files with the manifest of the data set, if there is one.
func (s *Split) checkManifest(o *OpenOptions) error {
	var names []string
	for _, p := range slices.Concat(items, extras) {
		for _, end := range p.ends {
			names = append(names, s.name+end)
		}
	}
	moved, err := integrity.CheckOpen(s.dir, names...)
	if len(moved) > 0 {
		o.warn(func() error {
			return fmt.Errorf("%s: written at another time than the manifest of %s says: 'vsetrain verify %[2]s' "+
				"compares the contents, 'vsetrain verify --record %[2]s' takes them as they are",
				strings.Join(moved, ", "), s.dir)
		})
	}
	return err
}
