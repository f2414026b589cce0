package main

import (
	"os"
	"path/filepath"

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
	must(c.MarkFlagDirname("cache"))
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
