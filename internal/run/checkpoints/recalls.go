package checkpoints

import (
	"encoding/json"
	"fmt"

	"vsetrain/data/text"
	"vsetrain/eval"
	"vsetrain/internal/files/integrity"
	"vsetrain/models"
)

// recallFile is the part of a file of 'vsetrain eval --json' that is read.
type recallFile struct {
	eval.Metrics
	Protocols []eval.Metrics
	Models    []struct {
		Network    string
		Epoch      float64
		Step       int64
		Validation float64 `json:"validation_m_recall"`
		Vocabulary string
	}
	Data struct {
		Dir, Split       string
		Images, Captions int
	}
}

// maxRecalls is the maximum size of a file of recalls, in bytes.
const maxRecalls = 1 << 20

// readRecalls reads files of recalls, which must be of these weights alone.
func readRecalls(paths []string, c models.Weights, v text.Tokenizer) (all []recallFile, err error) {
	for _, path := range paths {
		var r recallFile
		b, err := integrity.ReadSealed(path, maxRecalls, "recalls")
		if err == nil {
			err = json.Unmarshal(b, &r)
		}
		if err != nil {
			return nil, fmt.Errorf("recalls: %w; expected what 'vsetrain eval --json FILE' writes", err)
		}
		if len(r.Models) != 1 || r.Data.Split == "" {
			return nil, fmt.Errorf("%s: recalls of %d networks on split %q; expected recalls of one network on a "+
				"split of its data: vsetrain eval CHECKPOINT --json FILE", path, len(r.Models), r.Data.Split)
		}
		if r.Protocols == nil {
			r.Protocols = []eval.Metrics{r.Metrics}
		}
		m, network := r.Models[0], c.Network()
		epoch, step, score := c.Progress()
		if m.Network != network.Network || m.Epoch != epoch || m.Step != step || m.Validation != score ||
			m.Vocabulary != v.Hash() {
			return nil, fmt.Errorf("%s: recalls of other weights: %s after step %d with validation score %.4f and "+
				"vocabulary %.12s; expected %s after step %d with %.4f and %.12s; measure these with 'vsetrain eval'",
				path, m.Network, m.Step, m.Validation, m.Vocabulary, network.Network, step, score, v.Hash())
		}
		all = append(all, r)
	}
	return all, nil
}
