package main

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"vsetrain/internal/apps/search"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/run/config"
	"vsetrain/internal/run/pretrained"
	"vsetrain/internal/system/options"
	"vsetrain/models"
)

// configFlags are the flags of every command that reads a configuration.
type configFlags struct {
	File    string         `flag:"config,c" arg:"FILE" usage:"configuration: a YAML FILE, or a preset (vsetrain config list)"`
	Set     []string       `flag:"set" arg:"key=value" usage:"set a configuration key, such as optim.lr=0.001"`
	Aliases []config.Alias // flags that stand for keys
	named   string         // "CONFIG" where an argument names the file
}

// extend adds shell completion, and takes the file from an argument too.
func (f *configFlags) extend(c *cobra.Command) {
	must(c.RegisterFlagCompletionFunc("config", completePreset))
	c.ValidArgsFunction = completePreset
	fileArg(c, &f.File, "CONFIG")
	take := c.Args
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			f.named = "CONFIG"
		}
		return take(c, args)
	}
	must(c.RegisterFlagCompletionFunc("set", func(_ *cobra.Command, _ []string, word string) ([]string,
		cobra.ShellCompDirective) {
		directive := cobra.ShellCompDirectiveNoFileComp
		if !strings.Contains(word, "=") {
			directive |= cobra.ShellCompDirectiveNoSpace
		}
		return config.Complete(word), directive
	}))
}

// completePreset completes the name of a preset, or a file if no preset matches.
func completePreset(_ *cobra.Command, _ []string, word string) (names []string, _ cobra.ShellCompDirective) {
	for _, name := range config.PresetNames() {
		if strings.HasPrefix(name, word) {
			names = append(names, name)
		}
	}
	return names, cobra.ShellCompDirectiveDefault
}

// load reads the configuration: the flags override the environment, which overrides the file.
func (f *configFlags) load(a *app) (*config.Resolved, error) {
	return config.Load(config.Request{File: f.File, Named: f.named, Env: a.Environ, Set: f.Set, Flags: f.Aliases})
}

// must panics for mistakes of the program itself, such as completing a flag that does not exist.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// deviceFlags choose where a command computes.
type deviceFlags struct {
	Device device.Options `group:"Device" flags:"device=kind precision gpu=index threads"`
}

func (f *deviceFlags) Defaults() { f.Device = device.DefaultOptions() }

// perImageFlag is the flag of the commands that open a data set.
type perImageFlag struct {
	PerImage options.PerSplit `flag:"captions-per-image" arg:"N" default:"auto" usage:"captions per image: one number, or one per split such as train=20,test=1; auto reads it from the files"`
}

// weightFlag is the flag of the commands that read files of the reference repositories.
type weightFlag struct {
	Set []string `flag:"set" arg:"key=value" usage:"network option, such as model.scan.lambda=9, that a file of a reference repository does not state"`
}

// trainedFlags are the flags of the commands that apply a trained network to a split.
type trainedFlags struct {
	Data string `flag:"data" arg:"DIR" usage:"DIR of the data set" empty:"the run's"`
	perImageFlag
	Vocab string `flag:"vocab" arg:"FILE" usage:"vocabulary FILE" empty:"the run's or the data set's"`
	Batch int    `flag:"batch" default:"128" min:"1" usage:"images or captions to embed at a time; does not change the result"`
	weightFlag
	deviceFlags
}

func (f *trainedFlags) request(a *app, checkpoint, split string) pretrained.Request {
	return pretrained.Request{Checkpoint: checkpoint, Set: f.Set, Data: f.Data, PerImage: f.PerImage, Vocab: f.Vocab,
		Split: split, Device: f.Device, BLAS: a.getenv("VSETRAIN_BLAS"), Warn: a.warn}
}

// splitFlag names the split that a network is applied to.
type splitFlag struct {
	Split string `flag:"split" arg:"SPLIT" default:"test" usage:"split of the data set"`
}

// cacheLimit bounds the default cache, in bytes.
const cacheLimit = 4 << 30

// cacheFlags say where commands keep encodings.
type cacheFlags struct {
	Cache   string `flag:"cache" arg:"DIR" usage:"DIR to keep encodings in" empty:"vsetrain/encoded in the user's cache folder, at most 4 GiB"`
	NoCache bool   `flag:"no-cache" not:"cache" usage:"neither keep nor use encodings"`
}

// folder returns the cache and its limit, 0 for --cache. dir is empty if there is no cache.
func (f *cacheFlags) folder() (dir string, limit int64) {
	switch {
	case f.NoCache:
		return "", 0
	case f.Cache != "":
		return f.Cache, 0
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", 0
	}
	return filepath.Join(dir, "vsetrain", "encoded"), cacheLimit
}

// retrievalFlags are the flags of the commands that answer queries.
type retrievalFlags struct {
	Checkpoints []string `flag:"checkpoint" arg:"PATH" usage:"run directory or checkpoint; several form an ensemble"`
	Shortlist   string   `flag:"shortlist" arg:"PATH" usage:"checkpoint of an embedder that picks the candidates"`
	Depth       int      `flag:"shortlist-size" default:"100" min:"1" usage:"number of candidates it picks"`
	Extractor   string   `flag:"extractor" arg:"FILE" usage:"model FILE.onnx for pictures" empty:"the one that data extract recorded"`
	trainedFlags
	cacheFlags `group:"Encodings"`
}

// options returns the options of the index of a split.
func (o *retrievalFlags) options(a *app, split string, progress func(phase string, done, total int)) search.Options {
	dir, limit := o.folder()
	return search.Options{Checkpoints: o.Checkpoints, Set: o.Set, Shortlist: o.Shortlist, Depth: o.Depth, Data: o.Data,
		PerImage: o.PerImage, Vocab: o.Vocab, Split: split, Batch: o.Batch, Cache: dir, CacheLimit: limit,
		Device: o.Device, BLAS: a.getenv("VSETRAIN_BLAS"), Warn: a.warn, Progress: progress}
}

// pairScorers and embedders list networks for help texts, by their names in the configuration.
func pairScorers() string { return inWords("and", func(t models.Traits) bool { return !t.Embeds }) }
func embedders() string   { return inWords("or", func(t models.Traits) bool { return t.Embeds }) }

// inWords joins names as in a sentence: "saf, sgr and gsmn".
func inWords(join string, is func(models.Traits) bool) string {
	names := models.NamesWhere(is)
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " " + join + " " + names[last]
}
