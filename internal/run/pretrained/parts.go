package pretrained

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"vsetrain/internal/files/regular"
	"vsetrain/internal/files/runfs"
	"vsetrain/internal/run/config"
	"vsetrain/internal/run/inputs"
	"vsetrain/internal/run/records"
	"vsetrain/models"
	"vsetrain/train"
)

// Parts records the files beside the last checkpoint of a run, so that a missing file, or one of another run, is
// noticed.
type Parts struct {
	Settings config.Identity   `json:"settings,omitempty"` // of the run, without paths
	Files    map[string]string `json:"files,omitempty"`    // SHA-256 by path in the run
}

// Kept is a checkpoint that is kept as one of the best (train.keep).
type Kept struct {
	Step  int64   `json:"step"`
	Score float64 `json:"score"`
}

// Name is the file of the checkpoint in the folder of checkpoints.
func (k Kept) Name() string { return fmt.Sprintf("step-%08d.safetensors", k.Step) }

// State is what the last checkpoint of a run stores besides weights and moments.
type State struct {
	train.State
	runfs.Counted        // lines of metrics.jsonl
	Captions      int    `json:"captions"`       // of the training split; order and epochs depend on it; 0 is unknown
	Kept          []Kept `json:"kept,omitempty"` // checkpoints beside the best one (train.keep), the best first
	Parts
}

// checkpoints returns the checkpoints that belong to the state of a run: step by path in the run.
func (s *State) checkpoints() map[string]int64 {
	all := map[string]int64{}
	for _, k := range s.Kept {
		all[runfs.CheckpointsName+"/"+k.Name()] = k.Step
	}
	p := s.Position
	for name, step := range map[string]int64{runfs.BestName: p.BestStep, runfs.AverageName: p.BestAverageStep} {
		if step > 0 {
			all[runfs.CheckpointsName+"/"+name] = step
		}
	}
	return all
}

// NameParts records the files of a run that belong to its state. Missing files are left out.
func (s *State) NameParts(run string, c *config.Config) error {
	s.Parts = Parts{Settings: config.IdentityOf(c).WithoutPaths(), Files: map[string]string{}}
	for name := range s.checkpoints() {
		info, err := models.ReadInfo(filepath.Join(run, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		s.Files[name] = info.SHA256
	}
	sum, err := sumOf(filepath.Join(run, inputs.DataName))
	if err == nil {
		s.Files[inputs.DataName] = sum
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return err
}

// sumOf returns the SHA-256 of a file.
func sumOf(path string) (string, error) {
	f, _, err := regular.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return hex.EncodeToString(h.Sum(nil)), err
}

// run is the state of a run according to its last checkpoint.
type run struct {
	dir      string
	info     models.Info
	settings *config.Config // nil if they cannot be read
	State
}

// openRun reads the last checkpoint of a run, nil if it has none. It is read before the files that it names, because a
// training writes them first.
func openRun(dir string) (*run, error) {
	r := &run{dir: dir}
	path := filepath.Join(dir, runfs.CheckpointsName, runfs.LastName)
	var err error
	if r.info, err = models.ReadInfo(path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && r.info.Train != nil {
		if err = json.Unmarshal(r.info.Train, &r.State); err != nil {
			err = fmt.Errorf("%s: broken training state: %w", path, err)
		}
	}
	if c, err := config.Load(config.Request{File: filepath.Join(dir, runfs.ConfigName)}); err == nil {
		r.settings = &c.Config
	}
	return r, err
}

// mayBe reports whether the training may have written a checkpoint of a step after its last one: it was killed while it
// saved the next validation.
func (r *run) mayBe(step int64) bool {
	p, c := r.Position, r.settings
	if c == nil || step <= p.Step || r.info.Epoch == 0 {
		return step > p.Step
	}
	batches := int(math.Round(float64(r.info.Step) / r.info.Epoch))
	ended := p.Epoch >= c.Train.Epochs || c.Train.MaxSteps > 0 && p.Step >= int64(c.Train.MaxSteps)
	return !ended && step <= c.Train.NextValidation(&p, batches)
}

const (
	lost    = "is missing; %s was written beside it"
	foreign = "is of another run or another time: %s"
)

// Misfits returns, by path, what is wrong with the parts of a run that are missing or belong to another state than its
// last checkpoint. A checkpoint of a later step is valid: a training that is killed while it saves leaves one. Misfits
// does not check files for damage.
func Misfits(dir string) (map[string]string, error) {
	r, err := openRun(dir)
	if err != nil {
		return nil, err
	}
	wrong := map[string]string{}
	if r == nil {
		if saved(dir) {
			wrong[filepath.Join(dir, runfs.CheckpointsName, runfs.LastName)] = "is missing: the run cannot be " +
				"resumed, and nothing tells whether its files belong together"
		}
		return wrong, nil
	}
	note := func(name, what string) {
		if what != "" {
			wrong[filepath.Join(dir, name)] = what
		}
	}
	names := r.checkpoints()
	for _, name := range []string{runfs.BestName, runfs.AverageName} { // also files of other runs
		if there, err := runfs.Exists(filepath.Join(dir, runfs.CheckpointsName, name)); err == nil && there {
			names[runfs.CheckpointsName+"/"+name] = 0
		}
	}
	for name := range names {
		note(name, r.checkpoint(name))
	}
	var needed []string
	if r.Settings != nil {
		needed = append(slices.Collect(maps.Keys(r.Files)), runfs.EnvName)
	}
	if r.Lines > 0 {
		needed = append(needed, runfs.MetricsName)
	}
	vocabulary, err := VocabularyOf(dir, &r.info.Model)
	if err != nil {
		return nil, err
	}
	if vocabulary == "" {
		needed = append(needed, lexiconName(&r.info.Model))
	}
	for _, name := range append(needed, runfs.ConfigName) {
		if there, err := runfs.Exists(filepath.Join(dir, name)); err == nil && !there {
			note(name, fmt.Sprintf(lost, runfs.LastName))
		}
	}
	if want, ok := r.Files[inputs.DataName]; ok {
		if sum, err := sumOf(filepath.Join(dir, inputs.DataName)); err == nil && sum != want {
			note(inputs.DataName, fmt.Sprintf(foreign, "another fingerprint of data"))
		}
	}
	if other := r.otherSettings(); other != "" {
		note(runfs.ConfigName, fmt.Sprintf(foreign, other))
	}
	return wrong, nil
}

// saved reports whether a run without a last checkpoint once had one: it has a best checkpoint, and its log goes on
// after the first validation or is missing too.
func saved(dir string) bool {
	if there, err := runfs.Exists(filepath.Join(dir, runfs.CheckpointsName, runfs.BestName)); err != nil || !there {
		return false
	}
	validations, ends := 0, false
	_, err := runfs.ReadLog(filepath.Join(dir, runfs.MetricsName), 0, func(line []byte, _ int) (bool, error) {
		var at struct{ Kind string }
		err := json.Unmarshal(line, &at)
		if ends = at.Kind == records.KindValidation; ends {
			validations++
		}
		return true, err
	})
	return err != nil || validations != 1 || !ends
}

// otherSettings lists the settings of a run that differ from its configuration: only those of the network if the last
// checkpoint is from an earlier version.
func (r *run) otherSettings() string {
	if r.settings == nil {
		return ""
	}
	of := r.Settings
	if of == nil {
		c := *r.settings
		c.Model = r.info.Model
		of = config.IdentityOf(&c)
	}
	return strings.Join(of.Differences(config.IdentityOf(r.settings)), "; ")
}

// checkpoint returns what is wrong with a checkpoint of a run, "" if nothing is.
func (r *run) checkpoint(name string) string {
	info, err := models.ReadInfo(filepath.Join(r.dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Sprintf(lost, runfs.LastName)
	}
	if err != nil {
		return "" // damaged
	}
	other := config.Differences("model", r.info.Model, info.Model)
	step, known := r.checkpoints()[name]
	switch sum := r.Files[name]; {
	case len(other) > 0:
	case info.Vocabulary != r.info.Vocabulary:
		other = []string{"another vocabulary"}
	case r.mayBe(info.Step):
	case !known:
		other = []string{fmt.Sprintf("step %d, where %s knows of none", info.Step, runfs.LastName)}
	case info.Step != step:
		other = []string{fmt.Sprintf("step %d, where %s names step %d", info.Step, runfs.LastName, step)}
	case sum != "" && sum != info.SHA256:
		other = []string{fmt.Sprintf("SHA-256 %.12s, where %s names %.12s", info.SHA256, runfs.LastName, sum)}
	}
	if other == nil {
		return ""
	}
	return fmt.Sprintf(foreign, strings.Join(other, "; "))
}

// ofItsRun returns an error if a checkpoint in the folder of a run does not belong to that run, or if asked names the
// best one and it is missing.
func ofItsRun(asked string, c models.Weights) error {
	dir, ok, err := RunOf(asked)
	if err != nil || !ok {
		return err
	}
	name, err := filepath.Rel(dir, c.File())
	if err != nil || filepath.Dir(name) != runfs.CheckpointsName {
		return nil // a checkpoint of a user's own
	}
	r, err := openRun(dir)
	if r == nil || err != nil {
		return err
	}
	best := runfs.CheckpointsName + "/" + runfs.BestName
	name = filepath.ToSlash(name)
	if asked == dir && name != best && r.Position.BestStep > 0 {
		return fmt.Errorf("%s "+lost+"; restore it, or name %s to use the last weights",
			filepath.Join(dir, best), runfs.LastName, c.File())
	}
	what := ""
	if _, known := r.checkpoints()[name]; known || name == best {
		what = r.checkpoint(name)
	}
	if other := r.otherSettings(); what == "" && other != "" {
		name, what = runfs.ConfigName, fmt.Sprintf(foreign, other)
	}
	if what != "" {
		return fmt.Errorf("%s %s; restore the file of the run, or move the checkpoint out of the run's folder to "+
			"evaluate it alone ('vsetrain verify %s' checks all parts)", filepath.Join(dir, name), what, dir)
	}
	return nil
}
