package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"vsetrain/internal/system/options"
)

// numberFlag is the value of a flag whose numbers are read as those of files are; package strconv takes 010 for eight
// where
// it looks for a whole number, and for ten where it does not.
type numberFlag struct{ pflag.Value }

// Set implements pflag.Value.
func (n numberFlag) Set(text string) error {
	items := []string{text}
	if strings.HasSuffix(n.Type(), "Slice") {
		items = strings.Split(text, ",")
	}
	for i, item := range items {
		var v any
		var err error
		switch strings.TrimSuffix(n.Type(), "Slice") {
		case "float64":
			v, err = options.ParseFloat(strings.TrimSpace(item))
		case "uint64":
			v, err = options.ParseUint(strings.TrimSpace(item))
		default:
			v, err = options.ParseInt(strings.TrimSpace(item))
		}
		if err != nil {
			return err
		}
		items[i] = fmt.Sprint(v)
	}
	return n.Value.Set(strings.Join(items, ","))
}

// readNumbers lets numberFlag read the flags of a command, and of all below it, that are numbers.
func readNumbers(c *cobra.Command) {
	for _, sub := range c.Commands() {
		readNumbers(sub)
	}
	c.Flags().VisitAll(func(f *pflag.Flag) {
		switch f.Value.Type() {
		case "int", "int64", "uint64", "float64", "intSlice", "float64Slice":
			f.Value = numberFlag{f.Value}
		}
	})
}

// addVerbosity adds the flags of every command that say how much is told beside results.
func (a *app) addVerbosity(f *pflag.FlagSet) {
	f.BoolVar(&a.Quiet, "quiet", false, "print results, warnings and errors alone, no progress")
	f.BoolVar(&a.Verbose, "verbose", false, "print progress every second, also into a pipe, and how long each part "+
		"took")
}

// plainBool is a truth value without "[=true|false]" after its name in the help.
type plainBool struct{ pflag.Value }

// Type implements pflag.Value.
func (plainBool) Type() string { return "boolfunc" }

// flagUsages is the help of flags as people type them.
func flagUsages(flags *pflag.FlagSet) string {
	shown := pflag.NewFlagSet("", pflag.ContinueOnError)
	shown.SortFlags = flags.SortFlags
	flags.VisitAll(func(f *pflag.Flag) {
		copied := *f
		if f.Value.Type() == "bool" {
			copied.Value = plainBool{f.Value}
		}
		shown.AddFlag(&copied)
	})
	return shown.FlagUsages()
}

// showFlags makes the help of a command, and of all below it, that of flagUsages.
func showFlags(root *cobra.Command) {
	cobra.AddTemplateFunc("flagUsages", flagUsages)
	usage := root.UsageTemplate()
	for _, set := range []string{"LocalFlags", "InheritedFlags"} {
		usage = strings.ReplaceAll(usage, "."+set+".FlagUsages", "flagUsages ."+set)
	}
	root.SetUsageTemplate(usage)
}
