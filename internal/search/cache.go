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

	"vsetrain/internal/atomicfile"
	"vsetrain/internal/regular"
	"vsetrain/internal/safetensors"
)

// The cache keeps the encodings of a split in one safetensors file, NETWORK-SPLIT-KEY.encoded.safetensors. The key is a digest of all they depend
// on: options, sizes and weights of the network, vocabulary, device and precision, and the bytes of every file of the split. So a file is
// found if and only if encoding would give what it holds, and nothing has to be invalidated. Its metadata has the whole key,
// and it is sealed by a checksum; a file where either is wrong is encoded anew and replaced.
const cacheEnd = ".encoded.safetensors"

// cacheKey is in the metadata of a cache file.
const cacheKey = "vsetrain.encoded.key"

// cached calls load with the cache file where there is a good one, otherwise encode, whose tensors are kept.
func (e *encoder) cached(ctx context.Context, encode func() ([]safetensors.Tensor, error), load func(*safetensors.File) error) error {
	if e.opt.Cache == "" {
		_, err := encode()
		return err
	}
	if st, err := os.Stat(e.opt.Cache); err == nil && !st.IsDir() {
		return fmt.Errorf("cache %s: a file; expected a folder", e.opt.Cache)
	}
	key, err := e.key(ctx)
	if err != nil {
		return err
	}
	path := filepath.Join(e.opt.Cache, fmt.Sprintf("%s-%s-%s%s", e.Model.Options.Network, e.Split.Name(), key[:16], cacheEnd))
	if found, err := loadCache(path, key, load); found || err != nil {
		return err
	}
	tensors, err := encode()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(e.opt.Cache, 0o777); err != nil {
		return fmt.Errorf("cache: %w", err)
	}
	return atomicfile.WriteFile(path, func(w io.Writer) error {
		return safetensors.WriteSealed(w, tensors, map[string]string{cacheKey: key}, func(i int, w io.Writer) error {
			_, err := w.Write(tensors[i].Data)
			return err
		})
	})
}

// loadCache reports whether path holds what belongs to the key, intact, and loads it.
func loadCache(path, key string, load func(*safetensors.File) error) (bool, error) {
	f, err := safetensors.Open(path)
	if err != nil {
		return false, nil // not there, or broken: it is written anew
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
	return true, nil
}

// key digests what encodings depend on.
func (e *encoder) key(ctx context.Context) (string, error) {
	h := sha256.New()
	fmt.Fprintf(h, "%+v\n%+v\n%s\n%s\n%d of %d\n", e.Model.Options, e.Model.Dims, e.Lexicon.Hash(), e.Model.Session.Dev.Name(), e.Split.NumCaptions(), e.Split.CaptionsPerImage())
	for _, p := range e.Model.Network.Params() {
		v := e.Model.Session.Params.Value(p.Name)
		x := make([]float32, v.N)
		e.Model.Session.Dev.DownloadFloats(x, v)
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
		if err := hashFile(ctx, h, filepath.Join(e.Split.Dir(), entry.Name())); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func hashFile(ctx context.Context, h hash.Hash, path string) error {
	f, size, err := regular.Open(path)
	if errors.Is(err, regular.ErrNot) {
		return nil // no data set reads it
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
