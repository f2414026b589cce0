package placement

import (
	"context"
	"fmt"

	"vsetrain/data"
	"vsetrain/internal/compute/device"
	"vsetrain/models"
)

// Parts of the data set that can be resident on a device with its own memory (device.resident): word ids, boxes,
// semantic vectors and features of the training split, and the features of the validation split. A batch refers to
// resident rows by number.

// residentTable is a part of the data set that can be resident.
type residentTable struct {
	name, path string
	bytes      int64
	reserve    int64 // memory that has to stay free besides it
	upload     func() error
	resident   *bool
}

// makeResident decides which parts become resident, completes the plan, and copies them to the device.
func (t *Setup) makeResident(ctx context.Context, r device.Resident, p *MemoryPlan) error {
	train, val := &models.Resident{Device: r}, &models.Resident{Device: r}
	tables, err := t.tables(ctx, train, val, p)
	if err != nil {
		return err
	}
	if t.Cfg.Device.Resident == "never" {
		return nil
	}
	free := p.Free - p.Reserve
	if !p.measured {
		free -= p.Inputs + p.Copies
	}
	for i := range tables {
		switch w := &tables[i]; {
		case w.bytes+w.reserve <= free:
			free -= w.bytes
			*w.resident = true
		case t.Cfg.Device.Resident == "always":
			return fmt.Errorf("device.resident always: %s of %s need %.1f MB on the GPU, and %.1f MB are there for "+
				"them; set device.resident to auto to stream them (%v)",
				w.name, w.path, float64(w.bytes)/1e6, float64(max(0, free-w.reserve))/1e6, p)
		}
	}
	for i := range tables {
		if w := &tables[i]; *w.resident {
			if err := w.upload(); err != nil {
				return fmt.Errorf("%s of %s on the GPU: %w", w.name, w.path, err)
			}
		}
	}
	t.readFrom(train, val)
	return t.Device.Sync()
}

// tables lists the parts that can be resident, small ones first: word ids unless captions are augmented, and boxes
// unless they change with every use.
func (t *Setup) tables(ctx context.Context, train, val *models.Resident, p *MemoryPlan) (all []residentTable,
	err error) {
	s, c := t.Train, t.Cfg
	add := func(w residentTable) {
		m := &MemoryTable{Name: w.name, Bytes: w.bytes}
		w.resident = &m.Resident
		p.Tables, all = append(p.Tables, m), append(all, w)
	}
	if !c.Model.Traits().SizeAugment {
		ids, starts, err := data.CaptionIDs(s, t.Tokenizer)
		if err != nil {
			return nil, err
		}
		add(residentTable{name: "word ids", path: s.CaptionPath(), bytes: 4 * int64(len(ids)+len(starts)),
			upload: func() (err error) {
				if train.Words, err = t.Ints(ids); err == nil {
					train.Starts, err = t.Ints(starts)
				}
				return err
			}})
	}
	if s.HasBoxes() && c.Model.Traits().Boxes && !c.Model.Traits().DecayedBoxes {
		add(residentTable{name: "boxes", path: s.FeaturePath(), bytes: 16 * int64(s.FeatureRows()) * int64(s.Regions()),
			upload: func() (err error) {
				train.Boxes, err = storeRows(ctx, train.Device, s.FeatureRows(), 4*s.Regions(), false, s.ReadBoxes, nil)
				return err
			}})
	}
	if k := s.SemanticDim(); k > 0 {
		add(residentTable{name: "semantic vectors", path: s.SemanticsPath(), bytes: 4 * int64(s.NumCaptions()) *
			int64(k), upload: func() (err error) {
			train.Semantics, err = storeRows(ctx, train.Device, s.NumCaptions(), k, false, s.ReadSemantics, nil)
			return err
		}})
	}
	features := func(name string, s *data.Split, to *device.Table, done func(done, total int)) residentTable {
		width := s.Regions() * s.Dim()
		w := residentTable{name: name, path: s.FeaturePath(), bytes: 4 * int64(s.FeatureRows()) * int64(width)}
		if s.HalfFeatures() {
			w.bytes /= 2
		}
		w.upload = func() (err error) {
			*to, err = storeRows(ctx, train.Device, s.FeatureRows(), width, s.HalfFeatures(), s.ReadImage, done)
			return err
		}
		return w
	}
	w := features("features", s, &train.Features, t.Copying)
	p.Half, p.Features, w.resident = s.HalfFeatures(), w.bytes, &p.Resident
	all = append(all, w)
	if t.Val != nil {
		w := features("validation features", t.Val, &val.Features, nil)
		if _, ok := t.Model.PairScorer(); ok {
			w.reserve = min(4<<30, p.Total/8) // for encoded values and tiles of pairs
		}
		add(w)
	}
	return all, nil
}

// storeRows copies rows to the device.
func storeRows(ctx context.Context, r device.Resident, rows, width int, half bool,
	read func(dst []float32, row int) error, done func(done, total int)) (device.Table, error) {
	table, err := r.NewTable(rows*width, half)
	if err != nil {
		return nil, err
	}
	piece := max(1, (1<<18)/width)
	buf := make([]float32, min(piece, rows)*width)
	for lo := 0; lo < rows; lo += piece {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if done != nil {
			done(lo, rows)
		}
		hi := min(rows, lo+piece)
		for i := lo; i < hi; i++ {
			if err := read(buf[(i-lo)*width:(i-lo+1)*width], i); err != nil {
				return nil, err
			}
		}
		r.Store(table, lo*width, buf[:(hi-lo)*width])
	}
	return table, nil
}

// Ints copies integers to the device.
func (t *Setup) Ints(x []int32) (device.View, error) {
	b, err := t.Device.Alloc(device.Int32, len(x))
	if err != nil {
		return device.View{}, err
	}
	v := device.ViewOf(b)
	t.Device.UploadInts(v, x)
	return v, nil
}
