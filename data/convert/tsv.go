package convert

import (
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"strings"

	"vsetrain/internal/files/regular"
)

// TSVOptions describes a conversion of bottom-up-attention's tab-separated files: one image per line with the fields
// image_id, image_w, image_h, num_boxes, boxes (base64 float32 [num_boxes, 4]) and features (base64 float32
// [num_boxes, D]). A header line may name the fields in another order.
type TSVOptions struct {
	Target
	Files     []string // the parts of the source, in order
	KeepFirst bool     // of images that occur twice with different content keep the first; otherwise they are an error
}

// Validate returns an error that names the first field that cannot be used.
func (o *TSVOptions) Validate() error {
	if len(o.Files) == 0 {
		return fmt.Errorf("convert: expected at least one .tsv file, found none")
	}
	return o.Target.Validate()
}

// TSV converts the files. With ids files it reads the source twice: first it notes where each wanted image lies, and
// reports missing and repeated ones before anything is written; then it copies the images in the order of the ids.
// Without an ids file one pass is enough. Memory is that of one record plus some hundred bytes per image.
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
		sources = append(sources, source{name, f, f, size})
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
	rep, err := convertTSV(&o, []source{{name, r, nil, -1}}, progress)
	if err != nil {
		return nil, fmt.Errorf("convert: %w", err)
	}
	return rep, nil
}

// source is one file; at is nil for a stream.
type source struct {
	name string
	r    io.Reader
	at   io.ReaderAt
	size int64
}

func convertTSV(o *TSVOptions, sources []source, progress Progress) (*Report, error) {
	rep := &Report{Rows: map[string]int{}}
	if o.Splits[0].IDs == "" {
		return rep, inOrder(o, sources, rep, progress)
	}
	return rep, byIDs(o, sources, rep, progress)
}

// scan calls visit for every record of a source that is not a header.
func (s *source) scan(p *parser, done, total int64, progress Progress,
	visit func(r *recordReader, rec []byte) error) error {
	r := newRecordReader(s.r)
	p.columns = defaultColumns
	first := true
	for n := 0; ; n++ {
		rec, err := r.read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil && first {
			first = false
			var is bool
			if i := strings.IndexByte(string(rec[:min(len(rec), 64)]), '\t'); i >= 0 {
				if p.fields, err = splitFields(append([]byte(nil), rec...), p.fields); err == nil {
					p.columns, is, err = header(p.fields)
				}
			}
			if is && err == nil {
				continue
			}
		}
		if err == nil {
			err = visit(r, rec)
		}
		if err != nil {
			return fmt.Errorf("%s:%d: %w", s.name, r.line, err)
		}
		if n%64 == 0 {
			progress.report("index", done+r.end, total)
		}
	}
	progress.report("index", done+r.end, total)
	return nil
}

// inOrder writes the one split in the order of the source.
func inOrder(o *TSVOptions, sources []source, rep *Report, progress Progress) error {
	out, err := newOutput(&o.Target, o.Splits[0], -1)
	if err != nil {
		return err
	}
	defer out.abort()
	idx := newIndex(o.KeepFirst)
	var p parser
	for i := range sources {
		s := &sources[i]
		err := s.scan(&p, 0, -1, nil, func(r *recordReader, rec []byte) error {
			rep.Records++
			hash := maphash.Bytes(idx.seed, rec)
			it, err := p.item(rec)
			if err != nil {
				return err
			}
			e := entry{file: int32(i), line: int32(r.line), hash: hash}
			if dup, err := idx.put(it.id, e, sources, rep); dup || err != nil {
				return err
			}
			if err := o.shape(it, rep); err != nil {
				return fmt.Errorf("image %s: %w", it.id, err)
			}
			if err := out.write(it); err != nil {
				return fmt.Errorf("image %s: %w", it.id, err)
			}
			progress.report("write", int64(out.written), -1)
			return nil
		})
		if err != nil {
			return err
		}
	}
	rep.Rows[out.split] = out.written
	return commit(out)
}

// byIDs writes every split in the order of its ids file.
func byIDs(o *TSVOptions, sources []source, rep *Report, progress Progress) error {
	idx := newIndex(o.KeepFirst)
	lists := make([]*idList, len(o.Splits))
	outs := make([]*output, len(o.Splits))
	var rows, done int64
	for i, s := range o.Splits {
		var err error
		if lists[i], err = readIDs(s.IDs); err != nil {
			return err
		}
		if outs[i], err = newOutput(&o.Target, s, len(lists[i].ids)); err != nil {
			return err
		}
		for _, id := range lists[i].ids {
			idx.entries[id] = entry{file: -1}
		}
		rows += int64(len(lists[i].ids))
	}
	columns, err := idx.build(sources, rep, progress)
	if err != nil {
		return err
	}
	for _, l := range lists {
		if err := l.missing(idx.have, strings.Join(o.Files, ", ")); err != nil {
			return err
		}
	}
	var p parser
	var rec []byte
	for i, out := range outs {
		defer out.abort()
		last := ""
		var it *item
		for _, id := range lists[i].ids {
			e := idx.entries[id]
			if id != last {
				p.columns = columns[e.file]
				if rec, err = e.load(sources, rec); err == nil {
					it, err = p.item(rec)
				}
				if err != nil {
					return fmt.Errorf("%s: %w", e.where(sources), err)
				}
				if err := o.shape(it, rep); err != nil {
					return fmt.Errorf("%s: image %s: %w", e.where(sources), id, err)
				}
				last = id
			}
			if err := out.write(it); err != nil {
				return fmt.Errorf("%s: image %s: %w", e.where(sources), id, err)
			}
			done++
			progress.report("write", done, rows)
		}
		rep.Rows[out.split] = out.written
	}
	return commit(outs...)
}
