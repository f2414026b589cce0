package ui

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"vsetrain/lab/try"
)

// A terminal that understands no escape sequence gets what a pipe gets, and NO_COLOR takes the colours alone.
func TestTerminals(t *testing.T) {
	main, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	defer main.Close()
	try.Do(t, unix.IoctlSetPointerInt(int(main.Fd()), unix.TIOCSPTLCK, 0))
	n := try.Get(unix.IoctlGetInt(int(main.Fd()), unix.TIOCGPTN))(t)
	terminal := try.Get(os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0))(t)
	defer terminal.Close()
	out, errs := os.Stdout, os.Stderr
	defer func() { os.Stdout, os.Stderr = out, errs }()
	os.Stdout, os.Stderr = terminal, terminal
	for _, c := range []struct {
		term, noColor string
		tty, color    bool
	}{{"xterm", "", true, true}, {"xterm", "1", true, false}, {"dumb", "", false, true}, {"", "", false, true}} {
		s := System(func(name string) string { return map[string]string{"TERM": c.term, "NO_COLOR": c.noColor}[name] })
		if s.OutTTY != c.tty || s.ErrTTY != c.tty || s.Color != c.color {
			t.Errorf("TERM=%q NO_COLOR=%q: terminal %v %v, colours %v", c.term, c.noColor, s.OutTTY, s.ErrTTY, s.Color)
		}
	}
}
