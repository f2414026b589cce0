package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"

	"vsetrain/cmd/vsetrain/internal/ui"
	"vsetrain/eval"
	"vsetrain/lab/emulator"
	"vsetrain/lab/try"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"vsetrain": main})
}

// newApp returns the program with an empty standard input, on pipes.
func newApp(out, errs io.Writer) *app {
	return &app{Streams: &ui.Streams{In: &bytes.Buffer{}, Out: out, Err: errs, Width: 80, Now: time.Now}}
}

// commands returns all commands that the help lists, except the root.
func commands() (all []*cobra.Command) {
	all = newTestRoot().Commands()
	for i := 0; i < len(all); i++ {
		all = append(all, all[i].Commands()...)
	}
	return slices.DeleteFunc(all, func(c *cobra.Command) bool { return !c.IsAvailableCommand() })
}

func newTestRoot() *cobra.Command { return newCmdRoot(newApp(&bytes.Buffer{}, &bytes.Buffer{})) }

// say carries out a command line in this process and returns its exit code and what it wrote.
func say(line string, more ...string) (code int, out string) {
	var all bytes.Buffer
	a := newApp(&all, &all)
	a.Environ = os.Environ()
	code = a.run(append(strings.Fields(line), more...))
	return code, all.String()
}

// saying is say for a command that succeeds, with single spaces for all white space.
func saying(t *testing.T, line string, more ...string) string {
	t.Helper()
	code, out := say(line, more...)
	if code != exitOK {
		t.Fatalf("%s %q: %s", line, more, out)
	}
	return strings.Join(strings.Fields(out), " ")
}

// vsetrain is the program in a folder, with its output collected in out.
func vsetrain(dir string, out *bytes.Buffer, line string, more ...string) *exec.Cmd {
	c := exec.Command(*program, append(strings.Fields(line), more...)...)
	c.Dir, c.Stdout, c.Stderr = dir, out, out
	return c
}

// mustRun runs the program in a folder and returns its output.
func mustRun(t *testing.T, dir, line string, more ...string) string {
	t.Helper()
	var out bytes.Buffer
	if err := vsetrain(dir, &out, line, more...).Run(); err != nil {
		t.Fatalf("vsetrain %s %q: %v\n%s", line, more, err, &out)
	}
	return out.String()
}

// until waits, for at least a minute, for something to happen.
func until(t *testing.T, what string, happened func() bool) {
	t.Helper()
	for range 12000 {
		if happened() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("this never happened: %s", what)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// TestScripts runs the program as a user does; see testdata/script. $FIXTURES is the folder of what PyTorch wrote,
// $SCRIPTS the folder of the project's shell scripts, $EMULATED_GPU the emulated CUDA driver and $EMULATED_NVML its
// NVML, where the condition emulator holds.
func TestScripts(t *testing.T) {
	fixtures := try.Get(filepath.Abs(filepath.Join("..", "..", "testdata", "torch")))(t)
	scripts := try.Get(filepath.Abs(filepath.Join("..", "..", "scripts")))(t)
	gpu, _ := emulator.Build() // where it cannot be built the scripts that need it skip, and its own tests say why
	nvml, _ := emulator.BuildNVML()
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Condition: func(name string) (bool, error) {
			if name != "emulator" {
				return false, fmt.Errorf("unknown condition %q", name)
			}
			return gpu != "", nil
		},
		Setup: func(e *testscript.Env) error {
			e.Setenv("FIXTURES", fixtures)
			e.Setenv("SCRIPTS", scripts)
			e.Setenv("XDG_CACHE_HOME", filepath.Join(e.WorkDir, ".cache"))
			e.Setenv("EMULATED_GPU", gpu)
			e.Setenv("EMULATED_NVML", nvml)
			e.Setenv("VSETRAIN_QUESTIONS", os.Getenv("VSETRAIN_QUESTIONS"))
			e.Setenv("VSETRAIN_NVML", "/nowhere/libnvidia-ml.so.1")
			e.Setenv("VSETRAIN_CUDA_DRIVER", "/nowhere/libcuda.so.1") // the CPU, also where there is a GPU
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"status": status, "taken": taken, "measures": measures,
		},
	})
}

// measures writes the measures that the last command printed with --json -, or those in a file, to another file
// without what they were measured on: measures FILE [FROM].
func measures(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: measures FILE [FROM]")
	}
	from := "stdout"
	if len(args) == 2 {
		from = args[1]
	}
	var m eval.Metrics
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(from)), &m))
	b, err := json.Marshal(m)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), b, 0o666))
}

// ofThePlatform is what plain messages leave out: names of system calls and types.
var ofThePlatform = regexp.MustCompile(`\b(lstat|stat|open) \S+: no such|<f4|goroutine`)

// status runs a command and checks its exit code: status 2 vsetrain bogus. With PLAIN=yes its messages must be plain.
func status(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status CODE COMMAND [ARGUMENTS]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	var exit *exec.ExitError
	switch err := ts.Exec(args[1], args[2:]...); {
	case errors.As(err, &exit):
		got = exit.ExitCode()
	case err != nil:
		ts.Fatalf("%v", err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
	if found := ofThePlatform.FindString(ts.ReadFile("stderr")); found != "" && ts.Getenv("PLAIN") == "yes" {
		ts.Fatalf("the message has %q", found)
	}
}
