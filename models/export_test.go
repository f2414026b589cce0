package models

import (
	"path/filepath"
	"slices"
	"testing"

	"vsetrain/internal/device/cpu"
	"vsetrain/internal/torchfile"
)

// The options that the references' scripts know. Their evaluation builds the network, the loss and the loader of the
// test split from the options of the checkpoint, and adds vocab_size itself; train.py puts it into the checkpoint too.
var (
	sharedOptions = []string{"batch_size", "data_name", "data_path", "embed_size", "grad_clip", "img_dim",
		"learning_rate", "log_step",
		"logger_name", "lr_update", "margin", "max_violation", "no_imgnorm", "num_epochs", "val_step", "vocab_path",
		"vocab_size", "word_dim", "workers"}
	vseppOptions = []string{"cnn_type", "crop_size", "finetune", "measure", "num_layers", "resume", "use_abs",
		"use_restval"}
)

// referenceParsers lists them by repository and file.
var referenceParsers = []struct {
	name    string // repository: file
	options Options
	dims    Dims
	want    []string
}{
	{"fartashf/vsepp: train.py", Options{Network: VSEPP, TextEncoder: "gru"}, Dims{2, 4, 7}, vseppOptions},
	{"KunpengLi1994/VSRN: train.py", Options{Network: VSRN, TextEncoder: "gru"}, Dims{2, 4, 7},
		append([]string{"bidirectional", "dim_hidden", "dim_vid", "dim_word", "input_dropout_p", "max_len",
			"reset_train", "rnn_dropout_p", "rnn_type"},
			vseppOptions...)},
	{"Paranioar/SGRAF: opts.py", Options{Network: SAF, TextEncoder: "bigru"}, Dims{2, 4, 7}, sgrafOptions},
	{"Paranioar/SGRAF: opts.py", Options{Network: SGR, TextEncoder: "bigru"}, Dims{2, 4, 7}, sgrafOptions},
	{"CrossmodalGroup/GSMN: train.py", Options{Network: GSMN, TextEncoder: "bigru"}, Dims{2, 4, 7},
		[]string{"bi_gru", "feat_dim", "hid_dim", "is_sparse", "lambda_softmax", "model_name", "no_txtnorm",
			"num_block", "num_layers", "out_dim", "resume"}},
	{"kuanghuei/SCAN: train.py", Options{Network: SCAN, TextEncoder: "bigru"}, Dims{2, 4, 7},
		[]string{"agg_func", "bi_gru", "cross_attn", "lambda_lse", "lambda_softmax", "model_name", "no_txtnorm",
			"num_layers", "precomp_enc_type",
			"raw_feature_norm", "resume"}},
	{"ppanzx/CHAN: arguments.py", Options{Network: CHAN, TextEncoder: "bigru"}, Dims{2, 4, 7}, chanOptions},
	{"ppanzx/CHAN: arguments.py", Options{Network: CHAN, TextEncoder: TextBert}, Dims{2, 4, 7}, chanOptions},
	{"woodfrog/vse_infty, branch bigru: arguments.py", Options{Network: VSEInf, TextEncoder: "bigru"}, Dims{2, 4, 7},
		append([]string{"num_layers"}, vseInftyOptions...)},
	{"woodfrog/vse_infty: arguments.py", Options{Network: VSEInf, TextEncoder: TextBert}, Dims{2, 4, 7},
		vseInftyOptions},
}

var (
	chanOptions = []string{"alpha", "belta", "coding_type", "criterion", "drop", "model_name", "no_txtnorm",
		"obj_drop_rate",
		"pooling_type", "precomp_enc_type", "temperature", "text_enc_type", "vse_mean_warmup_epochs", "wemb_type"}
	sgrafOptions    = []string{"bi_gru", "model_name", "module_name", "no_txtnorm", "num_layers", "sgr_step", "sim_dim"}
	vseInftyOptions = []string{"backbone_lr_factor", "backbone_path", "backbone_source", "backbone_warmup_epochs",
		"drop",
		"embedding_warmup_epochs", "input_scale_factor", "model_name", "no_txtnorm", "optim", "precomp_enc_type",
		"reset_start_epoch", "resume",
		"vse_mean_warmup_epochs"}
)

func TestExportsHoldTheOptionsOfTheReferences(t *testing.T) {
	for _, c := range referenceParsers {
		o := DefaultOptions()
		o.Network, o.TextEncoder, o.EmbedDim, o.WordDim = c.options.Network, c.options.TextEncoder, 16, 5
		o.SGRAF.SimDim = 4
		o.Bert.Layers, o.Bert.Hidden, o.Bert.Heads, o.Bert.Intermediate, o.Bert.Positions = 1, 4, 2, 6, 8
		m, err := NewModel(newDevice(t, cpu.FP32), o, c.dims)
		fatal(t, err)
		path := filepath.Join(t.TempDir(), "model_best.pth.tar")
		trained := map[string]any{"margin": 0.185, "batch_size": 84, "loss": "lseh"}
		fatal(t, ExportReference(path, m, &Checkpoint{}, ExportOptions{Namespace: true, Trained: trained}))
		v, err := torchfile.Load(path)
		fatal(t, err)
		opt, _ := v.(*torchfile.Dict).Get("opt")
		attrs := &opt.(*torchfile.Namespace).Attrs
		for _, name := range slices.Concat(sharedOptions, c.want) {
			if _, ok := attrs.Get(name); !ok {
				t.Errorf("%s (%s): option %s, which it reads, is missing", c.name, c.options.Network, name)
			}
		}
		for name, want := range map[string]any{"margin": 0.185, "batch_size": int64(84), "loss": "lseh"} {
			if got, _ := attrs.Get(name); got != want {
				t.Errorf("%s (%s): option %s is %v, the run had %v", c.name, c.options.Network, name, got, want)
			}
		}
		// What is exported again keeps its options.
		r, err := OpenReference(path)
		fatal(t, err)
		again := filepath.Join(t.TempDir(), "again.pth.tar")
		fatal(t, ExportReference(again, m, r, ExportOptions{}))
		v, err = torchfile.Load(again)
		fatal(t, err)
		opt, _ = v.(*torchfile.Dict).Get("opt")
		if got, _ := opt.(*torchfile.Dict).Get("margin"); got != 0.185 {
			t.Errorf("%s (%s): margin is %v after another export", c.name, c.options.Network, got)
		}
	}
}
