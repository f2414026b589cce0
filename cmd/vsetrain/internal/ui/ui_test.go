package ui

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func streams(tty bool) (*Streams, *bytes.Buffer, *bytes.Buffer, *time.Time) {
	out, errs, now := &bytes.Buffer{}, &bytes.Buffer{}, time.Unix(1000, 0)
	s := &Streams{Out: out, Err: errs, OutTTY: tty, ErrTTY: tty, Color: true, Width: 100}
	s.Now = func() time.Time { now = now.Add(1); return now } // a real clock never stands still
	return s, out, errs, &now
}

// A terminal gets lines that fit, files the whole lines; columns without text can be left out. A cell is painted
// without its padding, also where the line is cut; pipes and NO_COLOR get plain text.
func TestTable(t *testing.T) {
	const plain = "name      A    B  note\né      12.5  9.0  a note\nb     100.5\n"
	for _, c := range []struct {
		tty, colour bool
		width       int
		want        string
	}{
		{true, true, 80, "\x1b[1mname      A    B  note\x1b[0m\n" +
			"\x1b[2mé\x1b[0m      \x1b[1m12.5\x1b[0m  9.0  a note\nb     100.5\n"},
		{true, true, 11, "\x1b[1mname      …\x1b[0m\n\x1b[2mé\x1b[0m      \x1b[1m12.…\x1b[0m\nb     100.5\n"},
		{true, true, 12, "\x1b[1mname      A…\x1b[0m\n\x1b[2mé\x1b[0m      \x1b[1m12.5\x1b[0m…\nb     100.5\n"},
		{true, false, 9, "name    …\né      1…\nb     10…\n"},
		{true, false, 80, plain},
		{false, true, 9, plain},
	} {
		s, out, _, _ := streams(c.tty)
		s.Color, s.Size = c.colour, func() int { return c.width }
		table := NewTable("name", "where", ">A", ">B", "note")
		table.Row("é", "", "12.5", "9.0", "a note")
		table.Style(Faint, 0)
		table.Style(Bold, 2)
		table.Row("b", "", "100.5")
		table.DropEmpty()
		table.Write(s)
		if out.String() != c.want {
			t.Errorf("terminal %v, colour %v, width %d: got\n%qwant\n%q", c.tty, c.colour, c.width, out, c.want)
		}
	}
}

// A terminal gets lines that fit, broken where a clause ends; a pipe gets them whole, and so does a command that is
// copied.
func TestFold(t *testing.T) {
	const clause = "vsepp with lseh on cpu, 2 threads, avx512 vectors"
	const labelled = "\x1b[1mdata wait\x1b[0m   not measured here"
	const remedy = "no data; make some with 'vsetrain data synth data/a-long-name/b'"
	const long = "a/path/without/any/space/in/it"
	for _, c := range []struct {
		tty        bool
		text, want string
	}{
		{true, "short\n", "short\n"},
		{true, clause + "\n" + long + "\n", "vsepp with lseh on cpu,\n  2 threads, avx512\n  vectors\n" + long + "\n"},
		{false, clause + "\n", clause + "\n"},
		{true, labelled + "\n", "\x1b[1mdata wait\x1b[0m   not measured\n            here\n"},
		{true, remedy + "\n", "no data; make some with\n  'vsetrain data synth data/a-long-name/b'\n"},
		{true, "  embedding of all\n  the rest of two words\n", "  embedding of all\n  the rest of two words\n"},
	} {
		s, out, _, _ := streams(c.tty)
		s.Size = func() int { return 24 }
		if s.Printf("%s", strings.ReplaceAll(c.text, "\x1b", own)); out.String() != c.want {
			t.Errorf("terminal %v: got\n%qwant\n%q", c.tty, out, c.want)
		}
	}
	s, _, errs, _ := streams(true)
	s.Color, s.Size = false, func() int { return 40 }
	s.Errorf("%s", remedy)
	const below = "vsetrain: no data; make some with\n            'vsetrain data synth data/a-long-name/b'\n"
	if errs.String() != below {
		t.Errorf("got\n%qwant\n%q", errs, below)
	}
	errs.Reset()
	p := s.NewProgress("trials", 0, 9)
	p.Println("15:23:31 started  trial 2 up to epoch 1: loss=lseh")
	const told = "started  trial 2 up to epoch 1:\n                  loss=lseh\n"
	if !strings.Contains(errs.String(), told) {
		t.Errorf("no %q in %q", told, errs)
	}
}

// Errors are red and warnings yellow; pipes and NO_COLOR get plain text.
func TestColour(t *testing.T) {
	for _, c := range []struct {
		tty, colour bool
		out, errs   string
	}{
		{true, true, "\x1b[1mx\x1b[0m\x1b[33mwarning: \x1b[0mslow",
			"\x1b[31mvsetrain: \x1b[0mone\n          two\n\x1b[33mvsetrain: warning: \x1b[0mlook at this\n"},
		{true, false, "xwarning: slow", "vsetrain: one\n          two\nvsetrain: warning: look at this\n"},
		{false, true, "xwarning: slow", "vsetrain: one\n          two\nvsetrain: warning: look at this\n"},
	} {
		s, out, errs, _ := streams(c.tty)
		s.Color = c.colour
		s.Printf("%s%s", s.Paint(Bold, "x"), s.Warning(errors.New("slow")))
		s.Errorf("one\ntwo")
		s.Warnf("look at %s", "this")
		if out.String() != c.out || errs.String() != c.errs {
			t.Errorf("terminal %v, colour %v: %q %q", c.tty, c.colour, out, errs)
		}
	}
	for _, c := range []struct {
		system, term string
		want         bool
	}{{"linux", "dumb", true}, {"linux", "unknown", true}, {"darwin", "", true}, {"linux", "xterm-256color", false},
		{"windows", "dumb", true}, {"windows", "", false}, {"linux", "dumb-emacs-ansi", false}} {
		if got := dumb(c.system, c.term); got != c.want {
			t.Errorf("TERM=%q on %s: dumb %v", c.term, c.system, got)
		}
	}
}

// On a pipe a line appears every ten seconds; what an earlier session did does not count as speed.
func TestPlainProgress(t *testing.T) {
	s, out, errs, now := streams(false)
	p := s.NewProgress("train", 100, 400)
	for i := range int64(30) {
		*now = now.Add(time.Second)
		p.Set(101+i, "loss 1.5")
	}
	p.Println("validation 12")
	p.Set(400, "")
	p.Close()
	want := "train: 110/400  27%  ETA 4m50s  loss 1.5\n" +
		"train: 120/400  30%  ETA 4m40s  loss 1.5\n" +
		"train: 130/400  32%  ETA 4m30s  loss 1.5\n" +
		"validation 12\n" +
		"train: 400/400  100%\n"
	if errs.String() != want || out.Len() != 0 {
		t.Errorf("got\n%swant\n%s", errs, want)
	}
}

// Results go to standard output, also beside a bar on standard error; where both are the terminal the bar makes room
// for them.
func TestResults(t *testing.T) {
	for _, c := range []struct{ out, errs bool }{{false, false}, {false, true}, {true, true}} {
		s, out, errs, _ := streams(c.errs)
		s.OutTTY = c.out
		p := s.NewProgress("train", 0, 4)
		p.Result("recall 50")
		p.Println("a warning")
		p.Close()
		if out.String() != "recall 50\n" || !strings.Contains(errs.String(), "a warning\n") {
			t.Errorf("%+v: standard output %q, standard error %q", c, out, errs)
		}
		if erased := strings.Count(errs.String(), eraseBar+"\r"+eraseBar) + strings.Count(errs.String(),
			eraseBar+eraseBar); c.out && erased == 0 {
			t.Errorf("%+v: the bar was not erased before the result: %q", c, errs)
		}
	}
}

// The bar never fills the line, whatever becomes of the terminal, and is erased from its start to the end of the
// screen, so that pieces of a line that the terminal folded go with it.
func TestBarOnANarrowingTerminal(t *testing.T) {
	s, _, errs, now := streams(true)
	width := 100
	s.Size = func() int { return width }
	p := s.NewProgress("train", 0, 400)
	for step := range int64(12) {
		*now = now.Add(time.Second)
		if step == 6 {
			width = 30
		}
		before := errs.Len()
		p.Set(20*step, "epoch 1.25  loss 12.34  412 captions/s  data wait 0.1 %")
		drawn := errs.String()[before:]
		// Carriage return, then erase from the cursor to the end of the screen (ECMA-48, ED).
		line, ok := strings.CutPrefix(drawn, "\r\x1b[J")
		line, end := strings.CutSuffix(line, "\r")
		if !ok || !end || strings.ContainsAny(line, "\r\n\x1b") || utf8.RuneCountInString(line) >= width {
			t.Fatalf("width %d: %q", width, drawn)
		}
		if step == 5 && !strings.HasPrefix(line, "train [=>--------] 100/400  25%  ETA ") {
			t.Errorf("%q", line)
		}
	}
	p.Close()
	if !strings.HasSuffix(errs.String(), "\r\n") {
		t.Errorf("the line is not ended: %q", errs.String()[errs.Len()-20:])
	}
}

// A short job says nothing on a pipe. The bar shows the last state, also of a job that was given up.
func TestShortProgress(t *testing.T) {
	for _, last := range []int64{10, 7} {
		for _, tty := range []bool{true, false} {
			s, _, errs, _ := streams(tty)
			p := s.NewProgress("svd", 0, 10)
			p.Set(last, "pass 3")
			p.Close()
			bar := regexp.MustCompile(fmt.Sprintf(`svd .* %d/10 .*  pass 3\r\n$`, last))
			if tty != bar.MatchString(errs.String()) || !tty && errs.Len() > 0 {
				t.Errorf("terminal %v: %q", tty, errs)
			}
		}
	}
}

func TestFormats(t *testing.T) {
	for want, got := range map[string]string{
		"1 epoch": Count(1, "epoch"), "0 epochs": Count(0, "epoch"), "2 seeds": Count(2, "seed"),
		"3 batches": Count(3, "batch"), "1 batch": Count(1, "batch"), "4 passes": Count(4, "pass"),
		"850ms": Duration(850 * time.Millisecond), "12s": Duration(12300 * time.Millisecond),
		"3m20s": Duration(200 * time.Second), "5h40m": Duration(5*time.Hour + 40*time.Minute),
		"2d3h": Duration(51 * time.Hour), "0 B": Bytes(0), "999 B": Bytes(999), "1 kB": Bytes(1000),
		"3.4 MB": Bytes(3_400_000), "1 GB": Bytes(999_700_000), "33.4 GB": Bytes(33_400_000_000), "2 TB": Bytes(2e12),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
