package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"vsetrain/internal/apps/search"
	"vsetrain/internal/apps/web"
	"vsetrain/internal/files/pictures"
)

// Searcher answers queries against one split; *search.Index is one.
type Searcher interface {
	Tokenise(q search.Query) (search.Query, error)
	Batch(ctx context.Context, queries []search.Query) []search.Result
	CaptionRows(ctx context.Context, captions []string) (rows []float32, unknown [][]string, err error)
	ImageRows(ctx context.Context, features []float32) ([]float32, error)
	Image(i int) search.Image
	Info() search.Info
	Dims() (search.Dims, error)
	Close() error
}

// Pictures computes the features of pictures; *extract.Extractor is one.
type Pictures interface {
	Picture(ctx context.Context, p *pictures.RGB) ([]float32, error)
}

// Gallery changes the images of a split. A change is on disk when a method returns. An id that exists is
// data.ErrImageExists, an unknown id data.ErrNoImage.
type Gallery interface {
	Add(ctx context.Context, split, id string, p *pictures.RGB) error
	Remove(ctx context.Context, split string, ids []string) error
}

// Opened is what a server answers from.
type Opened struct {
	Searchers  map[string]Searcher // by split; the server closes them
	Pictures   Pictures            // nil accepts no pictures
	NoPictures string              // why Pictures is nil, for people
	Gallery    Gallery             // nil accepts no changes
}

// Options are the options of New. Splits is required; the zero value of every other field is usable.
type Options struct {
	Splits  []string // that can be searched; the first is the default of requests
	Version string   // of the program
	Token   string   // that requests must carry; "" needs none
	Hosts   []string // host names that may be used without a token, in addition to localhost and IP addresses
	Origins []string // of pages whose scripts may send requests, such as https://search.example.org
	Limits
	Window time.Duration // how long queries wait to be answered together; 0 is not at all
	Grace  time.Duration // how long Serve lets requests finish when it ends; 0 is 20 s
	// Renew opens a split as its files are now and returns how many images it embedded. It returns s if nothing has
	// changed; otherwise the server closes s after its last request. nil disables reloads.
	Renew func(ctx context.Context, split string, s Searcher) (r Searcher, embedded int, err error)
	Watch time.Duration // interval between checks of the files of the splits; 0 is never
	// NewToken reads the token again at each reload; nil keeps it.
	NewToken func() (string, error)
	Ready    func()    // is called when the server answers queries; may be nil
	Log      io.Writer // a line for each request; nil writes none
	JSON     bool      // write lines of the log as JSON objects
}

// Limits are the limits of requests. A zero value is replaced by the value of DefaultLimits.
type Limits struct {
	MaxK     int           // images of an answer
	MaxItems int           // captions or images of a request for embeddings
	MaxBody  int64         // bytes of a request for embeddings; a search has 1 MiB at most
	Queue    int           // requests in progress; more are refused with status 429
	Timeout  time.Duration // of a request
}

// DefaultLimits returns the default limits of the command.
func DefaultLimits() Limits {
	return Limits{MaxK: 1000, MaxItems: 64, MaxBody: 8 << 20, Queue: 128, Timeout: 30 * time.Second}
}

const defaultGrace = 20 * time.Second

// Validate returns an error for the first option that cannot be used. It names flags.
func (o *Options) Validate() error {
	if len(o.Splits) == 0 {
		return errors.New("--split: expected the name of a split, such as test")
	}
	for i, s := range o.Splits {
		if s == "" || slices.Contains(o.Splits[:i], s) {
			return fmt.Errorf("--split: %q is empty or named twice", s)
		}
	}
	for _, n := range []struct {
		flag  string
		value int64
	}{{"max-k", int64(o.MaxK)}, {"max-items", int64(o.MaxItems)}, {"max-body", o.MaxBody}, {"queue", int64(o.Queue)},
		{"timeout", int64(o.Timeout)}} {
		if n.value < 0 {
			return fmt.Errorf("--%s: expected more than 0", n.flag)
		}
	}
	if o.Window < 0 || o.Window > time.Second {
		return fmt.Errorf("--window: expected 0s to 1s, found %v", o.Window)
	}
	if o.Watch < 0 || o.Watch > 0 && o.Watch < 100*time.Millisecond {
		return fmt.Errorf("--watch: expected 0s or at least 100ms, found %v", o.Watch)
	}
	return cmp.Or(web.CheckOrigins(o.Origins), web.CheckHosts(o.Hosts), web.CheckToken(o.Token))
}

func (o *Options) setDefaults() {
	d := DefaultLimits()
	o.MaxK = cmp.Or(o.MaxK, d.MaxK)
	o.MaxItems = cmp.Or(o.MaxItems, d.MaxItems)
	o.MaxBody = cmp.Or(o.MaxBody, d.MaxBody)
	o.Queue = cmp.Or(o.Queue, d.Queue)
	o.Timeout = cmp.Or(o.Timeout, d.Timeout)
	o.Grace = cmp.Or(o.Grace, defaultGrace)
	if o.Log == nil {
		o.Log = io.Discard
	}
}
