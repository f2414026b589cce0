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

// Streams are the three streams of the program and what they can show. Results go to Out; progress and messages go to
// Err, so that a pipe receives results alone.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	OutTTY   bool
	ErrTTY   bool
	Color    bool       // escape sequences for colour are wanted
	Width    int        // of the terminal, in columns, when the program started
	Size     func() int // width of the terminal now; nil is Width
	Now      func() time.Time
}

// System returns the streams of the process. A terminal that understands no escape sequence gets what a pipe gets;
// colours respect NO_COLOR too (no-color.org). getenv is os.Getenv.
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

// dumb reports whether a terminal understands no escape sequences, as the shells of Emacs and consoles of CI do not.
// Windows sets no TERM; elsewhere a terminal without one is not known, and taken for dumb as Git takes it.
func dumb(system, name string) bool {
	return name == "dumb" || name == "unknown" || name == "" && system != "windows"
}

// Style is an escape sequence for text.
type Style string

// Styles.
const (
	Bold   Style = "\x1b[1m"
	Faint  Style = "\x1b[2m"
	Red    Style = "\x1b[31m"
	Green  Style = "\x1b[32m"
	Yellow Style = "\x1b[33m"
)

// Paint returns text in a style where Out shows colours, else as it is.
func (s *Streams) Paint(style Style, text string) string {
	return paint(s.OutTTY && s.Color, style, text)
}

// Printf writes to Out. A terminal gets lines that fit into it; text that other programs read is for Print.
func (s *Streams) Printf(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if s.OutTTY {
		text = fold(text, s.columns())
	}
	s.Print(text)
}

// Print writes to Out.
func (s *Streams) Print(text string) { fmt.Fprint(s.Out, text) }

// Errorf writes "vsetrain: message" to Err, the name in red where colours show; further lines of the message are
// indented below the first.
func (s *Streams) Errorf(format string, args ...any) { s.message(Red, "", format, args) }

// Warnf writes "vsetrain: warning: message" to Err as Errorf does, in yellow.
func (s *Streams) Warnf(format string, args ...any) { s.message(Yellow, "warning: ", format, args) }

func (s *Streams) message(style Style, kind, format string, args []any) {
	const name = "vsetrain: "
	text := strings.TrimSpace(fmt.Sprintf(format, args...))
	if s.ErrTTY {
		text = fold(text, s.columns()-len(name+kind))
	}
	text = strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", len(name)))
	fmt.Fprintln(s.Err, paint(s.ErrTTY && s.Color, style, name+kind)+text)
}

// Warning returns "warning: message" for a line beside a progress bar, the word in yellow where Err shows colours.
func (s *Streams) Warning(err error) string {
	return paint(s.ErrTTY && s.Color, Yellow, "warning: ") + err.Error()
}

func paint(on bool, style Style, text string) string {
	if !on || text == "" {
		return text
	}
	return string(style) + text + "\x1b[0m"
}
