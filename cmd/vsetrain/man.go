package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"

	"vsetrain/cmd/vsetrain/internal/flags"
	"vsetrain/internal/files/atomicfile"
	"vsetrain/internal/files/regular"
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
		Long: `Write a man page for every command, vsetrain.1, vsetrain-train.1 and so on, into a folder, which
is created if it is missing. Pages of an earlier version are replaced. SOURCE_DATE_EPOCH, if set, is the date of
the pages.`,
		Example: `  vsetrain man --dir man/man1 && man -M man vsetrain-search
  vsetrain man --dir ~/.local/share/man/man1`,
	})
	o.root = c.Root
	return c
}

// manPage is a page, and its first lines, by which one of an earlier version is known.
type manPage struct{ name, head, text string }

func (o *manPagesOptions) run(_ context.Context, a *app) error {
	pages, err := manPages(o.root(), a.Now())
	if err != nil {
		return err
	}
	if err := atomicfile.MkdirAll(o.Dir); err != nil {
		return fmt.Errorf("folder for man pages: %w", err)
	}
	for _, p := range pages { // before the first is written
		path := filepath.Join(o.Dir, p.name)
		switch b, err := regular.ReadFile(path, 1<<20, "a man page"); {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return err
		case !strings.HasPrefix(string(b), p.head):
			return fmt.Errorf("%s is no man page that vsetrain wrote: choose another folder, or move the file away", path)
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

// manPages returns the page of a command and of all below it.
func manPages(c *cobra.Command, now time.Time) ([]manPage, error) {
	name := strings.ReplaceAll(c.CommandPath(), " ", "-")
	var page bytes.Buffer
	header := &doc.GenManHeader{Title: strings.ToUpper(name), Section: "1", Source: "vsetrain " + session(now).Version,
		Manual: "vsetrain"}
	c.DisableAutoGenTag = true
	if err := doc.GenMan(c, header, &page); err != nil {
		return nil, fmt.Errorf("man page of %s: %w", c.CommandPath(), err)
	}
	text := replaceOptions(page.String(), "OPTIONS", manOptions(c.NonInheritedFlags()))
	text = replaceOptions(text, "OPTIONS INHERITED FROM PARENT COMMANDS", manOptions(c.InheritedFlags()))
	head, _, _ := strings.Cut(text, `" "1" `) // of .TH, the title line
	pages := []manPage{{name + ".1", head, text}}
	for _, sub := range c.Commands() {
		if !sub.IsAvailableCommand() || sub.IsAdditionalHelpTopicCommand() {
			continue
		}
		more, err := manPages(sub, now)
		if err != nil {
			return nil, err
		}
		pages = append(pages, more...)
	}
	return pages, nil
}

// replaceOptions puts other options into a section of a page: those of the generator are written as --batch=128 and
// --checkpoint=[],
// which nobody types.
func replaceOptions(page, section, options string) string {
	heading := ".SH " + section + "\n"
	begin := strings.Index(page, heading)
	if begin < 0 {
		return page
	}
	end := strings.Index(page[begin+len(heading):], "\n.SH ")
	if end < 0 {
		return page[:begin+len(heading)] + options
	}
	return page[:begin+len(heading)] + options + page[begin+len(heading)+end+1:]
}

// manOptions lists flags in roff: "-c, --config FILE", the explanation, and the default where it says
// something.
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

// roff escapes text: backslashes, dashes, and marks that begin a request at the start of a line.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	return text
}
