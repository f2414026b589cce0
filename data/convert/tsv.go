package convert

import (
	"bufio"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"

	"vsetrain/internal/files/regular"
)

// tsv converts tab-separated files of region features, in the columns of a published set (columnSets) or of a header
// line: image_id, num_boxes and features, and optionally boxes, image_w and image_h. Boxes [num_boxes, 4] and features
// [num_boxes, D] are base64 of float16, float32 or float64.
//
// With ids files it reads the source twice: first it notes where each wanted image is, and reports missing and repeated
// ones before it writes anything; then it copies the images in the order of the ids. Without an ids file one pass is
// enough. Memory is the memory of one record plus some hundred bytes per image.
func (c *conversion) tsv() error {
	if c.Sources[0] == "-" {
		return c.stream("stdin")
	}
	var sources []source
	for _, name := range c.Sources {
		f, size, err := regular.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		if size > 0 {
			if err := regular.Expect(name, "tab-separated records", regular.Text, regular.Table); err != nil {
				return err
			}
		}
		sources = append(sources, source{name: name, r: f, at: f, bytes: size})
	}
	return c.records(sources)
}

// stream converts one split from In, which cannot be read twice, in its own order. name stands for it in messages.
func (c *conversion) stream(name string) error {
	if len(c.Splits) != 1 || c.Splits[0].IDs != "" {
		return fmt.Errorf("%s: a stream gives one split in its own order: expected one split without an ids file; "+
			"store the stream in a file to choose images", name)
	}
	in := bufio.NewReaderSize(c.In, surveyed)
	begin, _ := in.Peek(surveyed) // an error comes back when the records are read
	if head := begin[:min(len(begin), regular.Sniffed)]; len(head) > 0 {
		if err := regular.ExpectHead(head, name, "tab-separated records", regular.Text, regular.Table); err != nil {
			return err
		}
	}
	return c.records([]source{{name: name, r: in, bytes: -1, begin: begin}})
}

func (c *conversion) records(sources []source) error {
	unknown, like := make([]error, len(sources)), -1
	for i := range sources {
		var err error
		if unknown[i], err = sources[i].findColumns(); err != nil {
			return err
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
			return unknown[i]
		}
		if err := s.findType(&c.Options); err != nil {
			return err
		}
		if s.size > 0 && s.dim > 0 {
			c.note("%s: features of %d %s values a region", s.name, s.dim, typeName(s.size))
		}
	}
	if c.Splits[0].IDs == "" {
		return c.inOrder(sources)
	}
	return c.byIDs(sources)
}

// mostBroken is how many broken records are remembered before a whole record of the same image is found.
const mostBroken = 100

// inOrder writes the one split in the order of the source.
func (c *conversion) inOrder(sources []source) error {
	out, err := c.newOutput(c.Splits[0], -1)
	if err != nil {
		return err
	}
	defer out.abort()
	x := c.newIndex(sources)
	var p parser
	var broken []Broken // so far
	for i := range sources {
		err := sources[i].scan(&p, func(int64) {}, func(r *recordReader, rec []byte) error {
			c.Records++
			e := entry{file: int32(i), line: int32(r.line), hash: maphash.Bytes(x.seed, rec)}
			id, err := p.begin(rec)
			if err == nil && x.have(id) && x.entries[id].hash == e.hash {
				x.repeated(id, x.where(e), sameRecord)
				return nil
			}
			var it *item
			if err == nil {
				it, err = p.item()
			}
			switch {
			case err != nil && x.have(id):
				x.repeated(id, x.where(e), err.Error())
				return nil
			case err != nil:
				broken = append(broken, Broken{id, x.where(e), err})
				if len(broken) > mostBroken && !c.SkipBroken {
					return fmt.Errorf("image %s: %w; %d records before it cannot be read either", id, err, mostBroken)
				}
				return nil
			case x.have(id):
				return x.conflict(id, e)
			}
			x.entries[id] = e
			broken = slices.DeleteFunc(broken, func(b Broken) bool {
				if b.ID == id {
					x.repeated(id, b.Where, b.Err.Error())
				}
				return b.ID == id
			})
			if err := c.fitItem(it); err != nil {
				return fmt.Errorf("image %s: %w", id, err)
			}
			if err := out.write(it, id); err != nil {
				return fmt.Errorf("image %s: %w", id, err)
			}
			c.progress.report("write", int64(len(out.lengths)), -1)
			return nil
		})
		if err != nil {
			return err
		}
	}
	for _, b := range broken {
		if err := c.broken(b.ID, b.Where, b.Err); err != nil {
			return err
		}
	}
	return c.commit(out)
}

// byIDs writes every split in the order of its ids file.
func (c *conversion) byIDs(sources []source) error {
	x, lists := c.newIndex(sources), make([]*idList, len(c.Splits))
	for i, s := range c.Splits {
		var err error
		if lists[i], err = readIDs(s.IDs, c.Distinct); err != nil {
			return err
		}
		if _, err = c.newOutput(s, lists[i].rows); err != nil { // before the source is read, which may take hours
			return err
		}
		for _, id := range lists[i].ids {
			x.entries[id] = entry{file: -1}
		}
	}
	lines, err := x.build()
	if err == nil {
		err = x.resolve()
	}
	if err != nil {
		return err
	}
	left := map[string]bool{}
	for _, b := range lines {
		_, wanted := x.entries[b.ID]
		switch {
		case x.have(b.ID):
			x.repeated(b.ID, b.Where, b.Err.Error())
		case wanted && !left[b.ID]:
			if err := c.broken(b.ID, b.Where, b.Err); err != nil {
				return err
			}
			left[b.ID] = true
		}
	}
	for _, l := range lists {
		err := l.missing(func(id string) bool { return left[id] || x.have(id) }, strings.Join(c.Sources, ", "))
		if i := slices.IndexFunc(lines, func(b Broken) bool { return b.ID == "" }); err != nil && i >= 0 {
			err = fmt.Errorf("%w; and %w", lines[i], err) // one of which it may be
		}
		if err != nil {
			return err
		}
	}
	var p parser
	return c.writeLists(lists, left, func(id string) (it *item, where string, err error) {
		e := x.entries[id]
		rec, err := x.load(&p, e)
		if err == nil {
			it, err = p.read(&sources[e.file], rec)
		}
		return it, x.where(e), err
	})
}
