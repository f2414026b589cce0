package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"vsetrain/cmd/vsetrain/internal/flags"
	"vsetrain/cmd/vsetrain/internal/ui"
	"vsetrain/internal/run/config"
	"vsetrain/models"
	"vsetrain/train"
)

type configListOptions struct {
	Words   []string `args:"WORD" optional:"yes"`
	Network string   `flag:"network" usage:"presets of this network"`
	Data    string   `flag:"data" words:"f30k|coco|iapr|f8k" usage:"presets of this data set: f30k, coco, iapr or f8k"`
	Loss    string   `flag:"loss" words:"lmh1|lmh2|lmh|lseh|lseh-bert|luwm" usage:"presets of this loss: lmh1, lmh2, lseh, lseh-bert, luwm, or lmh for both LMH"`
	Parts   bool     `flag:"parts" usage:"list the files that presets are made of"`
	JSON    bool     `flag:"json" usage:"print JSON"`
}

func newCmdConfigList(a *app) *cobra.Command {
	return a.command(&configListOptions{}, &cobra.Command{
		Use:   "list [WORD...]",
		Short: "List the presets that --config takes",
		Long: `List the presets: published settings of the networks by data set and loss, with
their sources. WORDs select the presets whose line contains all of them.

--config NAME takes a preset in any folder; so do extends: in a configuration and base: in a sweep. A file of that
name takes precedence.

lmh1 is LMH with margin 0.2 and the schedule of the network's own repository; lmh2 has margin 0.16 and the schedule
of LSEH. --parts lists the files that presets are made of, for extends: in your own files.`,
		Example: `  vsetrain config list --network vsepp --data f30k
  vsetrain config list gsmn lseh
  vsetrain config list --parts`,
	}, flags.Words{"network": models.NamesWhere(func(models.Traits) bool { return true })})
}

// presetLine is a preset with the settings that distinguish it from others.
type presetLine struct {
	Name      string  `json:"preset"`
	Network   string  `json:"network"`
	Encoder   string  `json:"text_encoder"`
	Data      string  `json:"data"`
	Loss      string  `json:"loss"`
	Margin    float64 `json:"margin"`
	LR        float64 `json:"lr"`
	Schedule  string  `json:"schedule"`
	LRUpdate  int     `json:"lr_update"`
	LRUpdate2 int     `json:"lr_update2,omitempty"`
	Warmup    int     `json:"warmup_epochs"`
	Epochs    int     `json:"epochs"`
	Batch     int     `json:"batch"`
	Source    string  `json:"source"`
}

// text is the text that WORDs are looked for in.
func (l *presetLine) text() string {
	return strings.ToLower(strings.Join([]string{l.Name, l.Network, l.Encoder, l.Data, l.Loss}, " "))
}

func (o *configListOptions) run(_ context.Context, a *app) error {
	if o.Parts {
		return o.parts(a)
	}
	lines := []presetLine{}
	for _, p := range config.Presets() {
		l, err := lineOf(&p)
		if err != nil {
			return err
		}
		if o.chooses(&l) && hasAll(l.text(), o.Words) {
			lines = append(lines, l)
		}
	}
	if o.JSON {
		return printJSON(a, lines)
	}
	if len(lines) == 0 {
		return usagef("no preset matches; vsetrain config list without filters shows all %d",
			len(config.Presets()))
	}
	t := ui.NewTable("preset", "network", "text encoder", "data", "loss", ">lr", "decays", ">warm-up", ">epochs",
		">batch", "source")
	for _, l := range lines {
		t.Row(l.Name, l.Network, l.Encoder, l.Data, l.Loss, strconv.FormatFloat(l.LR, 'f', -1, 64), l.decays(),
			strconv.Itoa(l.Warmup), strconv.Itoa(l.Epochs), strconv.Itoa(l.Batch), l.Source)
	}
	t.Write(a.Streams)
	a.Printf("%s; vsetrain config show --config NAME prints all settings of one\n", ui.Count(len(lines), "preset"))
	return nil
}

// lineOf resolves a preset.
func lineOf(p *config.Preset) (presetLine, error) {
	r, err := config.Load(config.Request{Preset: p.Name})
	if err != nil {
		return presetLine{}, err
	}
	return presetLine{Name: p.Name, Network: r.Model.Network, Encoder: r.Model.TextEncoder, Data: p.Data, Loss: p.Loss,
		Margin: r.Loss.Margin, LR: r.Optim.LR, Schedule: r.Optim.Schedule, LRUpdate: r.Optim.LRUpdate,
		LRUpdate2: r.Optim.LRUpdate2, Warmup: r.Loss.WarmupEpochs, Epochs: r.Train.Epochs, Batch: r.Train.Batch,
		Source: p.Source}, nil
}

// decays tells after which epochs the learning rate falls.
func (l *presetLine) decays() string {
	switch {
	case l.LRUpdate == 0:
		return "never"
	case l.Schedule == train.Repeat:
		return fmt.Sprintf("every %d", l.LRUpdate)
	case l.LRUpdate2 > 0:
		return fmt.Sprintf("at %d, %d", l.LRUpdate, l.LRUpdate2)
	}
	return fmt.Sprintf("at %d", l.LRUpdate)
}

// chooses reports whether a preset matches the flags.
func (o *configListOptions) chooses(l *presetLine) bool {
	return (o.Network == "" || o.Network == l.Network) && (o.Data == "" || o.Data == l.Data) &&
		(o.Loss == "" || o.Loss == l.Loss || strings.TrimRight(l.Loss, "12") == o.Loss)
}

func hasAll(text string, words []string) bool {
	return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, strings.ToLower(w)) })
}

func (o *configListOptions) parts(a *app) error {
	t := ui.NewTable("part", "what")
	parts := []config.Part{}
	for _, p := range config.Parts() {
		if hasAll(strings.ToLower(p.Name+" "+p.About), o.Words) {
			parts = append(parts, p)
			t.Row(p.Name, p.About)
		}
	}
	if o.JSON {
		return printJSON(a, parts)
	}
	t.Write(a.Streams)
	return nil
}

func printJSON(a *app, v any) error { return indented(v)(a.Raw()) }
