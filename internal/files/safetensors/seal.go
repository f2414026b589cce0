package safetensors

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"sync"

	"vsetrain/internal/files/mapped"
)

// A sealed file carries a SHA-256 of all other metadata and of names, types, shapes and elements of all tensors. The
// elements are hashed in pieces, several at a time, and the hash is one of the hashes of the pieces.
const (
	sealKey     = "vsetrain.sha256"
	sealPiece   = 1 << 20           // bytes
	piecesKey   = "vsetrain.pieces" // the begin of the hash of each piece, so that a damage has a place
	pieceDigits = 8
)

// ErrDamaged is a sealed file whose content is not what was written.
var ErrDamaged = errors.New("the file is damaged: its content does not fit its checksum; use another copy of it")

// WriteSealed is WriteStream for a sealed file. It calls data twice for each tensor, first to hash the elements; both
// must give the same bytes. Where data is nil they are the Data of the tensors.
func WriteSealed(w io.Writer, tensors []Tensor, metadata map[string]string, data func(i int, w io.Writer) error) error {
	if data == nil {
		data = func(i int, w io.Writer) error {
			_, err := w.Write(tensors[i].Data)
			return err
		}
	}
	h := newHasher(nil)
	for i := range tensors {
		t := &tensors[i]
		p := &pieceWriter{hasher: h}
		size, err := byteSize(t.DType, t.Shape)
		if err == nil {
			err = data(i, p)
			p.flush()
		}
		if err == nil && p.n != size {
			err = fmt.Errorf("given %d bytes: shape %v of %s needs %d", p.n, t.Shape, t.DType, size)
		}
		if err != nil {
			h.wait()
			return fmt.Errorf("safetensors: hash tensor %q: %w", t.Name, err)
		}
	}
	h.wait()
	sealed := map[string]string{piecesKey: h.pieces()}
	maps.Copy(sealed, metadata)
	seal, err := h.sum(sealed, tensors)
	if err != nil {
		return err
	}
	sealed[sealKey] = seal
	return WriteStream(w, tensors, sealed, data)
}

// Seal returns the SHA-256 that a sealed file carries, "" of another.
func (f *File) Seal() string { return f.metadata[sealKey] }

// Verify reads all of a sealed file and returns ErrDamaged where the content does not fit the checksum. A file without
// one is whole as far as can be known; then sealed is false. ErrDamaged does not name the file.
func (f *File) Verify() (sealed bool, err error) {
	want, sealed := f.metadata[sealKey]
	if !sealed {
		return false, nil
	}
	h := newHasher(f.mem)
	for i := range f.tensors {
		for part := range slices.Chunk(f.tensors[i].Data, sealPiece) {
			h.add(part)
		}
	}
	h.wait()
	metadata := f.Metadata()
	delete(metadata, sealKey)
	got, err := h.sum(metadata, f.tensors)
	if err == nil && got != want {
		err = f.damage(h.pieces())
	}
	return true, err
}

// damage says where the pieces of a file differ from those that were written.
func (f *File) damage(pieces string) error {
	should := f.metadata[piecesKey]
	if len(should) != len(pieces) { // of an earlier version
		return ErrDamaged
	}
	k := 0
	for _, t := range f.tensors {
		for from := 0; from < len(t.Data); from += sealPiece {
			if should[k:k+pieceDigits] != pieces[k:k+pieceDigits] {
				return fmt.Errorf("tensor %q, bytes %d to %d: %w", t.Name, from, min(from+sealPiece, len(t.Data))-1,
					ErrDamaged)
			}
			k += pieceDigits
		}
	}
	return fmt.Errorf("its header: %w", ErrDamaged)
}

// hasher hashes pieces in several goroutines.
type hasher struct {
	mem  *mapped.File // that the pieces lie in; may be nil
	jobs chan hashJob
	free chan []byte // buffers of pieces that are copied
	sums []*[sha256.Size]byte
	wg   sync.WaitGroup
	mu   sync.Mutex
	err  error
}

type hashJob struct {
	data []byte
	sum  *[sha256.Size]byte
	back bool // data is one of the buffers
}

func newHasher(mem *mapped.File) *hasher {
	n := min(8, runtime.GOMAXPROCS(0))
	h := &hasher{mem: mem, jobs: make(chan hashJob, n), free: make(chan []byte, 2*n)}
	for range cap(h.free) {
		h.free <- nil
	}
	for range n {
		h.wg.Go(func() {
			for j := range h.jobs {
				if err := h.hash(j); err != nil {
					h.mu.Lock()
					h.err = err
					h.mu.Unlock()
				}
				if j.back {
					h.free <- j.data[:0]
				}
			}
		})
	}
	return h
}

func (h *hasher) hash(j hashJob) (err error) {
	defer h.mem.Recover(mapped.Watch(), &err)
	*j.sum = sha256.Sum256(j.data)
	return nil
}

// add hashes a piece that stays as it is.
func (h *hasher) add(data []byte) { h.start(hashJob{data: data}) }

func (h *hasher) start(j hashJob) {
	j.sum = new([sha256.Size]byte)
	h.sums = append(h.sums, j.sum)
	h.jobs <- j
}

func (h *hasher) wait() {
	close(h.jobs)
	h.wg.Wait()
}

// pieces returns the begins of the hashes of all pieces.
func (h *hasher) pieces() string {
	var all []byte
	for _, s := range h.sums {
		all = hex.AppendEncode(all, s[:pieceDigits/2])
	}
	return string(all)
}

// sum returns the checksum of a file, all of whose pieces have been waited for.
func (h *hasher) sum(metadata map[string]string, tensors []Tensor) (string, error) {
	if h.err != nil {
		return "", h.err
	}
	all := sha256.New()
	for _, k := range slices.Sorted(maps.Keys(metadata)) {
		fmt.Fprintf(all, "%q %q\n", k, metadata[k])
	}
	for i := range tensors {
		fmt.Fprintf(all, "%q %s %v\n", tensors[i].Name, tensors[i].DType, tensors[i].Shape)
	}
	for _, s := range h.sums {
		all.Write(s[:])
	}
	return hex.EncodeToString(all.Sum(nil)), nil
}

// pieceWriter cuts a stream into pieces and hashes them.
type pieceWriter struct {
	*hasher
	n   int64 // bytes so far
	buf []byte
}

// Write implements io.Writer.
func (p *pieceWriter) Write(b []byte) (int, error) {
	n := len(b)
	for p.n += int64(n); len(b) > 0; {
		if p.buf == nil {
			if p.buf = <-p.free; p.buf == nil {
				p.buf = make([]byte, 0, min(sealPiece, len(b))) // most tensors come at once
			}
		}
		k := min(len(b), sealPiece-len(p.buf))
		p.buf = append(p.buf, b[:k]...)
		b = b[k:]
		if len(p.buf) == sealPiece {
			p.flush()
		}
	}
	return n, nil
}

func (p *pieceWriter) flush() {
	if len(p.buf) > 0 {
		p.start(hashJob{data: p.buf, back: true})
		p.buf = nil
	}
}
