package search

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"vsetrain/data"
	"vsetrain/internal/compute/gemm"
	"vsetrain/internal/compute/par"
	"vsetrain/internal/run/pretrained"
)

// Index is an encoded split that answers queries. All methods but Close may be called from several goroutines; the
// network runs for one of them at a time.
type Index struct {
	opt       Options
	pool      *par.Pool
	poolLease *lease
	split     *data.Split // of the first member
	members   []member
	shortlist *embedder // nil without
	numbers   map[string]int

	batching struct {
		sync.Mutex
		engine    *gemm.Engine // nil until the images are packed
		precision gemm.Precision
		packed    [][]gemm.Packed // blocks of image embeddings, for each member
		images    []operand       // for each member
		scores    []float32       // of queries with a block of images
	}

	outcomes struct {
		sync.Mutex
		done *Outcomes
	}
}

// Open opens the checkpoints and the split. Prepare, or the first query that needs them, encodes images and captions or
// finds them in the cache. If Options.Data is empty, each checkpoint reads the data set it was trained on; captions and
// image ids must be the same. An error names the file and the remedy: for a missing run, for weights that do not fit
// the data, for another vocabulary.
func Open(o Options) (_ *Index, err error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if st, err := os.Stat(o.Cache); o.CacheLimit == 0 && o.Cache != "" && err == nil && !st.IsDir() {
		return nil, fmt.Errorf("cache %s: a file; expected a folder", o.Cache)
	}
	o.setDefaults()
	x := &Index{opt: o, pool: par.New(o.Device.Threads)}
	x.poolLease = newLease(func() error { x.pool.Close(); return nil })
	defer func() {
		if err != nil {
			x.Close()
		}
	}()
	for _, path := range o.Checkpoints {
		m, err := openMember(&x.opt, x.pool, path)
		if err != nil {
			return nil, err
		}
		x.members = append(x.members, m)
	}
	var files []string
	for _, m := range x.members {
		files = append(files, m.common().File)
	}
	if err := pretrained.Repeated(files, o.Warn); err != nil {
		return nil, err
	}
	if o.Shortlist != "" {
		m, err := openMember(&x.opt, x.pool, o.Shortlist)
		if err != nil {
			return nil, fmt.Errorf("shortlist: %w", err)
		}
		var ok bool
		if x.shortlist, ok = m.(*embedder); !ok {
			m.common().Close()
			return nil, fmt.Errorf("shortlist: %s is network %s, which scores pairs itself; expected an embedder (%s)",
				o.Shortlist, m.common().Model.Options.Network, embedders())
		}
	}
	return x, agree(x)
}

// agree checks that all members of an index have the same split, and numbers its images.
func agree(x *Index) error {
	first := x.members[0].common()
	x.split = first.Split
	for _, m := range x.all() {
		other := m.common()
		if err := pretrained.SameSplit(first.Name, first.Split, other.Name, other.Split); err != nil {
			return err
		}
	}
	x.numberImages()
	return nil
}

func (x *Index) all() []member {
	if x.shortlist == nil {
		return x.members
	}
	return append(slices.Clip(x.members), x.shortlist)
}

// Queries is a set of kinds of queries.
type Queries int

// The kinds of queries, which may be combined with |.
const (
	TextQueries  Queries                      = 1 << iota // Text: the split has images
	ImageQueries                                          // OfImage, OfPicture: the split has captions
	AllQueries   = TextQueries | ImageQueries             // also OfCaption and Outcomes
)

// Prepare does the work that the first queries of these kinds would wait for: it encodes the images and captions that
// they are compared with, and compiles the graphs of typed captions.
func (x *Index) Prepare(ctx context.Context, q Queries) error {
	if err := needs(x.split, q); err != nil {
		return err
	}
	for _, m := range x.all() {
		if err := m.prepare(ctx, q); err != nil {
			return err
		}
	}
	return nil
}

// Close releases the networks and the files.
func (x *Index) Close() error {
	var errs []error
	for _, m := range x.all() {
		errs = append(errs, m.common().Split.Close(), m.common().lease.leave())
	}
	return errors.Join(append(errs, x.poolLease.leave())...)
}

// needs returns a *QueryError if a split cannot answer some kinds of queries.
func needs(s *data.Split, q Queries) error {
	if err := data.Need(s, q&TextQueries != 0, q&ImageQueries != 0); err != nil {
		return &QueryError{err.Error()}
	}
	return nil
}

// Info describes an index.
type Info struct {
	Data, Split      string
	Checkpoints      []string          // as they were found, for people
	Shortlist        string            // checkpoint of the shortlist, as it was found; "" without
	Images, Captions int               // that can be found
	Queries          Queries           // that the split can answer
	Own              data.Groups       // the captions of each image
	Scored           int               // images that the last pass scores for a text query: all, or the shortlist
	Origin           pretrained.Origin // of the features; the least known of all checkpoints
	OriginNote       string            // what a person should know about it; "" if it is the same
	Network          string            // of the first checkpoint
	Query            QueryPrecision
	Pairs            bool // a checkpoint scores pairs: a query takes longer, Outcomes much longer
}

// Info describes what was opened.
func (x *Index) Info() Info {
	s := x.split
	i := Info{Data: s.Dir(), Split: s.Name(), Images: s.NumImages(), Captions: s.NumCaptions(),
		Own: s.Groups(), Scored: s.NumImages(),
		Network: x.members[0].common().Model.Options.Network, Query: queryPrecision(x)}
	for _, m := range x.all() {
		if t := m.common(); i.Origin == "" || i.Origin == pretrained.SameOrigin || t.Origin == pretrained.OtherOrigin {
			i.Origin, i.OriginNote = t.Origin, t.OriginNote
		}
	}
	for _, m := range x.members {
		_, pairs := m.(*scorer)
		i.Checkpoints, i.Pairs = append(i.Checkpoints, m.common().Found), i.Pairs || pairs
	}
	if i.Captions > 0 {
		i.Queries = ImageQueries
	}
	if s.Regions() > 0 {
		i.Queries |= TextQueries
	} else {
		i.Images, i.Scored = 0, 0
	}
	if x.shortlist != nil {
		i.Shortlist, i.Scored = x.shortlist.Found, min(i.Images, x.opt.Depth)
	}
	return i
}

// Image describes image i of the split, 0 ≤ i < Info.Images.
type Image struct {
	Index    int      `json:"image"`
	ID       string   `json:"id"` // of the ids file; its number if there is none
	Captions []string `json:"captions,omitempty"`
}

// Image returns the description of an image. It panics when i is out of range, like an index of a slice.
func (x *Index) Image(i int) Image {
	m := Image{Index: i, ID: idOf(x.split, i)}
	for c := range x.split.Groups().Of(i) {
		m.Captions = append(m.Captions, x.split.Caption(c))
	}
	return m
}

// Caption returns caption c, 0 ≤ c < Info.Captions; it describes image Info.Own.ImageOf(c).
func (x *Index) Caption(c int) string { return x.split.Caption(c) }

// idOf returns the id of an image, or its number if there is no ids file.
func idOf(s *data.Split, i int) string {
	if !s.HasIDs() {
		return strconv.Itoa(i)
	}
	return s.ImageID(s.RowOf(i))
}

func (x *Index) numberImages() {
	x.numbers = map[string]int{}
	for i := x.split.NumImages() - 1; i >= 0; i-- { // the first of equal ids wins
		x.numbers[idOf(x.split, i)] = i
	}
	for i := x.split.NumImages() - 1; i >= 0; i-- {
		id := idOf(x.split, i)
		stem := strings.TrimSuffix(id, filepath.Ext(id))
		if _, taken := x.numbers[stem]; !taken {
			x.numbers[stem] = i
		}
	}
}

// FindImage returns the number of the image with an id of the ids file, with or without the extension of its file name.
// If there is no such id, a whole number 0 ≤ n < Info.Images is the number itself.
func (x *Index) FindImage(id string) (int, error) {
	if i, ok := x.numbers[id]; ok {
		return i, nil
	}
	n := x.split.NumImages()
	if i, err := strconv.Atoi(id); err == nil && i >= 0 && i < n {
		return i, nil
	}
	file := ""
	if strings.ContainsAny(id, `/\`) {
		file = "; to search with a picture file, use --extractor"
		if _, err := os.Stat(id); err != nil {
			file = "; there is no such file either"
		}
	}
	return 0, fmt.Errorf("split %s of %s has no image %q; expected an id such as %s, or a number from 0 to %d%s",
		x.split.Name(), x.split.Dir(), id, idOf(x.split, 0), n-1, file)
}
