package models

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"vsetrain/internal/files/torchfile"
)

// ExportOptions are the options of ExportReference.
type ExportOptions struct {
	// Namespace writes the options as argparse.Namespace instead of a dict. The reference's own scripts expect it, and
	// torch.load accepts it only with weights_only=False.
	Namespace bool
	// Trained are the settings that the weights were trained with, under the references' names (margin, learning_rate
	// ...). They replace the defaults of the repository, but not the options of a reference's checkpoint.
	Trained map[string]any
}

// ExportReference writes a model as a checkpoint of its reference repository, which PyTorch loads. It writes all
// options that the repository's parser knows, so that its evaluation finds every option that it reads. Options that the
// repository does not have are stored in ownEntry; an option that cannot be stored is an error. A network without a
// repository gets one state dict with the names of this program ("img.fc.weight") instead of a list. The dict "loss"
// holds what the loss learned.
func ExportReference(path string, m *Model, from Weights, o ExportOptions) error {
	f, known := formats[m.Options.Network]
	if !known {
		f = format{recalls: 6, options: ownOptions}
	}
	prefix := ""
	if f.prefix != nil {
		prefix = f.prefix(m)
	}
	whole := &torchfile.Dict{} // the state dict of a network without a repository
	states := make([]any, len(m.Network.Parts()))
	for i := range states {
		if states[i] = whole; known {
			states[i] = &torchfile.Dict{}
		}
	}
	learned := &torchfile.Dict{}
	for _, p := range m.Params() {
		ofLoss := strings.HasPrefix(p.Name, LearnedPart)
		if trainingOnly(m.Network, p.Name) && !ofLoss {
			continue
		}
		part, name, _ := strings.Cut(p.Name, ".")
		v := m.Instance.Params.Value(p.Name)
		buf := make([]float32, v.N)
		m.Instance.Dev.DownloadFloats(buf, v)
		t, err := torchfile.FromFloat32s(p.Shape, buf)
		if err != nil {
			return fmt.Errorf("export %s: %w", p.Name, err)
		}
		if ofLoss {
			learned.Set(name, t)
			continue
		}
		state := states[slices.Index(m.Network.Parts(), part)].(*torchfile.Dict)
		if !known {
			name = p.Name
		}
		state.Set(prefix+name, t)
		if norm, ok := strings.CutSuffix(name, ".running_var"); ok { // torch.nn.BatchNorm1d has a counter too
			if t, err = torchfile.NewTensor("I64", nil, make([]byte, 8)); err != nil {
				return fmt.Errorf("export %s: %w", p.Name, err)
			}
			state.Set(prefix+norm+".num_batches_tracked", t)
		}
	}
	epoch, step, score := from.Progress()
	opt := f.options(m)
	maps.Copy(opt, o.Trained)
	if r, ok := from.(*Reference); ok {
		maps.Copy(opt, r.settings())
	}
	writeOptions(opt, m.Options)
	top := &torchfile.Dict{}
	top.Set("epoch", int(epoch))
	top.Set("model", whole)
	if known {
		top.Set("model", &torchfile.List{Items: states})
	}
	if len(m.learned) > 0 {
		top.Set("loss", learned)
	}
	top.Set("best_rsum", float64(f.recalls)*score)
	top.Set("opt", opt)
	top.Set("Eiters", int(step))
	if known {
		if err := storeOwn(top, opt, m); err != nil {
			return fmt.Errorf("export %s: %w", path, err)
		}
	}
	if o.Namespace {
		ns := &torchfile.Namespace{Class: "argparse.Namespace"}
		for _, k := range slices.Sorted(maps.Keys(opt)) {
			ns.Attrs.Set(k, opt[k])
		}
		top.Set("opt", ns)
	}
	return torchfile.Save(path, top)
}

// storeOwn adds ownEntry to the options of a checkpoint if the checkpoint would be read with other options than the
// model has.
func storeOwn(top *torchfile.Dict, opt map[string]any, m *Model) error {
	want := m.Options.stored()
	for {
		r := &Reference{}
		if err := r.parse(top); err != nil {
			return err
		}
		lost := want.differing(r.options)
		if len(lost) == 0 {
			return nil
		}
		if opt[ownEntry] != nil {
			return fmt.Errorf("a checkpoint of the reference repository cannot hold %v", lost)
		}
		opt[ownEntry] = lost
	}
}

// ownOptions are the name and the sizes of a network without a repository.
func ownOptions(m *Model) map[string]any {
	return map[string]any{"network": m.Options.Network, "embed_size": m.Options.EmbedDim, "word_dim": m.Options.WordDim,
		"vocab_size": m.Dims.Vocab, "regions": m.Dims.Regions, "img_dim": m.Dims.Feature}
}

// commonOptions are the options that fartashf/vsepp, train.py, and its descendants share: the sizes of the network, and
// the reference's defaults of all other options.
func commonOptions(m *Model) map[string]any {
	return map[string]any{
		"embed_size": m.Options.EmbedDim, "word_dim": m.Options.WordDim, "vocab_size": m.Dims.Vocab,
		"num_layers": 1, "no_imgnorm": false, "margin": 0.2, "max_violation": true, "grad_clip": 2.0, "num_epochs": 30,
		"batch_size": 128, "learning_rate": 0.0002, "lr_update": 15, "val_step": 500, "log_step": 10, "workers": 10,
		"resume":    "",
		"data_path": "data", "data_name": "f30k_precomp", "vocab_path": "./vocab/", "logger_name": "runs/runX",
	}
}

// imageOptions are the options of fartashf/vsepp and KunpengLi1994/VSRN for pictures and similarities.
func imageOptions(m *Model) map[string]any {
	return with(commonOptions(m), map[string]any{"measure": "cosine", "use_abs": false, "crop_size": 224,
		"finetune": false, "cnn_type": "vgg19", "use_restval": false, "reset_train": false})
}

// with adds options to others.
func with(options, more map[string]any) map[string]any {
	maps.Copy(options, more)
	return options
}
