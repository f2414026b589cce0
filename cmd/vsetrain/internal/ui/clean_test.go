package ui

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// ours are the escape sequences and movements of this program.
var ours = regexp.MustCompile("\r\x1b\\[J|\x1b\\[(0|1|2|31|32|33)m|\r$|\r(\r\x1b)")

// hostile is random bytes, among them those that steer terminals.
func hostile(rng *rand.Rand) string {
	pieces := []string{"\x1b]0;title\a", "\x1b[2J", "\x1b[31m", "\x1b[0m", "\r", "\b\b", "\x9b2J", "\u009b2J",
		"\u202e", "\u2028",
		"\u200b", "\ufeff", "\x7f", "\x00", "\xff\xfe", "\xc3", "é", "日本", "a b", "\x1bP", "\u2066", "\U000e0041",
		"\xed\xa0\x80"}
	var b strings.Builder
	for range 1 + rng.IntN(6) {
		b.WriteString(pieces[rng.IntN(len(pieces))])
		b.WriteByte(byte(rng.IntN(256)))
	}
	return b.String()
}

// steering is the first part of an output that a terminal would obey, own sequences aside; "" is none.
func steering(out string) string {
	rest := ours.ReplaceAllString(strings.ReplaceAll(out, "\x1b[J", "\r\x1b[J"), "")
	rest = strings.ReplaceAll(strings.ReplaceAll(rest, "\r\x1b[J", ""), "\r", "")
	for i, r := range rest {
		_, n := utf8.DecodeRuneInString(rest[i:])
		if r == utf8.RuneError && n == 1 || r != '\n' && r != '\t' && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl,
			unicode.Zp) && r != 0x200c && r != 0x200d {
			return fmt.Sprintf("%q in %q", r, rest)
		}
	}
	return ""
}

// No text, wherever it comes in, steers a terminal; files and pipes get what is printed for programs as it is.
func TestHostileText(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 1))
	for range 3000 {
		for _, tty := range []bool{true, false} {
			s, out, errs, _ := streams(tty)
			s.Width, s.Color = 10+rng.IntN(90), rng.IntN(2) == 0
			h := func() string { return hostile(rng) }
			s.Printf("%s: %s\n", s.Paint(Bold, h()), h())
			s.Show(h())
			s.Errorf("%s", h())
			s.Warnf("%v", errors.New(h()))
			s.Notef("%s\n", h())
			p := s.NewProgress(h(), 0, 10)
			p.Set(3, h())
			p.Result(h())
			p.Println(s.Warning(errors.New(h())))
			p.Close()
			table := NewTable("name", ">x")
			table.Row(h(), h())
			table.Style(Green, 0)
			table.Write(s)
			raw := h()
			before := out.Len()
			s.Print(raw)
			if !tty {
				if got := out.String()[before:]; got != raw {
					t.Fatalf("a pipe gets %q, want %q", got, raw)
				}
				out.Truncate(before)
			}
			for name, b := range map[string]*bytes.Buffer{"Out": out, "Err": errs} {
				if bad := steering(b.String()); bad != "" {
					t.Fatalf("%s, terminal %v: %s", name, tty, bad)
				}
				if !tty && strings.ContainsAny(b.String(), "\x1b\r") {
					t.Fatalf("%s: a pipe gets an escape sequence: %q", name, b)
				}
			}
		}
	}
}

// What terminals show of a text tells what it is, once for all.
func TestShown(t *testing.T) {
	for text, want := range map[string]string{"a\x1b[2J": `a\x1b[2J`, "caf\xe9": `caf\xe9`, "x\u202ey": `x\u202ey`,
		"\u009b2J": `\u009b2J`, "a\nb\tc": "a\nb\tc", "می\u200cخواهم": "می\u200cخواهم", "日本": "日本"} {
		if got := shown(text); got != want || shown(got) != got {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	s, out, _, _ := streams(true)
	table := NewTable("run")
	table.Row("a\nvsetrain: all saved")
	if table.Write(s); strings.Count(out.String(), "\n") != 2 {
		t.Errorf("a cell is more than one line: %q", out)
	}
	if got := Clean("a\nb" + own + "[1m"); got != `a\nb\x1b[1m` {
		t.Errorf("on one line: %q", got)
	}
}
