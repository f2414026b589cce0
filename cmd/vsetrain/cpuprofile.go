package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime/pprof"

	"vsetrain/internal/files/atomicfile"
	"vsetrain/internal/files/regular"
)

// cpuProfile is a flag of commands that compute for long.
type cpuProfile struct {
	CPUProfile string `flag:"cpuprofile" arg:"FILE" usage:"write a CPU profile of this process, not of other ranks, to FILE, for go tool pprof"`
}

// profiled calls run and writes its profile, also after an error or a signal. It replaces only a profile.
func (p cpuProfile) profiled(run func() error) error {
	if p.CPUProfile == "" {
		return run()
	}
	if old, _, err := regular.Open(p.CPUProfile); err == nil {
		magic := make([]byte, 2)
		_, err = io.ReadFull(old, magic)
		old.Close()
		if err != nil || string(magic) != "\x1f\x8b" { // of gzip
			return fmt.Errorf("--cpuprofile: %s is not a profile: choose another name, or move the file away",
				p.CPUProfile)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("--cpuprofile: %w", err)
	}
	f, err := atomicfile.Create(p.CPUProfile)
	if err != nil {
		return err
	}
	defer f.Abort()
	if err = pprof.StartCPUProfile(f); err != nil {
		return err
	}
	err = run()
	pprof.StopCPUProfile()
	return errors.Join(err, f.Commit())
}
