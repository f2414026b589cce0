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

// A sealed file carries a SHA-256 of all other metadata and of the names, types, shapes and elements of all tensors.
// The elements are hashed in pieces, several at a time; the checksum covers the hashes of the pieces.
const (
	sealKey     = "vsetrain.sha256"
	sealPiece   = 1 << 20           // bytes
	piecesKey   = "vsetrain.pieces" // the beginning of the hash of each piece, to locate damage
	pieceDigits = 8
)

// ErrDamaged is the error for a sealed file whose content differs from what was written.
var ErrDamaged = errors.New("the file is damaged: its content does not fit its checksum; use another copy of it")

// WriteSealed is Write for a sealed file. It calls data twice for each tensor, first to hash the elements; both calls
// must write the same bytes.
func WriteSealed(w io.Writer, tensors []Tensor, metadata map[string]string, data func(i int, w io.Writer) error) error {
	if data == nil {
		data = inMemory(tensors)
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
	return Write(w, tensors, sealed, data)
}

// Seal returns the SHA-256 that a sealed file carries, or "" for an unsealed file.
func (f *File) Seal() string { return f.metadata[sealKey] }

// Verify reads all of a sealed file and returns ErrDamaged, which does not name the file, if the content does not match
// the checksum. For a file without a checksum, sealed is false and nothing is compared.
func (f *File) Verify() (sealed bool, err error) {
	want, sealed := f.metadata[sealKey]
	if !sealed {
		return false, nil
	}
	h := newHasher(f.mem)
	for i := range f.tensors {
		for part := range slices.Chunk(f.tensors[i].Data, sealPiece) {
			h.start(hashJob{data: part})
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

// damage says where the pieces of a file differ from the pieces that were written.
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
	mem  *mapped.File // holds the pieces; may be nil
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
	back bool // data goes back to the free buffers
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

func (h *hasher) start(j hashJob) {
	j.sum = new([sha256.Size]byte)
	h.sums = append(h.sums, j.sum)
	h.jobs <- j
}

func (h *hasher) wait() {
	close(h.jobs)
	h.wg.Wait()
}

// pieces returns the first digits of the hashes of all pieces.
func (h *hasher) pieces() string {
	var all []byte
	for _, s := range h.sums {
		all = hex.AppendEncode(all, s[:pieceDigits/2])
	}
	return string(all)
}

// sum returns the checksum of a file, after wait.
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
