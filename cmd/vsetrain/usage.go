package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"vsetrain/cmd/vsetrain/internal/flags"
	"vsetrain/internal/files/runfs"
	"vsetrain/internal/system/options"
	"vsetrain/models"
)

// noArgs accepts no arguments. The error proposes the flag that the argument was meant for.
func noArgs(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usagef("%s takes no arguments, found %q%s", c.CommandPath(), args[0], flagFor(c, args[0]))
}

// fileArg takes the file of --config from an argument too: vsetrain train demo.
func fileArg(c *cobra.Command, file *string, name string) {
	c.Use += " [" + name + "]"
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		if near := flagFor(c, args[0]); near != "" || len(args) > 1 {
			return usagef("%s takes one argument, %s, found %q%s", c.CommandPath(), name, args, near)
		}
		if *file != "" {
			return usagef("--config %s and %s: name one of them", *file, args[0])
		}
		*file = args[0]
		return nil
	}
}

// flagFor guesses the flag that an argument was meant for: "; did you mean --run runs/demo?", or "".
func flagFor(c *cobra.Command, arg string) string {
	name := ""
	st, err := os.Stat(arg)
	switch {
	case err == nil && st.IsDir() && isRun(arg):
		name = "run"
	case err == nil && st.IsDir():
		name = "data"
	case strings.Contains(arg, "="):
		name = "set"
	}
	if name == "" || c.Flags().Lookup(name) == nil {
		return ""
	}
	return fmt.Sprintf("; did you mean --%s %s?", name, arg)
}

func isRun(dir string) bool {
	there, err := runfs.Exists(filepath.Join(dir, runfs.ConfigName))
	return there && err == nil
}

// checkpointArgs appends the arguments to the checkpoints.
func checkpointArgs(to *[]string, args []string) error {
	if *to = append(*to, args...); len(*to) == 0 {
		return usagef("which network? name a run directory or a checkpoint")
	}
	return nil
}

// isCheckpoint reports whether an argument before a query names a checkpoint: a run directory, a folder of the Hub's
// layout or a checkpoint file that exists, or a single word with a slash.
func isCheckpoint(arg string) bool {
	st, err := os.Stat(arg)
	if err != nil {
		return strings.ContainsAny(arg, `/\`) && !strings.Contains(arg, " ")
	}
	if st.IsDir() {
		weights, err := runfs.Exists(filepath.Join(arg, models.HubName))
		return isRun(arg) || weights && err == nil
	}
	switch strings.ToLower(filepath.Ext(arg)) {
	case ".safetensors", ".pth", ".pt", ".tar":
		return true
	}
	return false
}

// flagError rewrites errors of the flag library, and proposes a flag for an unknown one.
func flagError(c *cobra.Command, err error) error {
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok || len(unknown.GetSpecifiedName()) < 2 {
		return flags.Explain(err)
	}
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	if near := options.Nearest(unknown.GetSpecifiedName(), names); near != "" {
		return usagef("%v; did you mean --%s?", err, near)
	}
	return err
}

// misspelt returns an error for an unknown command before flags are parsed, as they belong to the command that was
// meant, and the command whose help to read. It also checks the words after help.
func misspelt(root *cobra.Command, args []string) (*cobra.Command, error) {
	help := len(args) > 0 && args[0] == "help"
	if help {
		args = args[1:]
	}
	c, rest, err := root.Find(args)
	if err != nil || len(rest) == 0 || strings.HasPrefix(rest[0], "-") || strings.HasPrefix(rest[0], "__") ||
		!help && !c.HasSubCommands() {
		return root, nil // cobra reports it, or it is the hidden command for shell completion
	}
	return c, unknownCommand(c, rest[0])
}

// unknownCommand is the error for a word that is not a command of c.
func unknownCommand(c *cobra.Command, word string) error {
	text := fmt.Sprintf("unknown command %q for %s", word, c.CommandPath())
	var names []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	switch near := options.Nearest(word, names); {
	case near != "":
		text += "; did you mean " + near + "?"
	case c.HasParent() && len(names) > 0:
		text += "; it has " + strings.Join(names, ", ")
	}
	return usagef("%s", text)
}

// canWrite returns an error if the folder of a file does not exist, for a check before the work. - is standard output.
func canWrite(files ...string) error {
	for _, file := range files {
		if st, err := os.Stat(filepath.Dir(file)); file != "" && file != "-" && (err != nil || !st.IsDir()) {
			return fmt.Errorf("cannot write %s: %s is not a folder; create it first", file, filepath.Dir(file))
		}
	}
	return nil
}

// indented returns a function that writes a value as JSON.
func indented(v any) func(io.Writer) error {
	return func(w io.Writer) error {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(v)
	}
}
