package search

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"vsetrain/data"
	"vsetrain/internal/files/atomicfile"
	"vsetrain/internal/files/disk"
	"vsetrain/internal/files/regular"
	"vsetrain/internal/files/safetensors"
)

// The cache keeps the encodings of the images or captions of a split in a safetensors file,
// NETWORK-SPLIT-SIDE-KEY.encoded.safetensors. The key is a digest of everything they depend on: options, sizes and
// weights of the network, vocabulary, device, precision, and the bytes of the split's files. So a file that is found is
// never out of date. Its metadata has the whole key and a checksum; if either is wrong, the file is encoded again and
// replaced.
const (
	cacheEnd = ".encoded.safetensors"
	cacheKey = "vsetrain.encoded.key" // in the metadata
)

// The sides of a split.
const (
	imageSide   = "images"
	captionSide = "captions"
)

// cached calls load with the cache file of a side if there is a good one; otherwise it calls encode and keeps its
// tensors.
func (e *encoder) cached(ctx context.Context, side string, encode func() ([]safetensors.Tensor, error),
	load func(*safetensors.File) error) error {
	if e.opt.Cache == "" {
		_, err := encode()
		return err
	}
	path, key, err := e.cacheFile(ctx, side)
	if err != nil {
		return err
	}
	if found, err := loadCache(path, key, load); found || err != nil {
		return err
	}
	tensors, err := encode()
	if err != nil {
		return err
	}
	err = writeCache(path, key, tensors)
	if err == nil && e.opt.CacheLimit > 0 {
		err = trimCache(e.opt.Cache, e.opt.CacheLimit)
	}
	if err != nil && e.opt.CacheLimit > 0 { // a default folder
		e.opt.warn(fmt.Errorf("encodings are not kept: %w", err))
		return nil
	}
	return err
}

func (e *encoder) cacheFile(ctx context.Context, side string) (path, key string, err error) {
	e.keyMu.Lock()
	defer e.keyMu.Unlock()
	if e.cacheKey == "" {
		if e.cacheKey, err = e.key(ctx); err != nil {
			return "", "", err
		}
	}
	name := fmt.Sprintf("%s-%s-%s-%s%s", e.Model.Options.Network, e.Split.Name(), side, e.cacheKey[:16], cacheEnd)
	return filepath.Join(e.opt.Cache, name), e.cacheKey + " " + side, nil
}

func writeCache(path, key string, tensors []safetensors.Tensor) error {
	if err := atomicfile.MkdirAll(filepath.Dir(path)); err != nil {
		return fmt.Errorf("cache: %w", err)
	}
	return atomicfile.WriteFile(path, func(w io.Writer) error {
		return safetensors.WriteSealed(w, tensors, map[string]string{cacheKey: key}, func(i int, w io.Writer) error {
			_, err := w.Write(tensors[i].Data)
			return err
		})
	})
}

// trimCache removes the least recently used encodings until the others have at most limit bytes. Other processes may
// use the folder at the same time.
func trimCache(dir string, limit int64) error {
	paths, err := filepath.Glob(filepath.Join(dir, "*"+cacheEnd))
	if err != nil {
		return err
	}
	type file struct {
		path string
		size int64
		used time.Time
	}
	var files []file
	for _, p := range paths {
		if st, err := os.Stat(p); err == nil {
			files = append(files, file{p, st.Size(), st.ModTime()})
		}
	}
	slices.SortFunc(files, func(a, b file) int { return b.used.Compare(a.used) }) // the latest first
	for i, f := range files {
		if limit -= f.size; limit >= 0 || i == 0 {
			continue
		}
		if err := disk.Now().Remove(f.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cache: %w", err)
		}
	}
	return nil
}

// loadCache loads path and returns true if its key and checksum are right.
func loadCache(path, key string, load func(*safetensors.File) error) (bool, error) {
	f, err := safetensors.Open(path)
	if err != nil {
		return false, nil // missing or damaged: it is written again
	}
	defer f.Close()
	if f.Metadata()[cacheKey] != key {
		return false, nil
	}
	if sealed, err := f.Verify(); !sealed || err != nil {
		return false, nil
	}
	if err := load(f); err != nil {
		return false, fmt.Errorf("cache %s: %w; remove it", path, err)
	}
	now := time.Now()
	_ = os.Chtimes(path, now, now) // for trimCache, which fails in a read-only folder too
	return true, nil
}

// key returns the digest of everything that encodings depend on.
func (e *encoder) key(ctx context.Context) (string, error) {
	h := sha256.New()
	fmt.Fprintf(h, "%+v\n%+v\n%s\n%s\n%d of %v\n", e.Model.Options, e.Model.Dims, e.Tokenizer.Hash(),
		e.Model.Instance.Dev.Name(), e.Split.NumCaptions(), e.Split.Groups())
	for _, p := range e.Model.Network.Params() {
		v := e.Model.Instance.Params.Value(p.Name)
		x := make([]float32, v.N)
		e.Model.Instance.Dev.DownloadFloats(x, v)
		fmt.Fprintf(h, "%s %v\n", p.Name, p.Shape)
		for part := range slices.Chunk(x, 1<<14) {
			binary.Write(h, binary.LittleEndian, part)
		}
	}
	entries, err := os.ReadDir(e.Split.Dir())
	if err != nil {
		return "", err
	}
	for _, entry := range entries { // in the order of their names
		if entry.Type()&fs.ModeDir != 0 || !strings.HasPrefix(entry.Name(), e.Split.Name()+"_") {
			continue
		}
		path := filepath.Join(e.Split.Dir(), entry.Name())
		if e.original && path == data.ChangesFile(e.Split.Dir(), e.Split.Name()) {
			continue
		}
		if err := hashFile(ctx, h, path); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func hashFile(ctx context.Context, h hash.Hash, path string) error {
	f, size, err := regular.Open(path)
	if errors.Is(err, regular.ErrNot) {
		return nil // data sets read only regular files
	}
	if err != nil {
		return err
	}
	defer f.Close()
	fmt.Fprintf(h, "%s %d\n", filepath.Base(path), size)
	buf := make([]byte, 1<<20)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := f.Read(buf)
		h.Write(buf[:n])
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
