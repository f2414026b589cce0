package main

import (
	"os"
	"path/filepath"

	"vsetrain/internal/apps/search"

	"github.com/spf13/cobra"
)

// cacheLimit bounds the cache that is used unasked.
const cacheLimit = 4 << 30

// cacheFlags say where the commands that retrieve keep encodings.
type cacheFlags struct {
	Dir string
	Off bool
}

func (f *cacheFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.Dir, "cache", "",
		"`DIR` to keep encodings in; empty is vsetrain/encoded in the user's cache folder, of 4 GiB at most")
	c.Flags().BoolVar(&f.Off, "no-cache", false, "keep no encodings and use none")
	c.MarkFlagsMutuallyExclusive("cache", "no-cache")
}

// folder returns the cache and its limit, 0 for a folder that was named. Without a home directory there is none.
func (f *cacheFlags) folder() (dir string, limit int64) {
	switch {
	case f.Off:
		return "", 0
	case f.Dir != "":
		return f.Dir, 0
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", 0
	}
	return filepath.Join(dir, "vsetrain", "encoded"), cacheLimit
}

// retrievalFlags are those of the commands that answer queries: networks, and where they keep encodings.
type retrievalFlags struct {
	trainedFlags
	cache       cacheFlags
	Checkpoints []string
	Shortlist   string
	Depth       int
	Extractor   string
}

func (o *retrievalFlags) add(c *cobra.Command) {
	f := c.Flags()
	f.StringArrayVar(&o.Checkpoints, "checkpoint", nil, "run directory or checkpoint `PATH`; repeat for an ensemble")
	f.StringVar(&o.Shortlist, "shortlist", "", "checkpoint `PATH` of an embedder that picks the candidates")
	f.IntVar(&o.Depth, "shortlist-size", 100, "number of candidates it picks")
	o.trainedFlags.add(c)
	o.cache.add(c)
}

// options are those of an index of a split.
func (o *retrievalFlags) options(a *app, split string, progress func(phase string, done, total int)) search.Options {
	dir, limit := o.cache.folder()
	return search.Options{Checkpoints: o.Checkpoints, Set: o.Set, Shortlist: o.Shortlist, Depth: o.Depth, Data: o.Data,
		PerImage: o.PerImage, Vocab: o.Vocab, Split: split, Batch: o.Batch, Cache: dir, CacheLimit: limit,
		Device: o.Device, BLAS: a.getenv("VSETRAIN_BLAS"), Warn: a.warn, Progress: progress}
}
