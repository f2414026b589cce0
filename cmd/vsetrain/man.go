package main

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"

	"vsetrain/cmd/vsetrain/internal/flags"
	"vsetrain/internal/files/atomicfile"
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

func (o *manPagesOptions) run(_ context.Context, a *app) error {
	n, err := writeManPages(o.root(), o.Dir, a.Now())
	if err == nil {
		a.Printf("%d pages in %s\n", n, o.Dir)
	}
	return err
}

// writeManPages writes the page of a command and of all below it, and returns how many there are.
func writeManPages(c *cobra.Command, dir string, now time.Time) (int, error) {
	if err := atomicfile.MkdirAll(dir); err != nil {
		return 0, fmt.Errorf("folder for man pages: %w", err)
	}
	name := strings.ReplaceAll(c.CommandPath(), " ", "-")
	var page bytes.Buffer
	header := &doc.GenManHeader{Title: strings.ToUpper(name), Section: "1", Source: "vsetrain " + session(now).Version,
		Manual: "vsetrain"}
	c.DisableAutoGenTag = true
	if err := doc.GenMan(c, header, &page); err != nil {
		return 0, fmt.Errorf("man page of %s: %w", c.CommandPath(), err)
	}
	text := replaceOptions(page.String(), "OPTIONS", manOptions(c.NonInheritedFlags()))
	text = replaceOptions(text, "OPTIONS INHERITED FROM PARENT COMMANDS", manOptions(c.InheritedFlags()))
	if err := atomicfile.WriteFile(filepath.Join(dir, name+".1"), atomicfile.Bytes([]byte(text))); err != nil {
		return 0, err
	}
	pages := 1
	for _, sub := range c.Commands() {
		if !sub.IsAvailableCommand() || sub.IsAdditionalHelpTopicCommand() {
			continue
		}
		n, err := writeManPages(sub, dir, now)
		if err != nil {
			return pages, err
		}
		pages += n
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
