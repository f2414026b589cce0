package probe

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"vsetrain/internal/compute/par"
	"vsetrain/lab/try"
)

func TestControlGroup(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		want  Limits
	}{
		{"no control groups", nil, Limits{}},
		{"version 2 without limits", map[string]string{
			"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n", "sys/fs/cgroup/memory.max": "max\n"},
			Limits{}},
		{"version 2, the parent is tighter", map[string]string{
			"proc/self/cgroup":               "0::/a/b\n",
			"sys/fs/cgroup/a/b/cpu.max":      "400000 100000\n",
			"sys/fs/cgroup/a/cpu.max":        "150000 100000\n",
			"sys/fs/cgroup/a/b/memory.max":   "1000000\n",
			"sys/fs/cgroup/a/memory.max":     "2000000\n",
			"sys/fs/cgroup/other/cpu.max":    "1000 100000\n",
			"sys/fs/cgroup/a/b/c/memory.max": "1\n"}, Limits{CPUs: 1.5, Memory: 1000000}},
		{"version 1", map[string]string{
			"proc/self/cgroup": "3:cpu,cpuacct:/x\n2:memory:/x\n1:name=systemd:/x\n",
			"sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us":  "50000\n",
			"sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_period_us": "100000\n",
			"sys/fs/cgroup/memory/x/memory.limit_in_bytes":  "9223372036854771712\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":    "3000000\n",
			"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us":    "-1\n",
			"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us":   "100000\n"}, Limits{CPUs: 0.5, Memory: 3000000}},
		{"nonsense", map[string]string{"proc/self/cgroup": "0::\nbad\n", "sys/fs/cgroup/cpu.max": "-5 0\n"}, Limits{}},
	} {
		if got := ControlGroup(try.Files(t, c.files)); got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
}

// What a control group allows bounds what is available.
func TestProc(t *testing.T) {
	files := map[string]string{
		"proc/meminfo": "MemTotal: 100 kB\nMemAvailable:      42 kB\n", "proc/loadavg": "1.25 0.5 0.1 1/2 3\n",
		"proc/driver/nvidia/gpus/0000:01:00.0/information": "Model: \t\t NVIDIA H200\nIRQ: 5\n"}
	found := func(root string) string {
		return fmt.Sprint(Available(root), FreeMemory(root), Load(root), GPUs(root))
	}
	if got := found(try.Files(t, files)); got != "43008 43008 1.25 [NVIDIA H200]" {
		t.Error(got)
	}
	files["proc/self/cgroup"], files["sys/fs/cgroup/memory.max"] = "0::/\n", "5000\n"
	if got := found(try.Files(t, files)); got != "43008 5000 1.25 [NVIDIA H200]" {
		t.Errorf("in a group with 5000 bytes: %s", got)
	}
	if got := found(t.TempDir()); got != "0 0 0 []" {
		t.Errorf("in an empty folder: %s", got)
	}
}

func TestMeasureDisk(t *testing.T) {
	dir := t.TempDir()
	if n, err := Free(dir); err != nil || n > 0 && n < 2*diskReserve {
		t.Skipf("too little space to measure: %d bytes, %v", n, err)
	}
	d, err := MeasureDisk(dir, time.Millisecond)
	if err != nil || d.Write <= 0 {
		t.Errorf("got %+v, %v", d, err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 0 {
		t.Errorf("left behind: %v, %v", files, err)
	}
	if _, err := MeasureDisk(filepath.Join(dir, "nowhere"), time.Millisecond); err == nil {
		t.Error("no error for a folder that is not there")
	}
}

func TestBandwidth(t *testing.T) {
	pool := par.New(2)
	defer pool.Close()
	if got := Bandwidth(pool, 4<<20, time.Millisecond); got < 1e6 {
		t.Errorf("%.0f bytes a second cannot be", got)
	}
}
