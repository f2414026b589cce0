package runfs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"vsetrain/internal/files/atomicfile"
	"vsetrain/internal/files/integrity"
)

// Env is what a run records of a session.
type Env struct {
	Version     string      `json:"version"`          // of vsetrain
	Commit      string      `json:"commit,omitempty"` // git commit of the build
	Dirty       bool        `json:"dirty,omitempty"`  // the build had changes beyond the commit
	Go          string      `json:"go"`               // Go version
	OS          string      `json:"os"`
	Arch        string      `json:"arch"`
	CPU         string      `json:"cpu"` // model name
	CPUs        int         `json:"cpus"`
	MemoryBytes uint64      `json:"memory_bytes,omitempty"`
	Device      string      `json:"device,omitempty"`    // as the device names itself
	GEMM        string      `json:"gemm,omitempty"`      // matrix-product kernel chosen
	WordInit    string      `json:"word_init,omitempty"` // SHA-256 of the file that the word vectors came from
	NoiseIndex  *NoiseIndex `json:"noise_index,omitempty"`
	Warnings    []string    `json:"warnings,omitempty"` // of settings that do not go together, as printed
	Host        string      `json:"host"`
	PID         int         `json:"pid"`
	Dir         string      `json:"working_directory"`
	Command     []string    `json:"command"`
	Started     time.Time   `json:"started"`
}

// Build names the build of a session: version and commit.
func (e *Env) Build() string {
	name := e.Version
	if e.Commit != "" {
		name += " (" + e.Commit + ")"
	}
	if e.Dirty {
		name += ", with changes"
	}
	return name
}

// NoiseIndex is what a run records of its noise index (data.noise_index).
type NoiseIndex struct {
	File   string `json:"file"`   // base name
	SHA256 string `json:"sha256"` // of the file
	Wrong  int    `json:"wrong"`  // captions with another image than their own
	Of     int    `json:"of"`     // captions of the training split
}

// String describes the noise index.
func (n *NoiseIndex) String() string {
	return fmt.Sprintf("%d of %d training captions with another image (%s, SHA-256 %s)", n.Wrong, n.Of, n.File,
		n.SHA256)
}

type envFile struct {
	Sessions []Env `json:"sessions"`
}

// AppendEnv adds a session to env.json; a run that was resumed has several.
func (d *Dir) AppendEnv(e Env) error {
	all, err := ReadSessions(d.path)
	if err != nil {
		return err
	}
	return d.WriteJSON(EnvName, envFile{append(all, e)})
}

// maxEnv bounds env.json in bytes; a session takes about one kilobyte.
const maxEnv = 64 << 20

// ReadSessions returns the sessions of a run directory, none if it has no env.json. Another process may own the run.
func ReadSessions(dir string) ([]Env, error) {
	path := filepath.Join(dir, EnvName)
	b, err := integrity.ReadSealed(path, maxEnv, "the record of sessions")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var f envFile
	if err == nil {
		err = json.Unmarshal(b, &f)
	}
	if err != nil {
		return nil, &atomicfile.Error{Op: "read", Path: path, Err: err, Remedy: "delete it if you do not need the " +
			"record of earlier sessions"}
	}
	return f.Sessions, nil
}
