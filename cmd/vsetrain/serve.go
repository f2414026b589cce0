package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"vsetrain/cmd/vsetrain/internal/ui"
	"vsetrain/internal/apps/search"
	"vsetrain/internal/apps/serve"
	"vsetrain/internal/system/bind"
	"vsetrain/internal/system/build"
)

type serveOptions struct {
	serve.Options
	trained     trainedFlags
	Checkpoints []string
	Shortlist   string
	Depth       int
	cache       cacheFlags
	Listen      string
	TokenFile   string
	NoToken     bool
	LogFormat   string
	Describe    bool
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
Ctrl-C or SIGTERM: POST /v1/search finds images for a caption or an embedding, POST /v1/embed returns embeddings
of captions and region features, GET /v1/info, /healthz, /metrics and /openapi.json tell the rest.

A checkpoint is what search takes; several are an ensemble. The scores are those of search. Queries that arrive
together are answered together. ` + pairScorers() + ` look at every pair of the query and an image, so
they need --shortlist with an embedder (` + embedders() + `) that picks the candidates.

The server listens on 127.0.0.1 unless --listen says otherwise. An address that other machines reach asks for a
token, from --token-file or VSETRAIN_TOKEN, unless --no-token is given. When the server is told to stop it
accepts nothing new and finishes the requests in progress.`,
		Example: `  vsetrain serve runs/vseinf-f30k-lseh
  vsetrain serve runs/gsmn --shortlist runs/vseinf --shortlist-size 50 --split test,dev
  vsetrain serve runs/vseinf --listen 0.0.0.0:8430 --token-file token --log json
  vsetrain serve --openapi`,
		Args: func(c *cobra.Command, args []string) error {
			if o.Describe {
				return noArgs(c, args)
			}
			return checkpointArgs(&o.Checkpoints, args)
		},
		RunE: a.runs(o),
	}
	f := c.Flags()
	f.StringArrayVar(&o.Checkpoints, "checkpoint", nil, "run directory or checkpoint `PATH`; repeat for an ensemble")
	f.StringVar(&o.Shortlist, "shortlist", "", "checkpoint `PATH` of an embedder that picks the candidates")
	f.IntVar(&o.Depth, "shortlist-size", 100, "number of candidates it picks")
	f.StringVar(&o.Listen, "listen", "", fmt.Sprintf("`HOST:PORT` to listen on, port 0 for any; empty is %s with the "+
		"first free port from %d", bind.Local, servePort))
	f.StringVar(&o.TokenFile, "token-file", "", "`FILE` with the token that requests must bear; empty takes "+
		"VSETRAIN_TOKEN")
	f.BoolVar(&o.NoToken, "no-token", false, "listen without a token where other machines reach the address")
	f.StringArrayVar(&o.Hosts, "allow-host", nil, "host `NAME` under which the server may be called without a token, "+
		"beside localhost and addresses; may be repeated")
	f.IntVar(&o.MaxK, "max-k", o.MaxK, "images that a request may ask for")
	f.IntVar(&o.MaxItems, "max-items", o.MaxItems, "captions or images that a request may have embedded")
	f.Int64Var(&o.MaxBody, "max-body", o.MaxBody, "bytes of a request for embeddings")
	f.IntVar(&o.Queue, "queue", o.Queue, "requests in progress; more are answered with status 429")
	f.DurationVar(&o.Timeout, "timeout", o.Timeout, "time of a request")
	f.DurationVar(&o.Window, "window", 2*time.Millisecond, "how long queries wait for others")
	f.DurationVar(&o.Grace, "grace", 20*time.Second, "how long requests in progress may take when the server stops")
	f.StringVar(&o.LogFormat, "log", logText, "a line for each request on standard error: text, json or none")
	f.BoolVar(&o.Describe, "openapi", false, "print the OpenAPI description and end")
	o.trained.add(c)
	f.Lookup("split").Usage = "splits of the data set that can be searched, with commas; the first is the usual one"
	o.cache.add(c)
	must(c.MarkFlagFilename("token-file"))
	c.MarkFlagsMutuallyExclusive("token-file", "no-token")
	must(c.RegisterFlagCompletionFunc("log", cobra.FixedCompletions([]string{logText, logJSON, logNone},
		cobra.ShellCompDirectiveNoFileComp)))
	return c
}

func (o *serveOptions) check(a *app) (err error) {
	if o.Depth < 1 {
		return usagef("--shortlist-size: expected a whole number of at least 1, found %d", o.Depth)
	}
	switch o.LogFormat {
	case logNone:
	case logText, logJSON:
		o.Log, o.JSON = a.Err, o.LogFormat == logJSON
	default:
		return usagef("--log: expected text, json or none, found %q", o.LogFormat)
	}
	for flag, value := range map[string]int64{"max-k": int64(o.MaxK), "max-items": int64(o.MaxItems),
		"max-body": o.MaxBody, "queue": int64(o.Queue), "timeout": int64(o.Timeout), "grace": int64(o.Grace)} {
		if value <= 0 {
			return usagef("--%s: expected more than 0", flag)
		}
	}
	o.Splits, o.Version = strings.Split(o.trained.Split, ","), build.Current().Version
	switch {
	case o.TokenFile != "":
		if o.Token, err = serve.ReadToken(o.TokenFile); err != nil {
			return err
		}
	case !o.NoToken:
		o.Token = a.getenv("VSETRAIN_TOKEN")
	}
	if err := o.Validate(); err != nil {
		return usagef("%v", err)
	}
	return o.trained.check()
}

func (o *serveOptions) describe(a *app) error {
	s, err := serve.New(o.Options)
	if err != nil {
		return err
	}
	_, err = a.Out.Write(s.Description())
	return err
}

func (o *serveOptions) run(ctx context.Context, a *app) error {
	if o.Describe {
		return o.describe(a)
	}
	var url string
	var s *serve.Server // whose Ready names it
	o.Ready = func() {
		if o.JSON {
			s.Log().Info("ready", "url", url)
			return
		}
		a.Printf("answers at %s\n", url)
	}
	var err error
	s, err = serve.New(o.Options)
	if err != nil {
		return err
	}
	told := make(chan os.Signal, 1)
	signal.Notify(told, stopSignals()...)
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	context.AfterFunc(ctx, func() { signal.Stop(told) }) // a second one ends the program at once
	go func() {
		select {
		case by := <-told:
			s.Log().Info("stopping", "signal", by.String())
			if by == hangup {
				stop(errHangup)
			}
			stop(nil)
		case <-ctx.Done():
		}
	}()
	l, err := listenOn(o.Listen, servePort) // before the work, not after it
	if err != nil {
		return err
	}
	defer l.Close()
	url = fmt.Sprintf("http://%s/", bind.Here(l.Addr()))
	if !bind.IsLoopback(l.Addr()) && o.Token == "" {
		if !o.NoToken {
			return fmt.Errorf("%s is not the loopback address: everybody who reaches it could search; name a token "+
				"with --token-file or VSETRAIN_TOKEN, or say --no-token", l.Addr())
		}
		o.warn(a, s, fmt.Errorf("%s is not the loopback address: everybody who reaches it may search, and read "+
			"captions and ids", l.Addr()))
	}
	var open []*search.Index
	defer func() {
		for _, x := range open {
			x.Close()
		}
	}()
	err = s.Serve(ctx, l, func(ctx context.Context) (map[string]serve.Searcher, error) {
		searchers := map[string]serve.Searcher{}
		for _, split := range o.Splits {
			x, err := o.open(ctx, a, s, split)
			if err != nil {
				return nil, err
			}
			open, searchers[split] = append(open, x), x
		}
		return searchers, nil
	})
	if err == nil && context.Cause(ctx) == errHangup {
		return &codedError{errHangup, exitInterrupted}
	}
	return err
}

// errHangup tells those who expect the server to read its data anew.
var errHangup = errors.New("a hangup (SIGHUP) stops the server, which reads nothing anew; start it again to serve " +
	"what has changed")

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
	dir, limit := o.cache.folder()
	x, err := search.Open(search.Options{Checkpoints: o.Checkpoints, Shortlist: o.Shortlist, Depth: o.Depth,
		Data: o.trained.Data, Vocab: o.trained.Vocab, Split: split, Batch: o.trained.Batch, Device: o.trained.Device,
		Cache: dir, CacheLimit: limit, BLAS: a.getenv("VSETRAIN_BLAS"), Progress: bars.show,
		Warn: func(err error) { o.warn(a, s, err) }})
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
	fmt.Fprintf(a.Err, "%s, split %s: %d images; ready after %s\n", i.Data, i.Split, i.Images, ui.Duration(took))
	return x, nil
}
