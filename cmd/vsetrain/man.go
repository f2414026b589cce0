package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"vsetrain/cmd/vsetrain/internal/flags"
	"vsetrain/internal/files/atomicfile"
	"vsetrain/internal/files/regular"
	"vsetrain/internal/system/build"
	"vsetrain/internal/system/options"
)

type manPagesOptions struct {
	Dir  string `flag:"dir" arg:"DIR" need:"yes" usage:"DIR to write to"`
	root func() *cobra.Command
}

func newCmdMan(a *app) *cobra.Command {
	o := &manPagesOptions{}
	c := a.command(o, &cobra.Command{
		Use:   "man",
		Short: "Write man pages of all commands",
		Long: `Write a man page for each command (vsetrain.1, vsetrain-train.1, ...) into a
folder, which is created if it is missing. Pages of an earlier version are
replaced.

SOURCE_DATE_EPOCH, if set, is the date of the pages.`,
		Example: `  vsetrain man --dir man/man1 && man -M man vsetrain-search
  vsetrain man --dir ~/.local/share/man/man1`,
	})
	o.root = c.Root
	return c
}

// pages are the pages of docs/ for the commands and their subcommands.
var pages = map[string]string{"vsetrain": "README", "average": "training", "bench": "performance",
	"completion": "install", "config": "networks", "data": "data", "data noise": "losses", "doctor": "cuda",
	"embed": "search", "eval": "evaluation reproduce", "export": "onnx python", "import": "reproduce",
	"launch": "distributed", "lr-range": "training", "man": "install", "mine": "losses", "precompute-bert": "losses",
	"precompute-svd": "losses", "quickstart": "tutorial", "report": "reports", "search": "search",
	"selftest": "cuda", "serve": "serve", "sweep": "sweeps", "track": "training", "train": "training",
	"verify": "reliability", "version": "install", "view": "view"}

// manual returns the pages of docs/ that describe a command, and the address of the project.
func manual(c *cobra.Command) (where []string) {
	for names := ""; names == ""; c = c.Parent() {
		names = pages[strings.TrimPrefix(c.CommandPath(), "vsetrain ")]
		for _, name := range strings.Fields(names) {
			where = append(where, "docs/"+name+".md")
		}
	}
	if build.Homepage != "" {
		where = append(where, build.Homepage)
	}
	return where
}

// manTitle is the name of a command's man page.
func manTitle(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// manPage is a page, and its first lines, which identify the page of another version.
type manPage struct{ name, head, text string }

func (o *manPagesOptions) run(_ context.Context, a *app) error {
	date := a.Now()
	if epoch := a.getenv("SOURCE_DATE_EPOCH"); epoch != "" {
		seconds, err := options.ParseInt(epoch)
		if err != nil {
			return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
		}
		date = time.Unix(int64(seconds), 0)
	}
	pages := manPages(o.root(), date.UTC().Format("Jan 2006"))
	if err := atomicfile.MkdirAll(o.Dir); err != nil {
		return fmt.Errorf("folder for man pages: %w", err)
	}
	for _, p := range pages { // before the first page is written
		path := filepath.Join(o.Dir, p.name)
		switch b, err := regular.ReadFile(path, 1<<20, "a man page"); {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return err
		case !strings.HasPrefix(string(b), p.head):
			return fmt.Errorf("%s is not a man page of vsetrain: choose another folder, or move the file away", path)
		}
	}
	for _, p := range pages {
		if err := atomicfile.WriteFile(filepath.Join(o.Dir, p.name), atomicfile.Bytes([]byte(p.text))); err != nil {
			return err
		}
	}
	a.Printf("%d pages in %s\n", len(pages), o.Dir)
	return nil
}

// manPages returns the pages of a command and its subcommands.
func manPages(c *cobra.Command, date string) []manPage {
	c.InitDefaultHelpFlag()
	head := fmt.Sprintf(".nh\n.TH %q", strings.ToUpper(manTitle(c)))
	var b strings.Builder
	fmt.Fprintf(&b, "%s \"1\" %q %q \"vsetrain\"\n", head, date, "vsetrain "+build.Current().Version)
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n.SH SYNOPSIS\n\\fB%s\\fP\n.SH DESCRIPTION\n", roff(manTitle(c)),
		roff(c.Short), roff(c.UseLine()))
	for block := range strings.SplitSeq(cmp.Or(c.Long, c.Short), "\n\n") {
		b.WriteString(manBlock(block))
	}
	var links []string
	if c.HasParent() {
		links = append(links, manTitle(c.Parent())+"(1)")
	}
	var pages []manPage
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && !sub.IsAdditionalHelpTopicCommand() {
			links = append(links, manTitle(sub)+"(1)")
			pages = append(pages, manPages(sub, date)...)
		}
	}
	for _, section := range []struct{ heading, text string }{{"OPTIONS", manOptions(c.NonInheritedFlags())},
		{"OPTIONS INHERITED FROM PARENT COMMANDS", manOptions(c.InheritedFlags())}, {"EXAMPLE", manBlock(c.Example)},
		{"SEE ALSO", "\\fB" + roff(strings.Join(append(links, manual(c)...), ", ")) + "\\fP\n"}} {
		b.WriteString(".SH " + section.heading + "\n" + section.text)
	}
	return append([]manPage{{manTitle(c) + ".1", head, b.String()}}, pages...)
}

// manBlock formats a paragraph in roff, or an example if its lines are indented.
func manBlock(text string) string {
	begin, end := ".PP\n", ""
	if strings.HasPrefix(text, "  ") {
		begin, end = ".PP\n.EX\n", ".EE\n"
	}
	for line := range strings.Lines(text) {
		begin += roff(strings.TrimSuffix(line, "\n")) + "\n"
	}
	return begin + end
}

// manOptions lists flags in roff: "-c, --config FILE", the explanation, and the default unless it is empty or false.
func manOptions(set *pflag.FlagSet) string {
	var b strings.Builder
	set.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Deprecated != "" {
			return
		}
		value, usage := flags.Describe(f)
		b.WriteString(".TP\n")
		if f.Shorthand != "" {
			fmt.Fprintf(&b, "\\fB\\-%s\\fP, ", f.Shorthand)
		}
		fmt.Fprintf(&b, "\\fB\\-\\-%s\\fP", roff(f.Name))
		if value != "" {
			fmt.Fprintf(&b, " \\fI%s\\fP", roff(value))
		}
		if !slices.Contains([]string{"", "false"}, f.DefValue) {
			usage += " (default " + f.DefValue + ")"
		}
		b.WriteString("\n" + roff(usage) + "\n")
	})
	return b.String()
}

// roff escapes backslashes, dashes, and characters that begin a request at the start of a line.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	return text
}
