package runfs

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"vsetrain/internal/files/atomicfile"
	"vsetrain/internal/files/integrity"
)

// Names inside a run directory.
const (
	ConfigName      = "config.yaml"
	EnvName         = "env.json"
	MetricsName     = "metrics.jsonl"
	TestName        = "test.json" // results of the best weights on the test split
	CheckpointsName = "checkpoints"
	LastName        = "last.safetensors" // the checkpoint for resuming
	BestName        = "best.safetensors" // the best weights
	AverageName     = "ema.safetensors"  // the averaged weights (optim.ema) at their best validation
	lockName        = ".lock"
)

// Owner identifies the process that holds a run directory.
type Owner struct {
	PID   int       `json:"pid"`
	Host  string    `json:"host"`
	Since time.Time `json:"since"`
}

// Dir is a run directory locked for writing by this process.
type Dir struct {
	path string
	lock io.Closer
}

// Open makes the directory and its checkpoints folder if they are missing, takes the lock, and removes half-written
// files of killed processes. The error is an *atomicfile.Error: ErrLocked while another process holds the directory,
// atomicfile.ErrReadOnly if the directory is not writable.
func Open(path string, owner Owner) (*Dir, error) {
	if path == "" {
		return nil, &atomicfile.Error{Op: "open", Path: "run directory", Err: errors.New("no name"),
			Remedy: "set run.dir or --run DIR"}
	}
	if err := atomicfile.MkdirAll(filepath.Join(path, CheckpointsName)); err != nil {
		err = wrap("create", path, err)
		if e, ok := errors.AsType[*atomicfile.Error](err); ok && e.Remedy == "" {
			e.Remedy = "no folder can be made there; choose another run directory with --run DIR"
		}
		return nil, err
	}
	lock, err := acquire(path, filepath.Join(path, lockName), "choose another directory with --run DIR", owner)
	if err != nil {
		return nil, err
	}
	d := &Dir{path: path, lock: lock}
	if err := Clean(path); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// Clean removes half-written files from a run directory that this process has locked.
func Clean(path string) error {
	for _, dir := range []string{path, filepath.Join(path, CheckpointsName)} {
		if err := atomicfile.Clean(dir); err != nil {
			return wrap("clean", dir, err)
		}
	}
	return nil
}

// Lock takes an exclusive lock for writing to the file at path, until Close. The lock is the file path with .lock. The
// error is an *atomicfile.Error, ErrLocked while another process holds the lock; instead says what the user can do
// then.
func Lock(path, instead string) (io.Closer, error) {
	return acquire(path, path+".lock", instead, Owner{})
}

// Close gives up the lock.
func (d *Dir) Close() error { return wrap("unlock", d.path, d.lock.Close()) }

// Path returns the path of a file in the directory; without elements, the directory itself.
func (d *Dir) Path(elem ...string) string {
	return filepath.Join(append([]string{d.path}, elem...)...)
}

// Has reports whether a file of that name exists. Has(ConfigName) distinguishes a run from an empty directory.
func (d *Dir) Has(name string) (bool, error) { return Exists(d.Path(name)) }

// Exists reports whether there is anything at path, even a broken link. After an error, for example of a failing disk,
// it is not known: do not treat it as a missing file.
func Exists(path string) (bool, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) { // or a folder of the path is a file
		return false, nil
	}
	return err == nil, wrap("read", path, err)
}

// WriteFile replaces a file of the directory; see package atomicfile.
func (d *Dir) WriteFile(name string, write func(io.Writer) error) error {
	return wrap("write", d.Path(name), atomicfile.WriteFile(d.Path(name), write))
}

// WriteJSON replaces a file of the directory with v as a sealed JSON object.
func (d *Dir) WriteJSON(name string, v any) error {
	return wrap("write", d.Path(name), integrity.WriteJSON(d.Path(name), v))
}

// WriteText replaces a file of the directory with a sealed text.
func (d *Dir) WriteText(name string, b []byte) error {
	return wrap("write", d.Path(name), integrity.WriteText(d.Path(name), b))
}

// readOwner returns the Owner in a lock, or the zero Owner if the holder is just writing it.
func readOwner(r io.Reader) Owner {
	var o Owner
	if err := json.NewDecoder(io.LimitReader(r, 4096)).Decode(&o); err != nil {
		return Owner{}
	}
	return o
}
