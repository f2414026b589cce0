package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"

	"github.com/spf13/cobra"

	"vsetrain/cmd/vsetrain/internal/ui"
	"vsetrain/internal/apps/view"
	"vsetrain/internal/apps/web"
	"vsetrain/internal/system/bind"
)

type viewOptions struct {
	Dir    string `args:"DIR"`
	Listen string `flag:"listen" arg:"HOST:PORT" usage:"HOST:PORT to listen on, port 0 for any" empty:"127.0.0.1 with the first free port from 8420"`
	Open   bool   `flag:"open" usage:"open the page in the browser"`
	Data   string `flag:"data" arg:"DIR" usage:"DIR of the data set to retrieve from" empty:"each run's"`
	perImageFlag
	Images     string   `flag:"images" arg:"DIR" usage:"DIR of pictures, named after the image ids" empty:"images in the data set's folder"`
	Extractor  string   `flag:"extractor" arg:"FILE" usage:"model FILE.onnx for pictures sent to the search page" empty:"the one that 'data extract' recorded"`
	Hosts      []string `flag:"allow-host" arg:"NAME" usage:"host NAME that requests may use, besides localhost and addresses"`
	cacheFlags `group:"Encodings"`
	deviceFlags

	page string // that is opened; empty is the first
}

// viewPort is the first port to try without --listen.
const viewPort = 8420

func newCmdView(a *app) *cobra.Command {
	c := a.command(&viewOptions{}, &cobra.Command{
		Use:   "view DIR",
		Short: "Show runs, curves and retrieval as a local web page",
		Long: `Show the runs in a folder as web pages on this machine: tables, curves, sweeps,
and what a trained network retrieves. DIR holds runs and sweeps, up to five
levels deep, or is one run.`,
		Example: `  vsetrain view runs
  vsetrain view runs --data data/f8k --images data/f8k/images --open
  vsetrain view runs/vsepp-f8k-lseh --listen 127.0.0.1:0`,
	})
	c.ValidArgsFunction = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return nil, cobra.ShellCompDirectiveFilterDirs
	}
	return c
}

func (o *viewOptions) check(*app) error { return asUsage(web.CheckHosts(o.Hosts)) }

func (o *viewOptions) run(ctx context.Context, a *app) error {
	ctx, stop := interruptible(ctx)
	defer stop()
	l, err := listenOn(o.Listen, viewPort)
	if err != nil {
		return err
	}
	defer l.Close()
	if host, _, _ := net.SplitHostPort(o.Listen); host != "" {
		o.Hosts = append(o.Hosts, host)
	}
	if !bind.IsLoopback(l.Addr()) {
		if name, err := os.Hostname(); err == nil && name != "" {
			o.Hosts = append(o.Hosts, name)
		}
		a.Warnf("--listen %s is not the loopback address: anyone who can reach it may read the runs, captions and "+
			"pictures", o.Listen)
	}
	cache, limit := o.folder()
	s, err := view.New(view.Options{Dir: o.Dir, Data: o.Data, PerImage: o.PerImage, Images: o.Images,
		Extractor: o.Extractor, Hosts: o.Hosts, Cache: cache, CacheLimit: limit, Device: o.Device,
		BLAS: a.getenv("VSETRAIN_BLAS"), Getenv: a.getenv, Warn: a.warn})
	if err != nil {
		return err
	}
	defer s.Close()
	url := "http://" + bind.Here(l.Addr()) + "/" + o.page
	a.Printf("%s of %s at %s\n", ui.Count(s.Runs(), "run"), o.Dir, url)
	if o.Open {
		if err := openBrowser(url); err != nil {
			a.Warnf("no browser could be started (%v); open %s", err, url)
		}
	}
	return s.Serve(ctx, l)
}

// listenOn listens on an address, or on the first free loopback port from port if it is empty.
func listenOn(addr string, port int) (net.Listener, error) {
	if addr == "" {
		return bind.ListenFrom(port)
	}
	_, p, err := net.SplitHostPort(addr)
	if err == nil {
		_, err = net.LookupPort("tcp", p)
	}
	if err != nil {
		near := ""
		if _, err := strconv.ParseUint(addr, 10, 16); err == nil {
			near = fmt.Sprintf("; did you mean %s:%s?", bind.Local, addr)
		}
		return nil, usagef("--listen: expected HOST:PORT, such as %s:%d, found %q%s", bind.Local, port, addr, near)
	}
	return bind.Listen(addr)
}

// openBrowser starts the browser, and does not wait for it.
func openBrowser(url string) error {
	name, args := "xdg-open", []string{url}
	switch runtime.GOOS {
	case "darwin":
		name = "open"
	case "windows":
		name, args = "rundll32", []string{"url.dll,FileProtocolHandler", url}
	}
	cmd := exec.Command(name, args...)
	if err := cmd.Start(); err != nil {
		return err
	}
	go cmd.Wait()
	return nil
}
