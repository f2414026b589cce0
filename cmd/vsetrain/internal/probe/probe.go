// Package probe examines the machine for `vsetrain doctor`: processor features, limits of containers, memory bandwidth,
// disks and GPUs. It loads nothing, and removes the one file that it writes. Functions that read system files take the
// root folder of these files, "/" on a real machine.
package probe

import (
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// Feature is an extension of the instruction set that the kernels can use.
type Feature struct {
	Name string
	Has  bool
}

// Limits are the limits of a control group; 0 means no limit.
type Limits struct {
	CPUs   float64 // processors' worth of time
	Memory int64   // bytes
}

// ControlGroup returns the tightest limits of the process's control group and its ancestors.
func ControlGroup(root string) Limits {
	var l Limits
	b, err := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	if err != nil {
		return l // not Linux
	}
	for line := range strings.Lines(string(b)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3) // number:controllers:path
		if len(f) != 3 {
			continue
		}
		for group := path.Clean("/" + f[2]); ; group = path.Dir(group) {
			l.tighten(filepath.Join(root, "sys/fs/cgroup"), f[1], group)
			if group == "/" {
				break
			}
		}
	}
	return l
}

// tighten applies the limits of one group of version 2, whose controllers are empty, or version 1.
func (l *Limits) tighten(mount, controllers, group string) {
	if controllers == "" {
		if f := fields(filepath.Join(mount, group, "cpu.max")); len(f) == 2 {
			l.cpu(number(f[0]), number(f[1]))
		}
		if f := fields(filepath.Join(mount, group, "memory.max")); len(f) == 1 {
			l.memory(number(f[0]))
		}
		return
	}
	for _, c := range strings.Split(controllers, ",") {
		dir := filepath.Join(mount, controllers, group)
		switch c {
		case "cpu":
			quota, period := fields(filepath.Join(dir, "cpu.cfs_quota_us")),
				fields(filepath.Join(dir, "cpu.cfs_period_us"))
			if len(quota) == 1 && len(period) == 1 {
				l.cpu(number(quota[0]), number(period[0]))
			}
		case "memory":
			if f := fields(filepath.Join(dir, "memory.limit_in_bytes")); len(f) == 1 {
				l.memory(number(f[0]))
			}
		}
	}
}

func (l *Limits) cpu(quota, period float64) {
	if quota > 0 && period > 0 && (l.CPUs == 0 || quota/period < l.CPUs) {
		l.CPUs = quota / period
	}
}

func (l *Limits) memory(n float64) {
	const unlimited = 1 << 60 // version 1 writes a number near the largest for "no limit"
	if n > 0 && n < unlimited && (l.Memory == 0 || int64(n) < l.Memory) {
		l.Memory = int64(n)
	}
}

// Available returns the memory that is available to processes, in bytes, 0 if unknown.
func Available(root string) int64 {
	b, err := os.ReadFile(filepath.Join(root, "proc/meminfo"))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == "MemAvailable:" {
			return int64(number(f[1])) << 10
		}
	}
	return 0
}

// FreeMemory returns the available memory within the limit of the control group, in bytes, 0 if unknown.
func FreeMemory(root string) int64 {
	free := Available(root)
	if most := ControlGroup(root).Memory; free > 0 && most > 0 {
		free = min(free, most)
	}
	return free
}

// Load returns the mean number of running processes over the last minute, 0 if unknown.
func Load(root string) float64 {
	if f := fields(filepath.Join(root, "proc/loadavg")); len(f) > 0 {
		return number(f[0])
	}
	return 0
}

// fields returns the words of a small file, none if it cannot be read.
func fields(name string) []string {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil
	}
	return strings.Fields(string(b))
}

// number parses a number; other texts, such as "max", are 0.
func number(s string) float64 {
	x, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0
	}
	return x
}

// GPUs returns the model names that the NVIDIA kernel driver lists.
func GPUs(root string) []string {
	files, err := filepath.Glob(filepath.Join(root, "proc/driver/nvidia/gpus/*/information"))
	if err != nil {
		return nil
	}
	names := []string{}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(b)) {
			if key, value, ok := strings.Cut(line, ":"); ok && key == "Model" {
				names = append(names, strings.TrimSpace(value))
			}
		}
	}
	return names
}
