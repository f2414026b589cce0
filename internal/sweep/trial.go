package sweep

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"vsetrain/internal/config"
)

// Trial is a point with a seed of training.
type Trial struct {
	Number int    // of the point, from 0
	ID     string // hash of the settings
	Point  Point
	Seed   uint64
	Config config.Config
	Epochs int // to be finished; the last rung with asha
}

// base returns the configuration file of a point.
func (d *Definition) base(p Point) (string, error) {
	if d.Base == "" {
		return "", nil
	}
	file := d.Base
	for i := range d.Axes {
		if a := &d.Axes[i]; a.Name != "" {
			file = strings.ReplaceAll(file, "{"+a.Name+"}", p.Text(a.Name))
		}
	}
	if file = filepath.FromSlash(file); !filepath.IsAbs(file) {
		file = filepath.Join(filepath.Dir(d.File), file)
	}
	problem := ""
	if i := strings.IndexByte(file, '{'); i >= 0 {
		problem = fmt.Sprintf("no axis is named as the placeholder in %s", file[i:])
	} else if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		problem = fmt.Sprintf("no such file: %s", file)
	}
	if problem != "" {
		return "", &config.Error{Problems: []config.Problem{{Source: d.BaseAt, Key: "base", Text: problem}}}
	}
	return file, nil
}

// trial resolves and checks the configuration of a point and a seed. Variables of the environment are not read: a trial is the same
// trial on every machine.
func (d *Definition) trial(number int, p Point, seed uint64) (Trial, error) {
	t := Trial{Number: number, Point: p, Seed: seed}
	file, err := d.base(p)
	if err != nil {
		return t, err
	}
	settings := append(append([]config.Setting{}, d.Set...), p.settings()...)
	settings = append(settings, whole("seed", seed))
	if d.Method == ASHA {
		settings = append(settings, whole("train.epochs", uint64(d.Rungs[len(d.Rungs)-1])))
	}
	c, err := config.Load(config.Request{File: file, Settings: settings})
	if err != nil {
		return t, err
	}
	t.Config, t.Epochs = c.Config, c.Config.Train.Epochs
	t.ID = d.hash(t.Config)
	t.Config.Run.Dir = filepath.Join(d.Dir, trialsName, t.ID)
	return t, nil
}

func whole(key string, n uint64) config.Setting {
	return config.Setting{Key: key, Value: &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: fmt.Sprint(n)}}
}

// hash names a trial after what its result depends on: all settings that are not the default, seed included; not where it runs and
// where it is kept. With asha the epochs are no setting but how far the trial has come.
func (d *Definition) hash(c config.Config) string {
	def := config.Default()
	precision := c.Device.Precision
	c.Run, c.Device = def.Run, def.Device
	c.Device.Precision = precision
	if d.Method == ASHA {
		c.Train.Epochs = 0
	}
	sum := sha256.Sum256([]byte(strings.Join(c.Changed(), "\n")))
	return hex.EncodeToString(sum[:])[:12]
}
