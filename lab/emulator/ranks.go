package emulator

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"vsetrain/lab/try"
)

// ranksVariable is set in processes of a test that are ranks: rank, number of ranks and address of the test.
const ranksVariable = "EMULATED_CUDA_RANK"

// Meeting is the rendezvous of the ranks of a test (device.Rendezvous): they send lines to the test, which passes them
// on.
type Meeting struct {
	rank, ranks int
	conn        net.Conn
	lines       chan string
	lost        chan struct{}
}

// Ranks runs f in n processes of this test. Each is a rank with an emulated GPU, whose index is the rank. All ranks run
// the whole test, so the rest of it should be short. more are environment variables of the ranks.
func Ranks(t *testing.T, n int, f func(*Meeting), more ...string) {
	t.Helper()
	Library(t) // built once
	if words := strings.Fields(os.Getenv(ranksVariable)); len(words) == 3 {
		m := meet(t, words)
		if f(m); !t.Failed() {
			m.Wait() // a rank that has ended is lost to those that have not
		}
		return
	}
	l := try.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	ended := make(chan error)
	for rank := range n {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run",
			"^"+strings.ReplaceAll(t.Name(), "/", "$/^")+"$")
		cmd.Env = append(append(os.Environ(), "EMULATED_CUDA_DEVICES="+strconv.Itoa(n),
			fmt.Sprintf("%s=%d %d %v", ranksVariable, rank, n, l.Addr())), more...)
		go func() {
			out, err := cmd.CombinedOutput()
			if err != nil {
				err = fmt.Errorf("rank %d of %d: %w\n%s", rank, n, err, out)
			}
			ended <- err
		}()
	}
	go pass(l, n)
	for range n {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// pass tells all ranks what rank 0 shares, that all wait, and that a rank is lost.
func pass(l net.Listener, n int) {
	var all []net.Conn
	tell := func(line string) {
		for _, c := range all {
			fmt.Fprintln(c, line)
		}
	}
	lines := make(chan string)
	for range n {
		c, err := l.Accept()
		if err != nil {
			return
		}
		all = append(all, c)
		go func() {
			in := bufio.NewScanner(c)
			for in.Scan() {
				lines <- in.Text()
			}
			lines <- ""
		}()
	}
	waiting, gone := 0, 0
	for gone < n {
		switch line := <-lines; line {
		case "":
			if gone++; gone < n {
				tell("lost")
			}
		case "wait":
			if waiting++; waiting == n {
				waiting = 0
				tell(line)
			}
		default:
			tell(line)
		}
	}
}

// meet connects a rank to its test.
func meet(t *testing.T, words []string) *Meeting {
	t.Helper()
	m := &Meeting{conn: try.Get(net.Dial("tcp", words[2]))(t), lines: make(chan string, 1), lost: make(chan struct{})}
	fmt.Sscan(words[0], &m.rank)
	fmt.Sscan(words[1], &m.ranks)
	go func() {
		for in := bufio.NewScanner(m.conn); in.Scan(); {
			if in.Text() == "lost" {
				break
			}
			m.lines <- in.Text()
		}
		close(m.lost)
	}()
	return m
}

// Rank implements device.Job.
func (m *Meeting) Rank() (rank, ranks int) { return m.rank, m.ranks }

// Lost implements device.Rendezvous.
func (m *Meeting) Lost() <-chan struct{} { return m.lost }

// Wait implements device.Job.
func (m *Meeting) Wait() error {
	_, err := m.say("wait")
	return err
}

// Broadcast implements device.Rendezvous.
func (m *Meeting) Broadcast(text []byte) ([]byte, error) {
	line := ""
	if m.rank == 0 {
		line = hex.EncodeToString(text)
	}
	line, err := m.say(line)
	if err != nil {
		return nil, err
	}
	return hex.DecodeString(line)
}

// say sends a line, unless it is empty, and returns the next one for all ranks.
func (m *Meeting) say(line string) (string, error) {
	if line != "" {
		fmt.Fprintln(m.conn, line)
	}
	select {
	case line = <-m.lines:
		return line, nil
	case <-m.lost:
		return "", errors.New("another rank has ended")
	}
}
