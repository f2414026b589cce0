package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"vsetrain/cmd/vsetrain/internal/ui"
	"vsetrain/data"
	"vsetrain/internal/apps/extract"
	"vsetrain/internal/apps/search"
	"vsetrain/internal/apps/serve"
	"vsetrain/internal/apps/web"
	"vsetrain/internal/files/pictures"
	"vsetrain/internal/system/bind"
	"vsetrain/internal/system/build"
)

type serveOptions struct {
	serve.Options
	retrieval    retrievalFlags
	Listen       string
	TokenFile    string
	NoToken      bool
	AllowChanges bool
	Stdio        bool
	LogFormat    string
	Describe     bool
}

// servePort is the first port that is tried where --listen does not name one; the next ones follow.
const servePort = 8430

// Formats of the access log.
const (
	logText = "text"
	logJSON = "json"
	logNone = "none"
)

func newCmdServe(a *app) *cobra.Command {
	o := &serveOptions{Options: serve.Options{Limits: serve.DefaultLimits()}}
	c := &cobra.Command{
		Use:   "serve CHECKPOINT...",
		Short: "Answer queries as JSON over HTTP",
		Long: `Open a trained network, encode the images of a split, and answer queries as JSON over HTTP until
Ctrl-C or SIGTERM: POST /v1/search finds images for a caption, an embedding or a picture, POST /v1/embed returns
embeddings of captions, region features and pictures, GET /v1/info, /healthz, /metrics and /openapi.json tell the rest.

A checkpoint is what search takes; several are an ensemble. The scores are those of search. Queries that arrive
together are answered together. ` + pairScorers() + ` look at every pair of the query and an image, so
they need --shortlist with an embedder (` + embedders() + `) that picks the candidates.

Images may come and go while it answers: on SIGHUP, on POST /v1/reload and with --watch the splits and the token are
read anew, what is new is embedded beside the old index, and the new one takes its place. With --allow-changes POST
/v1/images/add and /v1/images/remove change the gallery themselves. Pictures need the model that made the features of
the split, which 'vsetrain data extract' records.

The server listens on 127.0.0.1 unless --listen says otherwise. An address that other machines reach asks for a
token, from --token-file or VSETRAIN_TOKEN, unless --no-token is given. When the server is told to stop it
accepts nothing new and finishes the requests in progress.

--stdio answers the program that started the server, and nobody else: the same requests, as HTTP over standard input
and output, without an address or a token, until the input ends and what it asked is answered. The Python package does
so (docs/python.md).`,
		Example: `  vsetrain serve runs/vseinf-f30k-lseh
  vsetrain serve runs/gsmn --shortlist runs/vseinf --shortlist-size 50 --split test,dev
  vsetrain serve runs/vseinf --data data/mine --extractor resnet101.onnx --watch 5s --allow-changes
  vsetrain serve runs/vseinf --listen 0.0.0.0:8430 --token-file token --log json
  vsetrain serve runs/vseinf --stdio --log none
  vsetrain serve --openapi`,
		Args: func(c *cobra.Command, args []string) error {
			if o.Describe {
				return noArgs(c, args)
			}
			return checkpointArgs(&o.retrieval.Checkpoints, args)
		},
		RunE: a.runs(o),
	}
	f := c.Flags()
	f.StringVar(&o.Listen, "listen", "", fmt.Sprintf("`HOST:PORT` to listen on, port 0 for any; empty is %s with the "+
		"first free port from %d", bind.Local, servePort))
	f.StringVar(&o.TokenFile, "token-file", "", "`FILE` with the token that requests must bear; empty takes "+
		"VSETRAIN_TOKEN")
	f.BoolVar(&o.NoToken, "no-token", false, "listen without a token where other machines reach the address")
	f.StringArrayVar(&o.Hosts, "allow-host", nil, "host `NAME` under which the server may be called without a token, "+
		"beside localhost and addresses; may be repeated")
	f.StringArrayVar(&o.Origins, "allow-origin", nil, "`ORIGIN` of pages whose scripts may ask from a browser, such "+
		"as https://search.example.org; may be repeated")
	f.IntVar(&o.MaxK, "max-k", o.MaxK, "images that a request may ask for")
	f.IntVar(&o.MaxItems, "max-items", o.MaxItems, "captions or images that a request may have embedded")
	f.Int64Var(&o.MaxBody, "max-body", o.MaxBody, "bytes of a request for embeddings")
	f.IntVar(&o.Queue, "queue", o.Queue, "requests in progress; more are answered with status 429")
	f.DurationVar(&o.Timeout, "timeout", o.Timeout, "time of a request")
	f.DurationVar(&o.Window, "window", 2*time.Millisecond, "how long queries wait for others")
	f.DurationVar(&o.Grace, "grace", 20*time.Second, "how long requests in progress may take when the server stops")
	f.StringVar(&o.retrieval.Extractor, "extractor", "", "model `FILE`.onnx for pictures; empty is the recorded one")
	f.BoolVar(&o.AllowChanges, "allow-changes", false, "let requests add images to the data set and remove them")
	f.DurationVar(&o.Watch, "watch", 0, "how often to look whether the files of the splits have changed; 0s is never")
	f.StringVar(&o.LogFormat, "log", logText, "a line for each request on standard error: text, json or none")
	f.BoolVar(&o.Stdio, "stdio", false, "answer over standard input and output instead of an address")
	f.BoolVar(&o.Describe, "openapi", false, "print the OpenAPI description and end")
	o.retrieval.add(c)
	f.Lookup("split").Usage = "splits of the data set that can be searched, with commas; the first is the usual one"
	must(c.MarkFlagFilename("token-file"))
	c.MarkFlagsMutuallyExclusive("token-file", "no-token")
	for _, flag := range []string{"listen", "token-file", "no-token", "allow-host", "allow-origin"} {
		c.MarkFlagsMutuallyExclusive("stdio", flag)
	}
	return c
}

func (o *serveOptions) check(a *app) (err error) {
	if o.retrieval.Depth < 1 {
		return usagef("--shortlist-size: expected a whole number of at least 1, found %d", o.retrieval.Depth)
	}
	switch o.LogFormat {
	case logNone:
	case logText, logJSON:
		o.Log, o.JSON = a.Log(), o.LogFormat == logJSON
	default:
		return usagef("--log: expected text, json or none, found %q", o.LogFormat)
	}
	for flag, value := range map[string]int64{"max-k": int64(o.MaxK), "max-items": int64(o.MaxItems),
		"max-body": o.MaxBody, "queue": int64(o.Queue), "timeout": int64(o.Timeout), "grace": int64(o.Grace)} {
		if value <= 0 {
			return usagef("--%s: expected more than 0", flag)
		}
	}
	o.Splits, o.Version = strings.Split(o.retrieval.Split, ","), build.Current().Version
	switch {
	case o.TokenFile != "":
		if o.Token, err = web.ReadToken(o.TokenFile); err != nil {
			return err
		}
		o.NewToken = func() (string, error) { return web.ReadToken(o.TokenFile) }
	case !o.NoToken && !o.Stdio:
		o.Token = a.getenv("VSETRAIN_TOKEN")
	}
	o.Renew = func(ctx context.Context, _ string, s serve.Searcher) (serve.Searcher, int, error) {
		r, err := search.Renew(ctx, s.(*search.Index))
		return r.Index, r.Embedded, err
	}
	if err := o.Validate(); err != nil {
		return usagef("%v", err)
	}
	return o.retrieval.check()
}

func (o *serveOptions) describe(a *app) error {
	s, err := serve.New(o.Options)
	if err != nil {
		return err
	}
	a.Print(string(s.Description()))
	return nil
}

func (o *serveOptions) run(ctx context.Context, a *app) (err error) {
	if o.Describe {
		return o.describe(a)
	}
	var url string
	var s *serve.Server // whose Ready names it
	ready := make(chan struct{})
	o.Ready = func() {
		defer close(ready)
		if o.Stdio {
			return
		}
		if o.JSON {
			s.Log().Info("ready", "url", url)
			return
		}
		a.Printf("answers at %s\n", url)
	}
	if s, err = serve.New(o.Options); err != nil {
		return err
	}
	defer func() {
		if err != nil && o.JSON && !errors.Is(err, context.Canceled) { // as every line
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
	} else if l, err = o.listen(a, s); err != nil { // before the work, not after it
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
		for _, split := range o.Splits {
			x, err := o.open(ctx, a, s, split)
			if err != nil {
				return all, err
			}
			all.Searchers[split] = x
		}
		first := all.Searchers[o.Splits[0]].(*search.Index)
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

// listen opens the address.
func (o *serveOptions) listen(a *app, s *serve.Server) (net.Listener, error) {
	l, err := listenOn(o.Listen, servePort)
	if err != nil || bind.IsLoopback(l.Addr()) || o.Token != "" {
		return l, err
	}
	if !o.NoToken {
		l.Close()
		return nil, usagef("--listen %s is not the loopback address: everybody who reaches it could search; name a "+
			"token with --token-file or VSETRAIN_TOKEN, or say --no-token", o.Listen)
	}
	o.warn(a, s, fmt.Errorf("--listen %s is not the loopback address: everybody who reaches it may search, and read "+
		"captions and ids", o.Listen))
	return l, nil
}

// obey reloads the splits at each hangup and stops the server at other signals.
func (o *serveOptions) obey(ctx context.Context, s *serve.Server, told <-chan os.Signal, stop func()) {
	for {
		select {
		case by := <-told:
			if by == hangup {
				s.Log().Info("reloading", "signal", by.String())
				go serve.Reload(ctx, s) // which writes the outcome into the log
				continue
			}
			s.Log().Info("stopping", "signal", by.String())
			stop()
		case <-ctx.Done():
			return
		}
	}
}

// pictures opens the model for pictures: the one that is named, else the recorded one; where that is not there or does
// not work it says why.
func (o *serveOptions) pictures(a *app, s *serve.Server, x *search.Index) (e *search.Extractor, why string, err error) {
	e, err = x.OpenExtractor(o.retrieval.Extractor, a.getenv)
	if err == nil || o.retrieval.Extractor != "" {
		return e, "", err
	}
	if !errors.Is(err, search.ErrNoExtractor) { // it is recorded, and somebody may expect it
		o.warn(a, s, fmt.Errorf("pictures are not taken: %w", err))
	}
	return nil, messageOf(err), nil
}

// gallery changes the images of the splits of a data set.
type gallery struct {
	dir       string
	extractor *search.Extractor // nil cannot add
	without   string            // why there is none
}

// Add implements serve.Gallery.
func (g *gallery) Add(ctx context.Context, split, id string, p *pictures.RGB) error {
	if g.extractor == nil {
		return &data.ChangeError{Text: "images are added with the model that made the others: " + g.without}
	}
	to := extract.Gallery{Dir: g.dir, Split: split, Extractor: g.extractor.Extractor}
	return to.Add(ctx, id, p)
}

// Remove implements serve.Gallery.
func (g *gallery) Remove(ctx context.Context, split string, ids []string) error {
	return data.Amend(ctx, g.dir, split, data.Change{Removed: ids}, nil)
}

// warn writes a warning into the log where that is JSON.
func (o *serveOptions) warn(a *app, s *serve.Server, err error) {
	if o.JSON {
		s.Log().Warn(err.Error())
		return
	}
	a.warn(err)
}

// open encodes the images of a split.
func (o *serveOptions) open(ctx context.Context, a *app, s *serve.Server, split string) (*search.Index, error) {
	bars, start := phases{app: a}, time.Now()
	defer bars.close()
	opt := o.retrieval.options(a, split, bars.show)
	opt.Warn = func(err error) { o.warn(a, s, err) }
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
	took := time.Since(start)
	if o.JSON {
		s.Log().Info("encoded", "data", i.Data, "split", i.Split, "images", i.Images, "seconds", took.Seconds())
		return x, nil
	}
	a.Notef("%s, split %s: %d images; ready after %s\n", i.Data, i.Split, i.Images, ui.Duration(took))
	return x, nil
}
