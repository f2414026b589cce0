package checkpoints

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"vsetrain/eval"
	"vsetrain/internal/run/config"
	"vsetrain/internal/system/build"
	"vsetrain/models"
)

// Files of the Hub's layout beside the weights (models.HubName), the vocabulary and the encoders of ONNX.
const (
	HubCard   = "README.md"
	HubConfig = "config.json"
)

// modelCard is the README.md of a folder of the Hub's layout.
type modelCard struct {
	name, license, vocabulary string
	model                     *models.Model
	weights                   models.Weights
	trained                   *config.Config // nil where it is not known
	recalls                   []recallFile
}

// cardData is the metadata in front of a model card.
//
// Source: huggingface.co/docs/hub/model-cards, and the model-index of Papers with Code.
type cardData struct {
	License string      `yaml:"license,omitempty"`
	Library string      `yaml:"library_name"`
	Tags    []string    `yaml:"tags"`
	Index   []cardIndex `yaml:"model-index,omitempty"`
}

type (
	cardIndex struct {
		Name    string       `yaml:"name"`
		Results []cardResult `yaml:"results"`
	}
	cardResult struct {
		Task    cardTask     `yaml:"task"`
		Dataset cardDataset  `yaml:"dataset"`
		Metrics []cardMetric `yaml:"metrics"`
	}
	cardTask    struct{ Type, Name string }
	cardDataset struct{ Type, Name, Config, Split string }
	cardMetric  struct {
		Type, Name string
		Value      float64
	}
)

// measuresOf are the measures of a protocol by name.
func measuresOf(m *eval.Metrics) []cardMetric {
	var all []cardMetric
	for _, d := range []struct {
		key, name string
		r         eval.Recalls
	}{{"image_to_text", "Image-to-text", m.I2T}, {"text_to_image", "Text-to-image", m.T2I}} {
		all = append(all, cardMetric{d.key + "_recall_at_1", d.name + " R@1", d.r.R1},
			cardMetric{d.key + "_recall_at_5", d.name + " R@5", d.r.R5},
			cardMetric{d.key + "_recall_at_10", d.name + " R@10", d.r.R10},
			cardMetric{d.key + "_median_rank", d.name + " median rank", d.r.MedR},
			cardMetric{d.key + "_mean_rank", d.name + " mean rank", d.r.MeanR})
	}
	return append(all, cardMetric{"recall_sum", "Sum of recalls", m.RSum},
		cardMetric{"m_recall", "M-Recall", m.MRecall})
}

func (c *modelCard) write(w io.Writer) error {
	network := c.model.Options.Network
	data := cardData{License: c.license, Library: "vsetrain",
		Tags: []string{"image-text-retrieval", "cross-modal-retrieval", "visual-semantic-embedding", network}}
	var rows, of strings.Builder
	if c.trained != nil {
		epoch, _, _ := c.weights.Progress()
		unacted := c.trained.Loss.Unacted(epoch)
		if unacted == "" {
			data.Tags = append(data.Tags, c.trained.Loss.Name)
		}
		fmt.Fprintf(&of, ", trained with %s%s", c.trained.Loss.Title(), unacted)
	}
	index := cardIndex{Name: c.name}
	for _, r := range c.recalls {
		set := filepath.Base(r.Data.Dir)
		for i := range r.Protocols {
			m := &r.Protocols[i]
			index.Results = append(index.Results, cardResult{cardTask{"image-text-retrieval", "Image-text retrieval"},
				cardDataset{set, set, m.Protocol, r.Data.Split}, measuresOf(m)})
			fmt.Fprintf(&rows, "| %s, %s (%d images, %d captions) | %s |", set, r.Data.Split, r.Data.Images,
				r.Data.Captions, m.Protocol)
			fmt.Fprintf(&rows, " %.1f | %.1f | %.1f | %.1f | %.1f | %.1f | %.2f |\n", m.I2T.R1, m.I2T.R5, m.I2T.R10,
				m.T2I.R1, m.T2I.R5, m.T2I.R10, m.MRecall)
		}
	}
	if rows.Len() > 0 {
		data.Index = []cardIndex{index}
	}
	front, err := yaml.Marshal(data)
	if err != nil {
		return err
	}
	epoch, step, _ := c.weights.Progress()
	traits, dims := c.model.Options.Traits(), c.model.Dims
	fmt.Fprintf(w, "---\n%s---\n\n# %s\n\n%s for image-text retrieval%s, after epoch %.2f (step %d).\n", front, c.name,
		traits.Name(), &of, epoch, step)
	fmt.Fprintf(w, "vsetrain %s wrote it. An image is %d region features of %d values; a caption is words of a "+
		"vocabulary of %d.\n\n", build.Current(), dims.Regions, dims.Feature, dims.Vocab)
	if rows.Len() > 0 {
		fmt.Fprintf(w, cardRecalls, &rows)
	}
	fmt.Fprintf(w, cardFiles, HubConfig, models.HubName, HubConfig, c.vocabulary)
	if c.model.HasONNX() {
		fmt.Fprintf(w, cardEncoders, ONNXImages, ONNXCaptions, ONNXPreprocessing)
	}
	return nil
}

// Parts of the card.
const (
	cardRecalls = `## Recalls

R@k in percent, image to text and text to image; M-Recall is the mean of the six.

| data, split | protocol | i2t R@1 | R@5 | R@10 | t2i R@1 | R@5 | R@10 | M-Recall |
|---|---|---|---|---|---|---|---|---|
%s
`
	cardFiles = "## Use\n\nDATA is a folder of features and captions.\n\n" +
		"```sh\nvsetrain eval . --data DATA --split test\nvsetrain serve . --data DATA\n" +
		"vsetrain train --config %s --set data.dir=DATA --set train.init_from=.\n```\n\n" +
		"## Files\n\n| file | holds |\n|---|---|\n| `%s` | the weights, under the names of the reference " +
		"repository, with `img.`, `txt.` or `sim.` in front |\n| `%s` | the settings |\n| `%s` | the vocabulary |\n"
	cardEncoders = "| `%s`, `%s` | the encoders for ONNX Runtime |\n" +
		"| `%s` | how captions become ids, and how scores are computed |\n"
)
