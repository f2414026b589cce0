package extract

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"vsetrain/data"
	"vsetrain/internal/files/half"
	"vsetrain/internal/files/npy"
	"vsetrain/internal/files/pictures"
)

// target is a gallery to which pictures are added.
type target struct {
	dir, split string
	dtype      npy.DType
	boxes      bool
	ids        map[string]bool
}

// openTarget opens the gallery of a request and checks that the extractor made its features. It sets the type of the
// request to the type of the gallery. If there is no gallery yet, it returns nil.
func openTarget(x *Extractor, r *Request) (*target, error) {
	if r.Split == "" {
		return nil, fmt.Errorf("--add adds to a split in a folder; --out %s is a file", r.Out)
	}
	if _, err := os.Stat(filepath.Join(r.Out, r.Split+"_ims.npy")); errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	s, err := data.Open(r.Out, r.Split, data.OpenOptions{Partial: true})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if s.NumCaptions() > 0 {
		return nil, fmt.Errorf("%s: the split has captions; expected a gallery, which has none", s.CaptionPath())
	}
	record, err := data.LoadExtractor(r.Out, r.Split)
	if err == nil && record == nil {
		err = fmt.Errorf("%s does not say which model made the features; compute all of them with --force",
			data.ExtractorFile(r.Out, r.Split))
	}
	if err == nil {
		err = x.Made(record)
	}
	if err != nil {
		return nil, err
	}
	t := &target{dir: r.Out, split: r.Split, ids: map[string]bool{}}
	t.dtype, t.boxes = data.FeatureDType(s)
	r.DType = t.dtype
	for _, id := range data.ImageIDs(s) {
		t.ids[id] = true
	}
	return t, nil
}

// without returns the ids that the gallery lacks. An id that is listed twice is an error.
func (t *target) without(ids []string) (missing []string, err error) {
	asked := make(map[string]bool, len(ids))
	for i, id := range ids {
		if asked[id] {
			return nil, fmt.Errorf("image id %q is listed twice, the second time as number %d of the ids", id, i+1)
		}
		if asked[id] = true; !t.ids[id] {
			missing = append(missing, id)
		}
	}
	return missing, nil
}

func (t *target) add(ctx context.Context, x *Extractor, ids []string, w *work, rep *Report) error {
	var c data.Change
	for i, s := range w.sizes {
		if s[0] > 0 {
			c.Added = append(c.Added, data.NewImage{ID: ids[i], Width: s[0], Height: s[1]})
		}
	}
	rep.Rows, rep.Skipped = len(c.Added), len(ids)-len(c.Added)
	if _, err := w.rows.Seek(w.head, io.SeekStart); err != nil {
		return err
	}
	if rep.Rows > 0 {
		rep.Files = []string{data.ChangesFile(t.dir, t.split)}
		err := data.Amend(ctx, t.dir, t.split, c, func(to io.Writer) error {
			for _, n := range c.Added {
				if _, err := io.CopyN(to, w.rows, w.rowSize); err != nil {
					return err
				}
				if err := t.writeBoxes(to, x, n); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return w.forget()
}

func (t *target) writeBoxes(to io.Writer, x *Extractor, n data.NewImage) error {
	if !t.boxes {
		return nil
	}
	if !x.HasBoxes() {
		return fmt.Errorf("%s: the output is not a grid, and the images of the gallery have boxes", x.Model)
	}
	return binary.Write(to, binary.LittleEndian, x.Boxes(int(n.Width), int(n.Height)))
}

// Gallery is a split whose features an extractor made, and to which it adds pictures one by one. Its methods may be
// called from several goroutines.
type Gallery struct {
	Dir, Split string
	Extractor  *Extractor
}

// Add computes the features of a picture, adds it and returns when it is on disk. The error for an id that the gallery
// has is data.ErrImageExists.
func (g *Gallery) Add(ctx context.Context, id string, p *pictures.RGB) error {
	t, err := openTarget(g.Extractor, &Request{Out: g.Dir, Split: g.Split})
	if err != nil {
		return err
	}
	if t == nil || t.ids[id] { // checked before the work
		return &data.ChangeError{Text: fmt.Sprintf("image %.200q: %v", id, data.ErrImageExists),
			Kind: data.ErrImageExists}
	}
	y, err := g.Extractor.Picture(ctx, p)
	if err != nil {
		return err
	}
	row, err := encode(y, t.dtype, g.Extractor.Model)
	if err != nil {
		return err
	}
	n := data.NewImage{ID: id, Width: uint32(p.Width), Height: uint32(p.Height)}
	var boxes bytes.Buffer
	if err := t.writeBoxes(&boxes, g.Extractor, n); err != nil {
		return err
	}
	return data.Amend(ctx, g.Dir, g.Split, data.Change{Added: []data.NewImage{n}}, func(to io.Writer) error {
		_, err := to.Write(append(row, boxes.Bytes()...))
		return err
	})
}

// encode returns features as they are stored.
func encode(y []float32, d npy.DType, model string) ([]byte, error) {
	if d != npy.F16 {
		return binary.Append(nil, binary.LittleEndian, y)
	}
	out := make([]byte, 2*len(y))
	if bad := half.Encode(out, y); bad >= 0 {
		return nil, fmt.Errorf("%s: the value %v does not fit float16; use --dtype f32", model, y[bad])
	}
	return out, nil
}
