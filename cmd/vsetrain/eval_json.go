package main

import (
	"path/filepath"
	"time"

	"vsetrain/eval"
	"vsetrain/internal/run/evaluate"
)

// The JSON of eval: the measures of the first protocol, and what was measured.
type (
	evalJSON struct {
		eval.Metrics
		Protocols  []eval.Metrics        `json:"protocols,omitempty"`  // all, where there are several
		Judgements []eval.JudgedMetrics  `json:"judgements,omitempty"` // with several positives, on the whole split
		People     []eval.HumanAgreement `json:"people,omitempty"`     // agreement with ratings
		Models     []evaluate.Measured   `json:"models"`               // several are an ensemble
		Data       evalDataJSON          `json:"data"`
		Precision  string                `json:"precision,omitempty"`
		Program    programJSON           `json:"program"`
		Measured   time.Time             `json:"measured"`
	}
	evalDataJSON struct {
		Dir              string `json:"dir,omitempty"` // absolute
		Split            string `json:"split,omitempty"`
		Images           int    `json:"images"`
		Captions         int    `json:"captions"`
		CaptionsPerImage int    `json:"captions_per_image"`        // 0 where images have different numbers
		SHA256           string `json:"captions_sha256,omitempty"` // of all captions, a line feed after each
	}
	// programJSON is the vsetrain that measured.
	programJSON struct {
		Version string `json:"version"`
		Commit  string `json:"commit,omitempty"`
		Dirty   bool   `json:"dirty,omitempty"` // built with changes beyond the commit
	}
)

func (a *app) program() programJSON {
	e := session(a.Now())
	return programJSON{e.Version, e.Commit, e.Dirty}
}

// measures returns the JSON of an evaluation.
func (o *evalOptions) measures(a *app, rep evaluate.Report) evalJSON {
	out := evalJSON{Metrics: rep.Results[0].Metrics, Judgements: rep.Judged, People: rep.People, Models: rep.Measured,
		Program: a.program(), Measured: a.Now().UTC().Truncate(time.Second),
		Data: evalDataJSON{Images: rep.Images, Captions: rep.Captions, CaptionsPerImage: rep.Own.Each(),
			SHA256: rep.Digest}}
	if rep.Data != "" {
		out.Data.Dir, out.Data.Split = rep.Data, rep.Split
		if abs, err := filepath.Abs(rep.Data); err == nil {
			out.Data.Dir = abs
		}
	}
	if rep.Device != "" {
		out.Precision = o.Device.Precision
	}
	if len(rep.Results) > 1 {
		for _, r := range rep.Results {
			out.Protocols = append(out.Protocols, r.Metrics)
		}
	}
	return out
}
