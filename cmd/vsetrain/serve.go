package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"reflect"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"vsetrain/cmd/vsetrain/internal/ui"
	"vsetrain/data"
	"vsetrain/internal/apps/extract"
	"vsetrain/internal/apps/search"
	"vsetrain/internal/apps/serve"
	"vsetrain/internal/apps/web"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/files/pictures"
	"vsetrain/internal/system/bind"
	"vsetrain/internal/system/build"
	"vsetrain/internal/system/options"
)

type serveOptions struct {
	Split          string `flag:"split" arg:"SPLIT" default:"test" usage:"splits that can be searched, comma-separated; the first is the default of requests"`
	retrievalFlags `group:"Data and network"`
	serveAddress   `group:"Address"`
	serveLimits    `group:"Limits"`
	serveGallery   `group:"Changes"`
	LogFormat      string `flag:"log" enum:"text|json|none" default:"text" usage:"log of requests on standard error"`
	Describe       bool   `flag:"openapi" usage:"print the OpenAPI description and exit"`
	cpuProfile     `group:"CPU profile"`

	server serve.Options
}

// servePort is the first port to try without --listen.
const servePort = 8430

func (o *serveOptions) Defaults() {
	o.deviceFlags.Defaults()
	o.Device.Precision = device.PrecisionAuto
	l := serve.DefaultLimits()
	o.MaxK, o.MaxItems, o.MaxBody, o.Queue, o.Timeout = l.MaxK, l.MaxItems, l.MaxBody, l.Queue, l.Timeout
}

// FixedTags replaces the tags of device.precision: auto has another meaning for serve.
func (o *serveOptions) FixedTags(key string) reflect.StructTag {
	if key == "precision" {
		return `enum:"auto|fp32|tf32|bf16|fp64" ` + options.Tag("doc", "auto embeds captions of /v1/search in bf16 "+
			"if that is faster and changes the M-Recall of the split dev by less than 0.1, and computes everything "+
			"else in fp32; tf32 is for cuda, fp64 for checking")
	}
	return ""
}

// serveAddress says who can reach the server.
type serveAddress struct {
	Listen       string   `flag:"listen" arg:"HOST:PORT" usage:"HOST:PORT to listen on, port 0 for any" empty:"127.0.0.1 with the first free port from 8430"`
	TokenFile    string   `flag:"token-file" arg:"FILE" usage:"FILE with the token that requests must carry" empty:"VSETRAIN_TOKEN"`
	NoToken      bool     `flag:"no-token" not:"token-file" usage:"require no token even if other machines can reach the address"`
	AllowHosts   []string `flag:"allow-host" arg:"NAME" usage:"host NAME that requests without a token may use, besides localhost and addresses"`
	AllowOrigins []string `flag:"allow-origin" arg:"ORIGIN" usage:"ORIGIN of web pages whose scripts may send requests, such as https://search.example.org"`
	Stdio        bool     `flag:"stdio" not:"listen,token-file,no-token,allow-host,allow-origin" usage:"answer over standard input and output instead of an address"`
}

// serveLimits bound the requests.
type serveLimits struct {
	MaxK     int           `flag:"max-k" min:"1" usage:"most images that a request may ask for"`
	MaxItems int           `flag:"max-items" min:"1" usage:"most captions or images that a request may embed"`
	MaxBody  int64         `flag:"max-body" min:"1" usage:"most bytes in a request for embeddings"`
	Queue    int           `flag:"queue" min:"1" usage:"most requests in progress; others get status 429"`
	Timeout  time.Duration `flag:"timeout" above:"0" usage:"time limit of a request"`
	Window   time.Duration `flag:"window" default:"2ms" min:"0" max:"1" usage:"how long a query waits for others to share its batch"`
	Grace    time.Duration `flag:"grace" default:"20s" above:"0" usage:"how long requests in progress may take when the server stops"`
}

// serveGallery says how images are added and removed.
type serveGallery struct {
	AllowChanges bool          `flag:"allow-changes" usage:"let requests add images to the data set and remove them"`
	Watch        time.Duration `flag:"watch" min:"0" usage:"how often to check the files of the splits for changes; 0s is never"`
}

func newCmdServe(a *app) *cobra.Command {
	return a.command(&serveOptions{}, &cobra.Command{
		Use:   "serve CHECKPOINT...",
		Short: "Answer queries as JSON over HTTP",
		Long: `Encode the images of a split with a trained network, and answer queries as JSON
over HTTP until Ctrl-C or SIGTERM: /v1/search, /v1/embed, /v1/info, /healthz,
/metrics and /openapi.json.

A checkpoint is anything that search takes; several form an ensemble.
` + pairScorers() + ` score every pair of query and image, so they need --shortlist with an
embedder (` + embedders() + `) that picks the candidates.`,
		Example: `  vsetrain serve runs/vseinf-f30k-lseh
  vsetrain serve runs/gsmn --shortlist runs/vseinf --shortlist-size 50 --split test,dev
  vsetrain serve runs/vseinf --data data/mine --extractor resnet101.onnx --watch 5s --allow-changes
  vsetrain serve runs/vseinf --listen 0.0.0.0:8430 --token-file token --log json
  vsetrain serve runs/vseinf --stdio --log none
  vsetrain serve --openapi`,
	})
}

func (o *serveOptions) arguments(c *cobra.Command, args []string) error {
	if o.Describe {
		return noArgs(c, args)
	}
	return checkpointArgs(&o.Checkpoints, args)
}

func (o *serveOptions) check(a *app) (err error) {
	x := &o.server
	if o.LogFormat != "none" {
		x.Log, x.JSON = a.Log(), o.LogFormat == "json"
	}
	x.Limits = serve.Limits{MaxK: o.MaxK, MaxItems: o.MaxItems, MaxBody: o.MaxBody, Queue: o.Queue, Timeout: o.Timeout}
	x.Hosts, x.Origins, x.Window, x.Grace, x.Watch = o.AllowHosts, o.AllowOrigins, o.Window, o.Grace, o.Watch
	x.Splits, x.Version = strings.Split(o.Split, ","), build.Current().Version
	switch {
	case o.TokenFile != "":
		if x.Token, err = web.ReadToken(o.TokenFile); err != nil {
			return err
		}
		x.NewToken = func() (string, error) { return web.ReadToken(o.TokenFile) }
	case !o.NoToken && !o.Stdio:
		x.Token = a.getenv("VSETRAIN_TOKEN")
	}
	x.Renew = func(ctx context.Context, _ string, s serve.Searcher) (serve.Searcher, int, error) {
		x, embedded, err := search.Renew(ctx, s.(*search.Index))
		return x, embedded, err
	}
	return asUsage(x.Validate())
}

func (o *serveOptions) run(ctx context.Context, a *app) (err error) {
	var url string
	var s *serve.Server
	ready := make(chan struct{})
	o.server.Ready = func() {
		defer close(ready)
		if o.Stdio {
			return
		}
		if o.server.JSON {
			s.Log().Info("ready", "url", url)
			return
		}
		a.Printf("answers at %s\n", url)
	}
	if s, err = serve.New(o.server); err != nil {
		return err
	}
	if o.Describe {
		a.Print(string(s.Description()))
		return nil
	}
	defer func() {
		if err != nil && o.server.JSON && !errors.Is(err, context.Canceled) {
			s.Log().Error("failed", "error", err.Error())
			err = &loggedError{err}
		}
	}()
	told := make(chan os.Signal, 1)
	signal.Notify(told, stopSignals()...)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	context.AfterFunc(ctx, func() { signal.Stop(told) }) // a second one ends the program at once
	go o.obey(ctx, s, told, stop)
	var l net.Listener
	if o.Stdio {
		l = web.NewStdio(a.In, a.Out, ready)
		defer func() {
			if errors.Is(err, io.EOF) { // of the input
				err = nil
			}
		}()
	} else if l, err = o.listen(a, s); err != nil { // before the images are encoded
		return err
	}
	defer l.Close()
	url = fmt.Sprintf("http://%s/", bind.Here(l.Addr()))
	var extractor *search.Extractor
	defer func() {
		if extractor != nil {
			extractor.Close()
		}
	}()
	return s.Serve(ctx, l, func(ctx context.Context) (all serve.Opened, err error) {
		all.Searchers = map[string]serve.Searcher{}
		defer func() {
			for _, x := range all.Searchers {
				if err != nil {
					x.Close()
				}
			}
		}()
		for _, split := range o.server.Splits {
			x, err := o.open(ctx, a, s, split)
			if err != nil {
				return all, err
			}
			all.Searchers[split] = x
		}
		first := all.Searchers[o.server.Splits[0]].(*search.Index)
		if extractor, all.NoPictures, err = o.pictures(a, s, first); err != nil {
			return all, err
		}
		if extractor != nil {
			all.Pictures = extractor.Extractor
		}
		if o.AllowChanges {
			all.Gallery = &gallery{dir: first.Info().Data, extractor: extractor, without: all.NoPictures}
		}
		return all, nil
	})
}

func (o *serveOptions) listen(a *app, s *serve.Server) (net.Listener, error) {
	l, err := listenOn(o.Listen, servePort)
	if err != nil || bind.IsLoopback(l.Addr()) || o.server.Token != "" {
		return l, err
	}
	if !o.NoToken {
		l.Close()
		return nil, usagef("--listen %s is not the loopback address: anyone who can reach it could search; name a "+
			"token with --token-file or VSETRAIN_TOKEN, or use --no-token", o.Listen)
	}
	o.warn(a, s, fmt.Errorf("--listen %s is not the loopback address: anyone who can reach it may search, and read "+
		"captions and ids", o.Listen))
	return l, nil
}

// obey reloads the splits at a hangup, and stops the server at other signals.
func (o *serveOptions) obey(ctx context.Context, s *serve.Server, told <-chan os.Signal, stop func()) {
	for {
		select {
		case by := <-told:
			if by == hangup {
				s.Log().Info("reloading", "signal", by.String())
				go serve.Reload(ctx, s) // writes the result to the log
				continue
			}
			s.Log().Info("stopping", "signal", by.String())
			stop()
		case <-ctx.Done():
			return
		}
	}
}

// pictures opens the model for pictures: the model of --extractor, or else the recorded one; why is the reason if the
// recorded model does not exist or work.
func (o *serveOptions) pictures(a *app, s *serve.Server, x *search.Index) (e *search.Extractor, why string, err error) {
	e, err = x.OpenExtractor(o.Extractor, a.getenv)
	if err == nil || o.Extractor != "" {
		return e, "", err
	}
	if !errors.Is(err, search.ErrNoExtractor) { // a model is recorded, so a user may expect it
		o.warn(a, s, fmt.Errorf("queries cannot be pictures: %w", err))
	}
	return nil, messageOf(err), nil
}

// gallery changes the images of the splits of a data set.
type gallery struct {
	dir       string
	extractor *search.Extractor // nil: images cannot be added
	without   string            // why there is no extractor
}

func (g *gallery) Add(ctx context.Context, split, id string, p *pictures.RGB) error {
	if g.extractor == nil {
		return &data.ChangeError{Text: "images are added with the model that made the others: " + g.without}
	}
	to := extract.Gallery{Dir: g.dir, Split: split, Extractor: g.extractor.Extractor}
	return to.Add(ctx, id, p)
}

func (g *gallery) Remove(ctx context.Context, split string, ids []string) error {
	return data.Amend(ctx, g.dir, split, data.Change{Removed: ids}, nil)
}

// warn writes a warning, into the log if that is JSON.
func (o *serveOptions) warn(a *app, s *serve.Server, err error) {
	if o.server.JSON {
		s.Log().Warn(err.Error())
		return
	}
	a.warn(err)
}

// open encodes the images of a split.
func (o *serveOptions) open(ctx context.Context, a *app, s *serve.Server, split string) (*search.Index, error) {
	bars, start := phases{app: a}, time.Now()
	defer bars.close()
	opt := o.retrievalFlags.options(a, split, bars.show)
	opt.Warn = func(err error) { o.warn(a, s, err) }
	opt.Chosen = func(p search.QueryPrecision) {
		s.Log().Info("queries", "split", split, "precision", p.Name, "why", p.Why)
	}
	x, err := search.Open(opt)
	if err != nil {
		return nil, err
	}
	i := x.Info()
	if i.Pairs && i.Shortlist == "" {
		x.Close()
		return nil, errors.New("a network that scores pairs of an image and a caption compares a query with every " +
			"image, which takes too long for a server; name an embedder that picks candidates with " +
			"--shortlist CHECKPOINT")
	}
	err = x.Prepare(ctx, search.TextQueries)
	if err == nil {
		err = x.PrepareBatches(ctx)
	}
	if err != nil {
		x.Close()
		return nil, err
	}
	bars.close()
	took, q := time.Since(start), x.Info().Query
	if o.server.JSON {
		s.Log().Info("encoded", "data", i.Data, "split", i.Split, "images", i.Images, "seconds", took.Seconds(),
			"query_precision", q.Name, "why", q.Why)
		return x, nil
	}
	a.Notef("%s, split %s: %d images; queries in %s (%s); ready after %s\n", i.Data, i.Split, i.Images, q.Name, q.Why,
		ui.Duration(took))
	return x, nil
}
