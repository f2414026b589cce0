// Package extract computes features of pictures with an ONNX model: the image encoder whose features a network was
// trained on, such as a convolutional network with a grid of outputs. FILE.yaml next to FILE.onnx says how a picture
// becomes its input (Preprocessing). Package data reads the result.
package extract

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"vsetrain/internal/files/atomicfile"
	"vsetrain/internal/files/npy"
	"vsetrain/internal/files/pictures"
	"vsetrain/internal/files/regular"
)

// Request asks for the features of a folder of pictures.
type Request struct {
	Images string // folder of the pictures
	// IDs is a file with an image id per line, which chooses the pictures and their order; "" is all pictures of the
	// folder, sorted by name.
	IDs string
	// Out is the features file, ending in .npy, or the folder of a data set, where the files belong to Split.
	Out, Split string
	DType      npy.DType // npy.F32 or npy.F16
	Batch      int       // pictures at a time
	Threads    int       // that decode pictures; 0 is all processors
	SkipBroken bool      // leave out pictures that cannot be read
	Force      bool      // replace existing files
	// Add adds the pictures whose ids an existing gallery lacks, all of them or none; DType becomes the type of the
	// gallery. A gallery that does not exist is created.
	Add      bool
	Progress func(done, total int)
	Broken   func(id string, err error) // receives every picture that is left out; may be nil
}

// Report is the outcome.
type Report struct {
	Rows, Regions, Dim int
	Skipped            int    // pictures that could not be read
	Others             Others // files of the folder without the name of a picture
	Resumed            int    // pictures done by an earlier session
	Files              []string
	Added              bool // to an existing gallery
	Had                int  // pictures that the gallery had
}

// Others counts files by their extensions.
type Others map[string]int

// String lists the extensions with their counts; "" without files.
func (o Others) String() string {
	var list []string
	for _, end := range slices.Sorted(maps.Keys(o)) {
		list = append(list, fmt.Sprintf("%s (%d)", cmp.Or(end, "no ending"), o[end]))
	}
	return strings.Join(list, ", ")
}

const maxIDs = 1 << 30

// readIDs reads the ids file, or lists the pictures of the folder with their paths inside it as ids.
func (r *Request) readIDs() (ids []string, others Others, err error) {
	if r.IDs == "" {
		return listPictures(r.Images)
	}
	text, err := regular.ReadText(r.IDs, maxIDs, "ids of images")
	if err != nil {
		return nil, nil, fmt.Errorf("ids: %w", err)
	}
	lines := strings.Split(strings.TrimSuffix(strings.ReplaceAll(text, "\r\n", "\n"), "\n"), "\n")
	for i, id := range lines {
		lines[i] = strings.TrimSpace(id)
		if err := regular.CheckID(lines[i]); err != nil {
			return nil, nil, fmt.Errorf("%s:%d: %w", r.IDs, i+1, err)
		}
	}
	return lines, nil, nil
}

// listPictures returns the pictures below a folder, sorted, and counts the other files by extension. It ignores hidden
// files.
func listPictures(dir string) (ids []string, others Others, err error) {
	others = Others{}
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			return nil
		}
		if end := strings.ToLower(filepath.Ext(path)); !slices.Contains(pictures.Endings, end) {
			if e.Type().IsRegular() {
				others[end]++
			}
			return nil
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		id := filepath.ToSlash(name)
		if err := regular.CheckID(id); err != nil {
			return fmt.Errorf("the name of a picture is its id: %w", err)
		}
		ids = append(ids, id)
		return nil
	})
	slices.Sort(ids)
	if err == nil && len(ids) == 0 {
		err = fmt.Errorf("%s: no pictures; expected files ending in %s, found %s", dir,
			strings.Join(pictures.Endings, ", "), cmp.Or(others.String(), "no file"))
	}
	return ids, others, err
}

// Run computes the features. Finished batches survive a kill, and the next session continues after them.
func Run(ctx context.Context, x *Extractor, r Request) (rep Report, err error) {
	out, err := r.files()
	if err != nil {
		return rep, err
	}
	var had *target
	if r.Add {
		if had, err = openTarget(x, &r); err != nil {
			return rep, err
		}
	}
	gallery, err := pictures.OpenGallery(r.Images)
	if err != nil {
		return rep, err
	}
	ids, others, err := r.readIDs()
	if err != nil {
		return rep, err
	}
	rep.Others = others
	if had != nil {
		n := len(ids)
		if ids, err = had.without(ids); err != nil {
			return rep, err
		}
		rep.Added, rep.Had, rep.Regions, rep.Dim = true, n-len(ids), x.Regions, x.Dim
	} else if err := r.free(out); err != nil {
		return rep, err
	}
	if err := atomicfile.MkdirAll(filepath.Dir(out.features)); err != nil {
		return rep, err
	}
	w, err := openWork(out.features, r.key(x, ids), r.DType, x.Regions, x.Dim)
	if err != nil {
		return rep, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	rep.Resumed = len(w.sizes)
	if rep.Resumed > len(ids) {
		return rep, errors.New("work in progress: more pictures than there are ids")
	}
	if err := r.compute(ctx, x, gallery, ids, w); err != nil {
		return rep, err
	}
	if had != nil {
		return rep, had.add(ctx, x, ids, w, &rep)
	}
	return rep, r.write(x, ids, w, out, &rep)
}

// key returns the digest of everything that the rows depend on. It leaves out SkipBroken, with which a session
// continues after a broken picture.
func (r *Request) key(x *Extractor, ids []string) (key [sha256.Size]byte) {
	h := sha256.New()
	images, err := filepath.Abs(r.Images)
	if err != nil {
		images = r.Images
	}
	fmt.Fprintf(h, "%s\n%s\n%q\n%s\n%d\n%q\n", x.Hash, x.Runtime, images, r.DType, r.Batch, ids)
	h.Sum(key[:0])
	return key
}

type batch struct {
	inputs []float32
	sizes  [][2]uint32
	errs   []error
}

// compute computes the missing batches. It decodes a batch while the model runs on the previous one.
func (r *Request) compute(ctx context.Context, x *Extractor, g *pictures.Gallery, ids []string, w *work) error {
	report := func(done int) {
		if r.Progress != nil {
			r.Progress(done, len(ids))
		}
	}
	report(len(w.sizes))
	ctx, stop := context.WithCancel(ctx)
	next := make(chan *batch)
	var decoding sync.WaitGroup
	defer decoding.Wait()
	defer stop()
	decoding.Go(func() {
		defer close(next)
		for at := w.batches * r.Batch; at < len(ids); at += r.Batch {
			b := r.decode(ctx, x, g, ids[at:min(len(ids), at+r.Batch)])
			select {
			case next <- b:
			case <-ctx.Done():
				return
			}
		}
	})
	for done := len(w.sizes); done < len(ids); {
		var b *batch
		select {
		case b = <-next:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		rows, err := r.rows(x, b, ids[done:])
		if err != nil {
			return err
		}
		if err := w.add(rows, b.sizes); err != nil {
			return atomicfile.Explain("write", filepath.Dir(w.rows.Name()), err)
		}
		done += len(b.sizes)
		report(done)
	}
	return nil
}

// decode reads pictures in parallel. A large picture delays only its batch.
func (r *Request) decode(ctx context.Context, x *Extractor, g *pictures.Gallery, ids []string) *batch {
	b := &batch{inputs: make([]float32, len(ids)*x.size()), sizes: make([][2]uint32, len(ids)),
		errs: make([]error, len(ids))}
	threads := r.Threads
	if threads <= 0 {
		threads = runtime.NumCPU()
	}
	free := make(chan struct{}, threads)
	var all sync.WaitGroup
	for i, id := range ids {
		free <- struct{}{}
		all.Go(func() {
			defer func() { <-free }()
			if ctx.Err() != nil {
				return
			}
			b.sizes[i], b.errs[i] = x.read(ctx, g, id, b.inputs[i*x.size():(i+1)*x.size()])
		})
	}
	all.Wait()
	return b
}

func (x *Extractor) read(ctx context.Context, g *pictures.Gallery, id string, dst []float32) (size [2]uint32,
	err error) {
	path, err := g.Path(id)
	if err != nil {
		return size, err
	}
	p, err := pictures.Open(ctx, path)
	if err != nil {
		return size, err
	}
	if err := x.prep.check(p); err != nil {
		return size, fmt.Errorf("%s: %w", path, err)
	}
	x.prep.tensor(dst, p)
	return [2]uint32{uint32(p.Width), uint32(p.Height)}, nil
}

// rows runs the model on the readable pictures of a batch and encodes the features.
func (r *Request) rows(x *Extractor, b *batch, ids []string) ([]byte, error) {
	n, size := 0, x.size()
	for i, err := range b.errs {
		if err == nil {
			copy(b.inputs[n*size:(n+1)*size], b.inputs[i*size:(i+1)*size])
			n++
			continue
		}
		if !r.SkipBroken {
			return nil, fmt.Errorf("image %q: %w; repair it, or leave out such pictures with --skip-broken (finished "+
				"pictures are kept)", ids[i], err)
		}
		if r.Broken != nil {
			r.Broken(ids[i], err)
		}
	}
	if n == 0 {
		return nil, nil
	}
	y, err := x.features(b.inputs[:n*size], n)
	if err != nil {
		return nil, err
	}
	return encode(y, r.DType, x.Model)
}
