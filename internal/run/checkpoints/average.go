package checkpoints

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/files/atomicfile"
	"vsetrain/internal/files/runfs"
	"vsetrain/internal/run/config"
	"vsetrain/internal/run/placement"
	"vsetrain/internal/run/pretrained"
	"vsetrain/models"
)

// AverageRequest asks for the mean of checkpoints.
type AverageRequest struct {
	Checkpoints []string
	Out         string // file; empty is average.safetensors beside the checkpoints if all belong to one run
	Force       bool   // replace an existing file
	Set         []string
	Warn        func(error) // as in Source
}

// ErrSeveralRuns is the error of a mean over several runs without a name for the file.
var ErrSeveralRuns = errors.New("the checkpoints are of several runs: name the file to write with --out")

// Average writes the mean of the weights of several checkpoints of one network. Every parameter and running statistic
// is summed in float64 in the order of the request. It returns the file and the network.
//
// Source: M. Wortsman et al., Model soups, ICML 2022 (the uniform soup).
func Average(r AverageRequest) (out, network string, err error) {
	if out, err = r.target(); err != nil {
		return out, "", err
	}
	if err := RefuseOverwrite(out, r.Force); err != nil {
		return out, "", err
	}
	var all []models.Weights
	defer func() {
		for _, w := range all {
			w.Close()
		}
	}()
	info := models.Info{}
	for _, path := range r.Checkpoints {
		w, err := pretrained.OpenWeights(path, r.Set, r.Warn)
		if err != nil {
			return out, "", err
		}
		all = append(all, w)
		if err := sameNetwork(all[0], w); err != nil {
			return out, "", err
		}
		if epoch, step, _ := w.Progress(); step >= info.Step {
			info.Epoch, info.Step = epoch, step
		}
		if info.Vocabulary == "" {
			info.Vocabulary = w.VocabularyHash()
		}
	}
	dev, err := placement.Open(device.Options{Kind: "cpu", Threads: 1, Precision: "fp32"}, "", nil)
	if err != nil {
		return out, "", err
	}
	defer dev.Close()
	m, err := models.NewModel(dev, all[0].Network(), all[0].Sizes(), all[0].Learned()...)
	if err != nil {
		return out, "", err
	}
	parts := []device.View{m.Instance.Params.Values(), m.Instance.Params.State()}
	parts = slices.DeleteFunc(parts, func(v device.View) bool { return v.N == 0 })
	sums := make([][]float64, len(parts))
	for i, v := range parts {
		sums[i] = make([]float64, v.N)
	}
	for _, w := range all {
		if err := w.Restore(m); err != nil {
			return out, "", err
		}
		for i, v := range parts {
			one := make([]float64, v.N)
			dev.DownloadDoubles(one, v)
			for k, x := range one {
				sums[i][k] += x
			}
		}
	}
	for i, v := range parts {
		for k := range sums[i] {
			sums[i][k] /= float64(len(all))
		}
		dev.UploadDoubles(v, sums[i])
	}
	err = atomicfile.WriteFile(out, func(w io.Writer) error { return models.WriteCheckpoint(w, m, dev, info, nil) })
	return out, m.Options.Network, err
}

// target is the file to write.
func (r *AverageRequest) target() (string, error) {
	if r.Out != "" {
		return r.Out, nil
	}
	first := ""
	for i, path := range r.Checkpoints {
		dir, ok, err := pretrained.RunOf(path)
		if err != nil {
			return "", err
		}
		if !ok || i > 0 && filepath.Clean(dir) != first {
			return "", ErrSeveralRuns
		}
		first = filepath.Clean(dir)
	}
	return filepath.Join(first, runfs.CheckpointsName, "average.safetensors"), nil
}

// sameNetwork refuses weights that do not belong together.
func sameNetwork(a, b models.Weights) error {
	x, y := a.Network(), b.Network()
	for _, o := range []*models.Options{&x, &y} {
		// the origin of the initial weights
		o.Bert.Dir, o.Bert.Init, o.WordInit = "", "", ""
	}
	list := config.Differences("model", x, y)
	if p, q := a.Sizes(), b.Sizes(); len(list) == 0 && p != q {
		list = append(list, fmt.Sprintf("%d regions of %d features and %d words, and %d of %d and %d",
			p.Regions, p.Feature, p.Vocab, q.Regions, q.Feature, q.Vocab))
	}
	if p, q := a.VocabularyHash(), b.VocabularyHash(); len(list) == 0 && p != q && p != "" && q != "" {
		list = append(list, fmt.Sprintf("vocabularies %.12s and %.12s", p, q))
	}
	names := func(w models.Weights) (s []string) {
		for _, p := range w.Learned() {
			s = append(s, p.Name)
		}
		return s
	}
	if p, q := names(a), names(b); len(list) == 0 && !slices.Equal(p, q) {
		list = append(list, fmt.Sprintf("parameters of losses %q and %q", p, q))
	}
	if len(list) == 0 {
		return nil
	}
	return fmt.Errorf("%s and %s: %s; only checkpoints of one network can be averaged", a.File(), b.File(),
		strings.Join(list, ", "))
}
