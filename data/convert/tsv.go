package convert

import (
	"bufio"
	"fmt"
	"hash/maphash"
	"io"
	"slices"
	"strings"

	"vsetrain/internal/files/npy"
	"vsetrain/internal/files/regular"
)

func init() {
	register(func(o *Options) *Format {
		t := TSVOptions{}
		own := &struct {
			Source    string `flag:"source-dtype" enum:"f16|f32|f64" usage:"type of the features in a .tsv, if its values are ambiguous" group:"Other sources"`
			KeepFirst bool   `flag:"keep-first" usage:"keep the first of two different records of an image in a .tsv" group:"Other sources"`
		}{}
		return &Format{Kind: ".tsv", Parts: true, Stdin: true,
			Help: `base64 arrays in the columns of bottom-up attention, ViLBERT, LXMERT, Oscar or VinVL, or in those
that a first line names; several parts may be given, - reads one from stdin`,
			Takes: "split dtype regions dim fit distinct skip-broken",
			Own:   own,
			Check: func() error {
				t = TSVOptions{Target: o.Target, Files: o.Sources, Source: dtypes[own.Source], KeepFirst: own.KeepFirst}
				return t.Validate()
			},
			Run: func(p Progress) (*Report, error) {
				if t.Files[0] == "-" {
					return TSVStream(o.In, "stdin", t, p)
				}
				return TSV(t, p)
			}}
	})
}

// TSVOptions describes a conversion of tab-separated files of region features, in the columns of a published set
// (columnSets) or those that a header line names: image_id, num_boxes and features, and boxes, image_w and image_h
// where they are there. Boxes [num_boxes, 4] and features [num_boxes, D] are base64 of float16, float32 or float64.
type TSVOptions struct {
	Target
	Files     []string  // the parts of the source, in order
	Source    npy.DType // of the features in the source: F16, F32, F64, or "" where the file tells
	KeepFirst bool      // of images that occur twice with different content keep the first; otherwise they are an error
}

// Validate returns an error that names the first field that cannot be used.
func (o *TSVOptions) Validate() error {
	if len(o.Files) == 0 {
		return fmt.Errorf("convert: expected at least one .tsv file, found none")
	}
	if _, ok := valueSizes[o.Source]; !ok {
		return fmt.Errorf("convert: type of the source: expected f16 (%s), f32 (%s) or f64 (%s), found %q", npy.F16,
			npy.F32, npy.F64, string(o.Source))
	}
	return o.Target.Validate()
}

// TSV converts the files. With ids files it reads the source twice: first it notes where each wanted image lies, and
// reports missing and repeated ones before anything is written; then it copies the images in the order of the ids.
// Without an ids file one pass is enough. Memory is the memory of one record plus some hundred bytes per image.
func TSV(o TSVOptions, progress Progress) (*Report, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	var sources []source
	for _, name := range o.Files {
		f, size, err := regular.Open(name)
		if err != nil {
			return nil, fmt.Errorf("convert: %w", err)
		}
		defer f.Close()
		if size > 0 {
			err = regular.Expect(name, "tab-separated records", regular.Text, regular.Table)
		}
		if err != nil {
			return nil, fmt.Errorf("convert: %w", err)
		}
		sources = append(sources, source{name: name, r: f, at: f, size: size})
	}
	rep, err := convertTSV(&o, sources, progress)
	if err != nil {
		return nil, fmt.Errorf("convert: %w", err)
	}
	return rep, nil
}

// TSVStream converts one split from a stream that cannot be read twice, such as a pipe, in its own order. name stands
// for the stream in messages.
func TSVStream(r io.Reader, name string, o TSVOptions, progress Progress) (*Report, error) {
	o.Files = []string{name}
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if len(o.Splits) != 1 || o.Splits[0].IDs != "" {
		return nil, fmt.Errorf("convert: %s: a stream gives one split in its own order: expected one split without "+
			"an ids file; store the stream in a file to choose images", name)
	}
	in := bufio.NewReaderSize(r, regular.Sniffed)
	if head, _ := in.Peek(regular.Sniffed); len(head) > 0 {
		if err := regular.ExpectHead(head, name, "tab-separated records", regular.Text, regular.Table); err != nil {
			return nil, fmt.Errorf("convert: %w", err)
		}
	}
	rep, err := convertTSV(&o, []source{{name: name, r: in, size: -1}}, progress)
	if err != nil {
		return nil, fmt.Errorf("convert: %w", err)
	}
	return rep, nil
}

func convertTSV(o *TSVOptions, sources []source, progress Progress) (*Report, error) {
	rep := &Report{Rows: map[string]int{}}
	unknown, like := make([]error, len(sources)), -1
	for i := range sources {
		var err error
		if unknown[i], err = sources[i].findColumns(); err != nil {
			return nil, err
		}
		if sources[i].columns.sure() && like < 0 {
			like = i
		}
	}
	for i := range sources {
		s := &sources[i]
		switch {
		case s.columns.sure():
		case like >= 0: // a part without the header, say, or whose records are broken
			s.columns = sources[like].columns
		case unknown[i] != nil:
			return nil, unknown[i]
		}
		if err := s.findType(o); err != nil {
			return nil, err
		}
		if s.valueSize > 0 && s.dim > 0 {
			rep.note("%s: features of %d %s values a region", s.name, s.dim, typeName(s.valueSize))
		}
	}
	if o.Splits[0].IDs == "" {
		return rep, inOrder(o, sources, rep, progress)
	}
	return rep, byIDs(o, sources, rep, progress)
}

// mostBroken is how many broken records are kept in mind of which a whole one may follow.
const mostBroken = 100

// inOrder writes the one split in the order of the source.
func inOrder(o *TSVOptions, sources []source, rep *Report, progress Progress) error {
	out, err := newOutput(&o.Target, o.Splits[0], -1)
	if err != nil {
		return err
	}
	defer out.abort()
	idx := newIndex(o.KeepFirst)
	var p parser
	var broken []Broken // so far
	for i := range sources {
		s := &sources[i]
		err := s.scan(&p, 0, -1, nil, func(r *recordReader, rec []byte) error {
			rep.Records++
			e := entry{file: int32(i), line: int32(r.line), hash: maphash.Bytes(idx.seed, rec)}
			id, err := p.begin(rec)
			if err == nil && idx.have(id) && idx.entries[id].hash == e.hash {
				idx.repeated(rep, id, e, sources, nil)
				return nil
			}
			var it *item
			if err == nil {
				it, err = p.item(id)
			}
			switch {
			case err != nil && idx.have(id):
				idx.repeated(rep, id, e, sources, err)
				return nil
			case err != nil:
				broken = append(broken, Broken{id, e.where(sources), err})
				if len(broken) > mostBroken && !o.SkipBroken {
					return fmt.Errorf("image %s: %w; %d records before it cannot be read either", id, err, mostBroken)
				}
				return nil
			case idx.have(id):
				return idx.conflict(rep, id, e, sources)
			}
			idx.entries[id] = e
			broken = slices.DeleteFunc(broken, func(b Broken) bool {
				if b.ID == id {
					rep.Duplicates = append(rep.Duplicates, Duplicate{id, e.where(sources), b.Where, b.Err.Error()})
				}
				return b.ID == id
			})
			if err := o.shape(it, rep); err != nil {
				return fmt.Errorf("image %s: %w", id, err)
			}
			if err := out.write(it, id); err != nil {
				return fmt.Errorf("image %s: %w", id, err)
			}
			progress.report("write", int64(out.written), -1)
			return nil
		})
		if err != nil {
			return err
		}
	}
	for _, b := range broken {
		if err := o.broken(rep, b.ID, b.Where, b.Err); err != nil {
			return err
		}
	}
	rep.Rows[out.split] = out.written
	return commit(out)
}

// byIDs writes every split in the order of its ids file.
func byIDs(o *TSVOptions, sources []source, rep *Report, progress Progress) error {
	idx, lists := newIndex(o.KeepFirst), make([]*idList, len(o.Splits))
	for i, s := range o.Splits {
		var err error
		if lists[i], err = readIDs(s.IDs, o.Distinct); err != nil {
			return err
		}
		if _, err = newOutput(&o.Target, s, lists[i].rows); err != nil { // before the source is read, for hours perhaps
			return err
		}
		for _, id := range lists[i].ids {
			idx.entries[id] = entry{file: -1}
		}
	}
	lines, err := idx.build(sources, rep, progress)
	if err == nil {
		err = idx.resolve(sources, rep)
	}
	if err != nil {
		return err
	}
	left := map[string]bool{}
	for _, b := range lines {
		_, wanted := idx.entries[b.ID]
		switch {
		case idx.have(b.ID):
			kept := idx.entries[b.ID]
			rep.Duplicates = append(rep.Duplicates, Duplicate{b.ID, kept.where(sources), b.Where, b.Err.Error()})
		case wanted && !left[b.ID]:
			if err := o.broken(rep, b.ID, b.Where, b.Err); err != nil {
				return err
			}
			left[b.ID] = true
		}
	}
	for _, l := range lists {
		err := l.missing(func(id string) bool { return left[id] || idx.have(id) }, strings.Join(o.Files, ", "))
		if i := slices.IndexFunc(lines, func(b Broken) bool { return b.ID == "" }); err != nil && i >= 0 {
			err = fmt.Errorf("%w; and %w", lines[i], err) // one of which it may be
		}
		if err != nil {
			return err
		}
	}
	var p parser
	var rec []byte
	return o.writeLists(lists, left, rep, progress, func(id string) (*item, string, error) {
		e := idx.entries[id]
		var it *item
		var err error
		if rec, err = e.load(sources, rec); err == nil {
			it, err = p.read(&sources[e.file], rec)
		}
		return it, e.where(sources), err
	})
}
