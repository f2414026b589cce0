package sweep

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"vsetrain/internal/files/atomicfile"
	"vsetrain/internal/files/disk"
	"vsetrain/internal/system/process"
)

// Claim says which process works on a trial. Only one process can create the file, because a hard link fails if a file
// exists. The modification time of the file is the heartbeat.
type Claim struct {
	Token   string    `json:"token"` // unique
	Host    string    `json:"host"`
	Machine string    `json:"machine,omitempty"` // boot and process namespace in which PID is valid; "" is unknown
	PID     int       `json:"pid"`
	Job     string    `json:"job,omitempty"` // of Slurm or Kubernetes
	Since   time.Time `json:"since"`
	Epoch   float64   `json:"epoch"` // position of the trial when it was claimed
	Target  int       `json:"target"`

	path string
	text []byte
}

// place is where a process runs.
type place struct {
	host, machine string // "" is unknown
	pid           int
	alive         func(pid int) bool // on this machine
}

// place returns where this process runs, or what a test set.
func (s *Store) place() place {
	if s.at != nil {
		return *s.at
	}
	host, _ := os.Hostname()
	return place{host, process.Machine(), os.Getpid(), process.Alive}
}

// clock measures the age of files by the clock of their file system, so that the clocks of machines need not agree.
type clock struct {
	dir string
	now time.Time
}

func (c *clock) age(modified time.Time) (time.Duration, error) {
	if c.now.IsZero() {
		left, _ := filepath.Glob(filepath.Join(c.dir, ".now-*")) // of processes that were killed
		for _, name := range left {
			if info, err := os.Stat(name); err == nil && time.Since(info.ModTime()) > time.Hour {
				disk.Now().Remove(name)
			}
		}
		f, err := disk.Now().Create(filepath.Join(c.dir, ".now-"+rand.Text()))
		if errors.Is(err, fs.ErrPermission) { // a reader without write access
			c.now = time.Now()
			return c.now.Sub(modified), nil
		}
		if err != nil {
			return 0, err
		}
		defer disk.Now().Remove(f.Name())
		defer f.Close()
		if _, err := f.Write([]byte{'\n'}); err != nil {
			return 0, err
		}
		info, err := f.Stat()
		if err != nil {
			return 0, err
		}
		c.now = info.ModTime()
	}
	return c.now.Sub(modified), nil
}

// living reads a claim and returns nil if its process is gone: it does not exist on this machine, or its last heartbeat
// is older than Stale. A heartbeat as far in the future was written before the clock was set back.
func (s *Store) living(path string, clock *clock) (*Claim, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	c, err := readClaim(path)
	if err != nil {
		return nil, err
	}
	if at := s.place(); c.Machine != "" && c.Machine == at.machine && !at.alive(c.PID) {
		return nil, nil
	}
	age, err := clock.age(info.ModTime())
	if err != nil || age.Abs() > s.Stale {
		return nil, err
	}
	return c, nil
}

func readClaim(path string) (*Claim, error) {
	c := &Claim{path: path}
	return c, readJSON(path, c)
}

// claim claims a trial for this process; nil without an error means that another process has it.
func (s *Store) claim(st *State, epochs int, job string, now time.Time) (*Claim, error) {
	at := s.place()
	epoch, err := position(st.Dir)
	if err != nil {
		return nil, err
	}
	c := &Claim{Token: rand.Text(), Host: at.host, Machine: at.machine, PID: at.pid, Job: job, Since: now, Epoch: epoch,
		Target: epochs, path: filepath.Join(st.Dir, claimName)}
	if c.text, err = json.Marshal(c); err != nil {
		return nil, err
	}
	for range 2 {
		if err = atomicfile.WriteNew(c.path, atomicfile.Bytes(c.text)); err == nil {
			return c, nil
		}
		if _, ok := errors.AsType[*os.LinkError](err); ok && !errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("%s: hard links, which keep two processes from the same trial, cannot be made: %w",
				st.Dir, err)
		}
		if !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		if free, err := s.removeDead(c.path); !free || err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// removeDead removes the claim of a process that is gone. A process may do so only if it creates a file named after the
// claim's token while that claim still exists. So if two processes see the same dead claim, the slower one cannot
// remove the new claim of the faster one.
func (s *Store) removeDead(path string) (free bool, err error) {
	dir := filepath.Dir(path)
	clock := &clock{dir: dir}
	dead, err := readClaim(path)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	if living, err := s.living(path, clock); living != nil || err != nil {
		return false, ignoreMissing(err)
	}
	mark := filepath.Join(dir, ".take-"+dead.Token)
	f, err := disk.Now().Create(mark)
	if errors.Is(err, fs.ErrExist) { // another process is removing the claim, or died while removing it
		info, err := os.Stat(mark)
		if err != nil {
			return false, ignoreMissing(err)
		}
		if age, err := clock.age(info.ModTime()); err != nil || age.Abs() < s.Stale {
			return false, err
		}
		return false, ignoreMissing(disk.Now().Remove(mark)) // for the next attempt
	}
	if err != nil {
		return false, err
	}
	f.Close()
	defer disk.Now().Remove(mark)
	now, err := readClaim(path)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil || now.Token != dead.Token {
		return false, err
	}
	return true, ignoreMissing(disk.Now().Remove(path))
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// errLost means that another process has taken over the trial, because this one seemed to be gone.
var errLost = errors.New("another process has taken over the trial")

// beat writes the claim again, so that the file system sets its modification time.
func (c *Claim) beat() error {
	err := disk.Now().Renew(c.path, c.text)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, disk.ErrChanged) {
		return errLost
	}
	return err
}

// release gives the trial up.
func (c *Claim) release() error {
	now, err := readClaim(c.path)
	if err != nil || now.Token != c.Token {
		return ignoreMissing(err)
	}
	return ignoreMissing(disk.Now().Remove(c.path))
}
