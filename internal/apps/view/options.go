package view

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"vsetrain/internal/apps/search"
	"vsetrain/internal/apps/web"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/system/options"
)

// Options are the options of New. Dir is required; the zero value of every other field is usable.
type Options struct {
	Dir       string              // folder of runs, at any depth up to five, or one run
	Data      string              // data set that networks retrieve from; "" is the one each run was trained on
	PerImage  options.PerSplit    // captions of an image, checked against the files
	Images    string              // folder of pictures; "" is the folder images of the data set, if it exists
	Extractor string              // ONNX model for uploaded pictures; "" is the one that 'data extract' recorded
	Getenv    func(string) string // reads the environment, for the library of ONNX Runtime
	Cache     string              // folder for encodings, see search.Options; "" keeps nothing
	// CacheLimit is the size in bytes of a default cache, see search.Options.
	CacheLimit int64
	Hosts      []string // host names that may be used in addition to localhost and IP addresses
	Device     device.Options
	BLAS       string
	Warn       func(error)      // receives warnings; may be nil
	Now        func() time.Time // nil is time.Now

	open opener // nil is search.Open; tests replace it
}

// opener opens what answers queries.
type opener func(context.Context, search.Options) (searcher, error)

// Validate returns an error for the first option that cannot be used.
func (o *Options) Validate() error {
	for _, d := range []struct{ what, dir, holds string }{
		{"", o.Dir, "runs"}, {"--data ", o.Data, "a data set"}, {"--images ", o.Images, "pictures"},
	} {
		if d.dir == "" && d.what != "" {
			continue
		}
		st, err := os.Stat(d.dir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("%s%s: no such folder; expected one that holds %s", d.what, d.dir, d.holds)
		case err != nil:
			return err
		case !st.IsDir():
			return fmt.Errorf("%s%s is a file; expected a folder that holds %s", d.what, d.dir, d.holds)
		}
	}
	if err := web.CheckHosts(o.Hosts); err != nil {
		return err
	}
	if o.Device == (device.Options{}) {
		return nil
	}
	return o.Device.ValidateFixed()
}
