package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
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

// Pictures computes the features of pictures: *extract.Extractor does.
type Pictures interface {
	Picture(ctx context.Context, p *pictures.RGB) ([]float32, error)
}

// Gallery changes the images of a split. A change is on the disk when it returns; data.ErrImageExists and
// data.ErrNoImage are told apart.
type Gallery interface {
	Add(ctx context.Context, split, id string, p *pictures.RGB) error
	Remove(ctx context.Context, split string, ids []string) error
}

// Opened is what a server answers from.
type Opened struct {
	Searchers  map[string]Searcher // of each split; the server closes those that it renewed and those it leaves
	Pictures   Pictures            // nil takes no pictures
	NoPictures string              // why Pictures is nil, for people
	Gallery    Gallery             // nil changes nothing
}

// Options say what New serves. Splits is required; the zero value of every other field is usable.
type Options struct {
	// Splits are the names of the splits that can be searched; the first is searched where a request names none.
	Splits  []string
	Version string   // of the program
	Token   string   // that requests must bear; "" asks for none
	Hosts   []string // host names under which the server may be called without a token, beside localhost and addresses
	// Origins are the origins of pages whose scripts may ask from a browser, as https://NAME.
	Origins []string
	Limits
	Window time.Duration // how long queries wait for others before they are answered together; 0 is not at all
	Grace  time.Duration // how long Serve lets requests finish when it ends; 0 is 20 s
	// Renew returns the Searcher of a split as its files are now, s itself where nothing has changed, and how many
	// images it embedded. The server closes s when its last request has ended. nil reads nothing anew.
	Renew func(ctx context.Context, split string, s Searcher) (r Searcher, embedded int, err error)
	Watch time.Duration // how often the files of the splits are looked at; 0 is never
	// NewToken reads the token again at each reload; nil leaves it.
	NewToken func() (string, error)
	Ready    func()    // is called when queries are answered; may be nil
	Log      io.Writer // a line for each request; nil writes none
	JSON     bool      // lines of the log are JSON objects
}

// Limits bound what a request may ask for. Zero values are taken from DefaultLimits.
type Limits struct {
	MaxK     int           // images of an answer
	MaxItems int           // captions or images of a request for embeddings
	MaxBody  int64         // bytes of a request for embeddings; one for images has 1 MiB at most
	Queue    int           // requests in progress; more are refused with status 429
	Timeout  time.Duration // of a request
}

// DefaultLimits returns the limits of the command.
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
		for _, other := range o.Splits[:i] {
			if s == "" || s == other {
				return fmt.Errorf("--split: %q is empty or named twice", s)
			}
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

// setDefaults fills in zero values.
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
