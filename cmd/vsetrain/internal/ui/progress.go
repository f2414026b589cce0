package ui

import (
	"fmt"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// plainEvery is the time between two lines of progress that go to a pipe.
const plainEvery = 10 * time.Second

// Progress shows how far a long job is: a bar on a terminal, a line now and then on a pipe. It is safe for concurrent use.
type Progress struct {
	s     *Streams
	name  string
	total int64

	mu          sync.Mutex
	start, said time.Time
	first, done int64
	text        string

	bars *mpb.Progress
	bar  *mpb.Bar
}

// NewProgress starts to show a job of total parts, 0 when unknown, of which first are done already, by an earlier session.
func (s *Streams) NewProgress(name string, first, total int64) *Progress {
	now := s.Now()
	p := &Progress{s: s, name: name, total: total, start: now, said: now, first: first, done: first}
	if !s.ErrTTY {
		return p
	}
	p.bars = mpb.New(mpb.WithOutput(s.Err), mpb.WithWidth(s.Width), mpb.WithAutoRefresh())
	p.bar = p.bars.AddBar(total, mpb.BarWidth(min(24, max(8, s.Width/4))),
		mpb.PrependDecorators(decor.Name(name+" ")),
		mpb.AppendDecorators(decor.Any(func(decor.Statistics) string { return p.status() })))
	p.bar.SetCurrent(first)
	return p
}

// Set reports that done parts are finished; text is shown beside them ("loss 12.3  412 captions/s").
func (p *Progress) Set(done int64, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done, p.text = done, text
	if p.bar != nil {
		p.bar.SetCurrent(p.done)
		return
	}
	if now := p.s.Now(); now.Sub(p.said) >= plainEvery {
		p.said = now
		fmt.Fprintln(p.s.Err, p.line())
	}
}

// Result writes a line of results to Out: where that is the terminal of the bar too, above the bar.
func (p *Progress) Result(text string) {
	if p.bars != nil && p.s.OutTTY {
		p.Println(text)
		return
	}
	fmt.Fprintln(p.s.Out, text)
}

// Println writes a notice to Err, above the bar.
func (p *Progress) Println(text string) {
	if p.bars != nil {
		fmt.Fprintln(p.bars, text)
		return
	}
	fmt.Fprintln(p.s.Err, text)
}

// Close ends the display. A pipe that saw lines before sees the last state.
func (p *Progress) Close() {
	if p.bar != nil {
		p.bar.Abort(false) // no effect on a bar that is full
		p.bars.Wait()
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.said != p.start {
		fmt.Fprintln(p.s.Err, p.line())
	}
}

func (p *Progress) line() string { return p.name + ": " + p.statusLocked() }

func (p *Progress) status() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.statusLocked()
}

// statusLocked returns "120/400  30%  ETA 1m20s  text".
func (p *Progress) statusLocked() string {
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

// remaining extrapolates the pace of this session; what an earlier one did took no time now.
func (p *Progress) remaining() (time.Duration, bool) {
	here := p.done - p.first
	if here <= 0 || p.done >= p.total {
		return 0, false
	}
	return time.Duration(float64(p.s.Now().Sub(p.start)) / float64(here) * float64(p.total-p.done)), true
}

// Duration writes a time span with two units at most: 850ms, 12s, 3m20s, 5h40m, 2d3h.
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
