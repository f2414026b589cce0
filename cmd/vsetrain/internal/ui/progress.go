package ui

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// The shortest time between two lines on a pipe, also with --verbose, and between two drawings of the bar.
const (
	plainEvery   = 10 * time.Second
	verboseEvery = time.Second
	drawEvery    = 100 * time.Millisecond
)

// eraseBar moves the cursor to the start of the line and clears the screen from there.
const eraseBar = "\r\x1b[J"

// Progress shows how far a long job is: a bar on a terminal, a line now and then on a pipe. It is safe for concurrent
// use.
//
// The cursor rests at the start of the bar. A terminal that is made narrower folds the bar into several lines, and
// erasing from the cursor to the end of the screen removes all of them.
type Progress struct {
	s     *Streams
	name  string
	total int64

	mu          sync.Mutex
	start, said time.Time // said: the last line, or drawing
	first, done int64
	text        string
}

// NewProgress shows a job of total parts, 0 if unknown. An earlier session has finished the first parts.
func (s *Streams) NewProgress(name string, first, total int64) *Progress {
	now := s.Now()
	p := &Progress{s: s, name: Clean(name), total: total, start: now, said: now, first: first, done: first}
	if s.ErrTTY {
		p.draw()
	}
	return p
}

// Set reports that done parts are finished, and shows a text beside them ("loss 12.3  412 captions/s").
func (p *Progress) Set(done int64, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done, p.text = done, Clean(text)
	every := plainEvery
	switch {
	case p.s.ErrTTY:
		every = drawEvery
	case p.s.Verbose:
		every = verboseEvery
	}
	if now := p.s.Now(); now.Sub(p.said) >= every {
		p.said = now
		p.draw()
	}
}

// Result writes a line of results to Out, above the bar if it is on the same terminal.
func (p *Progress) Result(text string) { p.above(p.s.Out, p.s.OutTTY, text) }

// Println writes a notice to Err, above the bar.
func (p *Progress) Println(text string) { p.above(p.s.Err, true, text) }

func (p *Progress) above(w io.Writer, sameTerminal bool, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.s.ErrTTY || !sameTerminal || p.s.Quiet {
		fmt.Fprintln(w, shown(text))
		return
	}
	fmt.Fprint(p.s.Err, eraseBar)
	fmt.Fprintln(w, shown(fold(text, p.s.columns())))
	p.draw()
}

// Close ends the display with the last state; a pipe gets a line for it if it got one before. It does nothing for nil.
func (p *Progress) Close() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.s.Quiet:
	case p.s.ErrTTY:
		p.draw()
		fmt.Fprintln(p.s.Err)
	case p.said != p.start:
		p.draw()
	}
	if p.s.Verbose {
		p.s.Notef("%s took %s\n", p.name, Duration(p.s.Now().Sub(p.start)))
	}
}

// draw shows the bar, or a line on a pipe.
func (p *Progress) draw() {
	if p.s.Quiet {
		return
	}
	if !p.s.ErrTTY {
		fmt.Fprintln(p.s.Err, p.name+": "+p.status())
		return
	}
	width := p.s.columns()
	line := p.name + " " + p.bar(min(24, max(8, width/8))) + " " + p.status()
	for utf8.RuneCountInString(line) >= width && strings.Contains(line, "  ") { // leave out parts that do not fit
		line = line[:strings.LastIndex(line, "  ")]
	}
	// A character in the last column would move the cursor to the next line.
	fmt.Fprint(p.s.Err, eraseBar+clip(line, max(width-1, 1))+"\r")
}

// bar returns [=====>----], empty for a job of unknown length.
func (p *Progress) bar(width int) string {
	inside := width - 2
	full := 0
	if p.total > 0 {
		full = int(int64(inside) * min(p.done, p.total) / p.total)
	}
	if full == 0 || full == inside {
		return "[" + strings.Repeat("=", full) + strings.Repeat("-", inside-full) + "]"
	}
	return "[" + strings.Repeat("=", full-1) + ">" + strings.Repeat("-", inside-full) + "]"
}

// status returns "120/400  30%  ETA 1m20s  text".
func (p *Progress) status() string {
	s := fmt.Sprint(p.done)
	if p.total > 0 {
		s = fmt.Sprintf("%d/%d  %d%%", p.done, p.total, 100*p.done/p.total)
	}
	if eta, ok := p.remaining(); ok {
		s += "  ETA " + Duration(eta)
	}
	if p.text != "" {
		s += "  " + p.text
	}
	return s
}

// remaining extrapolates the pace of this session.
func (p *Progress) remaining() (time.Duration, bool) {
	here := p.done - p.first
	if here <= 0 || p.done >= p.total {
		return 0, false
	}
	return time.Duration(float64(p.s.Now().Sub(p.start)) / float64(here) * float64(p.total-p.done)), true
}

// Duration formats a duration with at most two units: 850ms, 12s, 3m20s, 5h40m, 2d3h.
func Duration(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%dh", int(d.Hours())/24, int(d.Hours())%24)
}
