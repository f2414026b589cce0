package process

import (
	"os"
	"os/exec"
	"runtime"
	"testing"

	"vsetrain/lab/try"
)

func TestAlive(t *testing.T) {
	if !Alive(os.Getpid()) {
		t.Error("this process is not alive")
	}
	if runtime.GOOS == "windows" {
		t.Skip("no process can be asked about here")
	}
	c := exec.Command(os.Args[0], "-test.run=^$")
	try.Do(t, c.Run())
	if Alive(c.Process.Pid) {
		t.Errorf("process %d has ended and is called alive", c.Process.Pid)
	}
}

func TestMachine(t *testing.T) {
	if m := Machine(); m != Machine() || runtime.GOOS == "linux" && m == "" {
		t.Errorf("machine %q", m)
	}
}
