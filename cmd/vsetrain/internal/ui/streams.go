// Package ui writes for people: colours, tables and progress bars on a terminal, plain lines everywhere else.
package ui

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	"golang.org/x/term"
)

// Streams are the three streams of the program and what they can show. Results go to Out, progress and messages to Err,
// so that a pipe receives only results.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	OutTTY   bool
	ErrTTY   bool
	Color    bool       // show colours
	Quiet    bool       // only results, warnings and errors: no progress, no notes
	Verbose  bool       // progress every second, also in a pipe, and how long each job took
	Width    int        // of the terminal, in columns, when the program started
	Size     func() int // width of the terminal now; nil means Width
	Now      func() time.Time
}

// System returns the streams of the process. A terminal that understands no escape sequences gets the same output as a
// pipe. NO_COLOR turns colours off (no-color.org). getenv is os.Getenv.
func System(getenv func(string) string) *Streams {
	s := &Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Width: 80, Now: now}
	able := !dumb(runtime.GOOS, getenv("TERM"))
	s.OutTTY = able && term.IsTerminal(int(os.Stdout.Fd()))
	s.ErrTTY = able && term.IsTerminal(int(os.Stderr.Fd()))
	showEscapes(os.Stdout)
	showEscapes(os.Stderr)
	s.Color = getenv("NO_COLOR") == ""
	s.Size = func() int {
		for _, f := range []*os.File{os.Stdout, os.Stderr} {
			if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
				return w
			}
		}
		return s.Width
	}
	s.Width = s.Size()
	return s
}

// columns is the width of the terminal now.
func (s *Streams) columns() int {
	if s.Size == nil {
		return s.Width
	}
	return s.Size()
}

// dumb reports whether a terminal understands no escape sequences, such as a shell in Emacs or a CI console. A terminal
// without TERM is dumb, as for Git, except on Windows, which does not set it.
func dumb(system, name string) bool {
	return name == "dumb" || name == "unknown" || name == "" && system != "windows"
}

// Style is an escape sequence for text, without its beginning.
type Style string

// Styles.
const (
	Bold   Style = "[1m"
	Faint  Style = "[2m"
	Red    Style = "[31m"
	Green  Style = "[32m"
	Yellow Style = "[33m"
)

// Paint returns a text in a style if Out shows colours, for the methods that write.
func (s *Streams) Paint(style Style, text string) string {
	return paint(s.OutTTY && s.Color, style, text)
}

// Printf writes to Out, and breaks lines that are wider than the terminal. For text that programs read, use Print.
func (s *Streams) Printf(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if s.OutTTY {
		text = fold(text, s.columns())
	}
	s.Show(text)
}

// Show writes a text for people to Out, without breaking lines.
func (s *Streams) Show(text string) { fmt.Fprint(s.Out, shown(text)) }

// Print writes a text that other programs may read to Out; files and pipes get it unchanged.
func (s *Streams) Print(text string) { _, _ = s.Raw().Write([]byte(text)) }

// Raw returns a writer that prints. Each call of Write must have whole characters.
func (s *Streams) Raw() io.Writer { return cleaner{s.Out, s.OutTTY} }

// Log returns a writer of log lines to Err; files get them unchanged.
func (s *Streams) Log() io.Writer { return cleaner{s.Err, s.ErrTTY} }

// cleaner makes text safe if it writes to a terminal.
type cleaner struct {
	io.Writer
	tty bool
}

// Write implements io.Writer.
func (c cleaner) Write(b []byte) (int, error) {
	if !c.tty {
		return c.Writer.Write(b)
	}
	if _, err := io.WriteString(c.Writer, shown(string(b))); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Notef writes a note to Err unless Quiet is set.
func (s *Streams) Notef(format string, args ...any) {
	if !s.Quiet {
		fmt.Fprint(s.Err, shown(fmt.Sprintf(format, args...)))
	}
}

// Errorf writes "vsetrain: message" to Err, with the name in red. Further lines of the message are indented.
func (s *Streams) Errorf(format string, args ...any) { s.message(Red, "", format, args) }

// Warnf writes "vsetrain: warning: message" to Err, with the prefix in yellow.
func (s *Streams) Warnf(format string, args ...any) { s.message(Yellow, "warning: ", format, args) }

func (s *Streams) message(style Style, kind, format string, args []any) {
	const name = "vsetrain: "
	text := strings.TrimSpace(fmt.Sprintf(format, args...))
	if s.ErrTTY {
		text = fold(text, s.columns()-len(name+kind))
	}
	text = strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", len(name)))
	fmt.Fprintln(s.Err, shown(paint(s.ErrTTY && s.Color, style, name+kind)+text))
}

// Warning returns "warning: message" for a line above a progress bar, with the word in yellow if Err shows colours.
func (s *Streams) Warning(err error) string {
	return paint(s.ErrTTY && s.Color, Yellow, "warning: ") + err.Error()
}

func paint(on bool, style Style, text string) string {
	if !on || style == "" || text == "" {
		return text
	}
	return own + string(style) + text + own + "[0m"
}
