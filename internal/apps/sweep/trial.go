package sweep

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"vsetrain/internal/run/config"
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

// base returns the configuration of a point: a file relative to the sweep file, or a preset.
func (d *Definition) base(p Point) (config.Request, error) {
	if d.Base == "" {
		return config.Request{}, nil
	}
	name := d.Base
	for i := range d.Axes {
		if a := &d.Axes[i]; a.Name != "" {
			name = strings.ReplaceAll(name, "{"+a.Name+"}", p.Text(a.Name))
		}
	}
	problem := ""
	if i := strings.IndexByte(name, '{'); i >= 0 {
		problem = fmt.Sprintf("no axis has the name of the placeholder in %s", name[i:])
	} else if r, ok := config.Find(name, filepath.Dir(d.File)); ok {
		return r, nil
	} else {
		problem = config.Missing(name)
	}
	return config.Request{}, &config.Error{Problems: []config.Problem{{Source: d.BaseAt, Key: "base", Text: problem}}}
}

// trial resolves and checks the configuration of a point and a seed. It ignores environment variables, so that a trial
// is the same on every machine.
func (d *Definition) trial(number int, p Point, seed uint64) (Trial, error) {
	t := Trial{Number: number, Point: p, Seed: seed}
	base, err := d.base(p)
	if err != nil {
		return t, err
	}
	settings := append(append([]config.Setting{}, d.Set...), p.settings()...)
	settings = append(settings, whole("seed", seed))
	if d.Method == ASHA {
		settings = append(settings, whole("train.epochs", uint64(d.Rungs[len(d.Rungs)-1])))
	}
	base.Settings = settings
	c, err := config.Load(base)
	if err != nil {
		return t, err
	}
	t.Config, t.Epochs = c.Config, c.Config.Train.Epochs
	if n, batch := d.Launch.ranks(), t.Config.Train.Batch; n > batch {
		return t, &config.Error{Problems: []config.Problem{{Source: d.Launch.At, Key: "launcher",
			Text: fmt.Sprintf("a trial has %d ranks, but train.batch is %d: each rank needs at least one caption", n,
				batch)}}}
	}
	t.ID = d.hash(t.Config)
	t.Config.Run.Dir = filepath.Join(d.Dir, trialsName, t.ID)
	return t, nil
}

func whole(key string, n uint64) config.Setting {
	return config.Setting{Key: key, Value: &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: fmt.Sprint(n)}}
}

// hash names a trial after all settings that its result depends on and that are not the default, including the seed but
// not the device and the directory. With asha it leaves out the epochs, which say how far the trial has come.
func (d *Definition) hash(c config.Config) string {
	def := config.Default()
	precision := c.Device.Precision
	c.Run, c.Track, c.Device = def.Run, def.Track, def.Device
	c.Device.Precision = precision
	if d.Method == ASHA {
		c.Train.Epochs = 0
	}
	// 1e-05, without the point that YAML 1.1 asks for.
	text := strings.ReplaceAll(strings.Join(c.Changed(), "\n"), ".0e", "e")
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])[:12]
}
