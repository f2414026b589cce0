package experiment

import (
	"vsetrain/data"
	"vsetrain/data/text"
	"vsetrain/internal/device"
	"vsetrain/models"
)

// AnalysisRequest names what an analysis looks at: a trained network and a split of its data.
type AnalysisRequest struct {
	Data   string // folder; empty is the one the run was trained on
	Split  string
	Device device.Options
	BLAS   string
}

// loaded is a trained network with a split of its data.
type loaded struct {
	dev      device.Device
	model    *models.Model
	split    *data.Split
	vocab    text.Lexicon
	data     data.Options
	describe string // the checkpoint, for people
}

func (l *loaded) close() {
	if l.split != nil {
		l.split.Close()
	}
	if l.dev != nil {
		l.dev.Close()
	}
}

// load opens a checkpoint, the best one of a run directory. boxes asks for those of the regions, also where the network does not look at them.
func (r *AnalysisRequest) load(path string, boxes bool) (l *loaded, err error) {
	c, err := models.OpenWeights(path)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	e := EvalRequest{Data: r.Data}
	l = &loaded{describe: c.Describe()}
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	network := c.Network()
	if l.data, err = e.dataOptions(path); err != nil {
		return nil, err
	}
	if l.vocab, err = e.lexicon(path, l.data, &network); err != nil {
		return nil, err
	}
	if boxes {
		l.split, err = data.Open(l.data.Dir, r.Split, data.OpenOptions{CaptionsPerImage: int(l.data.CaptionsPerImage), FeatureDType: l.data.FeatureDType, Boxes: true})
	} else {
		l.split, err = OpenSplit(l.data, network, r.Split)
	}
	if err != nil {
		return nil, err
	}
	dims, err := fits(c, l.split, l.vocab)
	if err != nil {
		return nil, err
	}
	if l.dev, err = OpenDevice(r.Device, r.BLAS, &network); err != nil {
		return nil, err
	}
	if l.model, err = models.NewModel(l.dev, network, dims); err != nil {
		return nil, err
	}
	return l, c.Restore(l.model)
}
