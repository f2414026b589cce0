package search

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"vsetrain/data"
	"vsetrain/internal/compute/gemm"
	"vsetrain/internal/compute/par"
	"vsetrain/internal/run/pretrained"
)

// Index is an encoded split that answers queries. Its methods may be called from several goroutines at once, Close
// apart; the network runs for one of them at a time.
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
		engine    *gemm.Engine // of the products of Batch; nil until the first
		precision gemm.Precision
		packed    [][]gemm.Packed // of each member blocks of its image embeddings
		images    []operand       // of each member
		scores    []float32       // of queries with a block of images
	}

	outcomes struct {
		sync.Mutex
		done *Outcomes
	}
}

// Open opens the checkpoints and the split. Images and captions are encoded, or found in the cache, when a query
// first needs them, or by Prepare. Where Options.Data is empty, each checkpoint reads the data set it was trained on;
// captions and image ids must be the same. Errors name the file and the remedy: no such run, weights and data that do
// not belong together, another vocabulary.
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

// all returns the members and the shortlist.
func (x *Index) all() []member {
	all := append([]member(nil), x.members...)
	if x.shortlist != nil {
		all = append(all, x.shortlist)
	}
	return all
}

// Queries says what kinds of queries are to be asked.
type Queries int

// The kinds of queries; they may be added.
const (
	TextQueries  Queries                      = 1 << iota // Text: the split has images
	ImageQueries                                          // OfImage, OfPicture: the split has captions
	AllQueries   = TextQueries | ImageQueries             // OfCaption and Outcomes too
)

// Prepare does now what the first queries of these kinds would wait for: of the images and captions of the split it
// encodes those that they compare with, and compiles the graphs of typed captions.
func (x *Index) Prepare(ctx context.Context, q Queries) error {
	if err := needs(x.split, q); err != nil {
		return err
	}
	for _, m := range x.all() {
		if err := m.prepare(ctx, q&TextQueries != 0, q&ImageQueries != 0, q&TextQueries != 0); err != nil {
			return err
		}
	}
	return nil
}

// Close releases the networks and the files.
func (x *Index) Close() error {
	var first error
	for _, m := range x.all() {
		e := m.common()
		if err := errors.Join(e.Split.Close(), e.lease.leave()); err != nil && first == nil {
			first = err
		}
	}
	return errors.Join(first, x.poolLease.leave())
}

// needs returns a *QueryError where a split cannot be asked some kinds of queries.
func needs(s *data.Split, q Queries) error {
	if err := data.Need(s, q&TextQueries != 0, q&ImageQueries != 0); err != nil {
		return &QueryError{err.Error()}
	}
	return nil
}

// Info describes an index.
type Info struct {
	Data, Split      string
	Checkpoints      []string    // as they were found, for people
	Shortlist        string      // the same of the shortlist's checkpoint; "" without
	Images, Captions int         // that can be found
	Queries          Queries     // that can be asked: of images alone text, of captions alone pictures
	Own              data.Groups // the captions of each image
	Scored           int         // images that the last pass scores for a text query: all, or the shortlist
	// Origin of the features, the least known of all checkpoints, and what a person should know of it, "" where it is
	// the same.
	Origin     pretrained.Origin
	OriginNote string
	Network    string // of the first checkpoint
	Query      QueryPrecision
	Pairs      bool // some checkpoint scores pairs: a query takes longer, Outcomes much longer
}

// Info returns what was opened.
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
	m := Image{Index: i, ID: x.imageID(i)}
	for c := range x.split.Groups().Of(i) {
		m.Captions = append(m.Captions, x.split.Caption(c))
	}
	return m
}

// Caption returns caption c, 0 ≤ c < Info.Captions; it describes image Info.Own.ImageOf(c).
func (x *Index) Caption(c int) string { return x.split.Caption(c) }

func (x *Index) imageID(i int) string { return idOf(x.split, i) }

// idOf returns the id of an image; its number where there is no ids file.
func idOf(s *data.Split, i int) string {
	if !s.HasIDs() {
		return strconv.Itoa(i)
	}
	return s.ImageID(s.RowOf(i))
}

func (x *Index) numberImages() {
	x.numbers = map[string]int{}
	for i := x.split.NumImages() - 1; i >= 0; i-- { // of equal ids the first image
		x.numbers[x.imageID(i)] = i
	}
	for i := x.split.NumImages() - 1; i >= 0; i-- {
		id := x.imageID(i)
		stem := strings.TrimSuffix(id, filepath.Ext(id))
		if _, taken := x.numbers[stem]; !taken {
			x.numbers[stem] = i
		}
	}
}

// FindImage returns the number of the image that an id of the ids file names, with or without the ending of its file
// name; where no id is equal, a whole number 0 ≤ n < Info.Images is the number itself.
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
		file = "; a picture in a file is searched with --extractor"
		if _, err := os.Stat(id); err != nil {
			file = "; there is no such file either"
		}
	}
	return 0, fmt.Errorf("split %s of %s has no image %q; expected an id such as %s, or a number from 0 to %d%s",
		x.split.Name(), x.split.Dir(), id, x.imageID(0), n-1, file)
}
