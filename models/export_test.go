package models

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"vsetrain/internal/compute/device/cpu"
	"vsetrain/internal/files/torchfile"
	"vsetrain/lab/try"
)

// takes reports whether a reference takes a value of an option: whether its code goes on, and to the branch of the
// network that was exported.
type takes func(v any) bool

func isWhole(v any) bool { _, ok := v.(int64); return ok }
func isFlag(v any) bool  { _, ok := v.(bool); return ok }
func isText(v any) bool  { _, ok := v.(string); return ok }
func isNone(v any) bool  { return v == nil }
func isTrue(v any) bool  { return v == true }
func isReal(v any) bool {
	_, ok := v.(float64)
	return ok || isWhole(v)
}
func oneOf(values ...any) takes { return func(v any) bool { return slices.Contains(values, v) } }

// isPrecomp: with another data_name VSE++ and VSRN build a convolutional network.
func isPrecomp(v any) bool { s, _ := v.(string); return strings.HasSuffix(s, "_precomp") }

// modelReads are the options that Model.__init__ of every reference reads, and evaluationReads the options of evalrank,
// of the loader of the test split, and of the forward pass.
var (
	modelReads = map[string]takes{"grad_clip": isReal, "img_dim": isWhole, "embed_size": isWhole, "no_imgnorm": isFlag,
		"margin": isReal, "max_violation": isFlag, "learning_rate": isReal}
	wordReads       = map[string]takes{"vocab_size": isWhole, "word_dim": isWhole, "num_layers": oneOf(int64(1))}
	evaluationReads = map[string]takes{"data_path": isText, "data_name": isText, "vocab_path": isText,
		"batch_size": isWhole, "workers": isWhole}
	vseReads = map[string]takes{"data_name": isPrecomp, "finetune": oneOf(false), "cnn_type": isText, "use_abs": isFlag,
		"measure": oneOf("cosine", "order"), "crop_size": isWhole}
	vsrnReads = map[string]takes{"dim_vid": isWhole, "dim_hidden": isWhole, "dim_word": isWhole,
		"bidirectional": isReal, "input_dropout_p": isReal, "rnn_dropout_p": isReal, "rnn_type": oneOf("gru", "lstm"),
		"max_len": isWhole}
	sgrafReads = map[string]takes{"bi_gru": isTrue, "no_txtnorm": isFlag, "sim_dim": isWhole, "sgr_step": isWhole}
	gsmnReads  = map[string]takes{"bi_gru": isTrue, "no_txtnorm": isFlag, "feat_dim": isWhole, "hid_dim": isWhole,
		"out_dim": isWhole, "num_block": isWhole, "lambda_softmax": isReal, "is_sparse": isFlag}
	scanReads = map[string]takes{"precomp_enc_type": oneOf("basic", "weight_norm"), "bi_gru": isTrue,
		"no_txtnorm": isFlag, "cross_attn": oneOf("t2i", "i2t"), "lambda_softmax": isReal, "lambda_lse": isReal,
		"agg_func":         oneOf("LogSumExp", "Max", "Sum", "Mean"),
		"raw_feature_norm": oneOf("softmax", "l2norm", "clipped_l2norm", "clipped", "no_norm")}
	chanReads = map[string]takes{"precomp_enc_type": oneOf("basic", "selfattention", "transformer"), "alpha": isReal,
		"belta": isReal, "no_txtnorm": isFlag, "wemb_type": isNone, "word2idx": isNone, "temperature": isReal,
		"obj_drop_rate": isReal, "criterion": oneOf("ContrastiveLoss", "InfoNCELoss"),
		"coding_type":  oneOf("VHACoding", "THACoding", "VSACoding"),
		"pooling_type": oneOf("MaxPooling", "MeanPooling", "SumPooling", "SoftmaxPooling", "LSEPooling")}
	vseInftyReads = map[string]takes{"precomp_enc_type": oneOf("basic"), "backbone_source": isText,
		"backbone_path": isText, "no_txtnorm": isFlag, "optim": oneOf("adam", "sgd")}
)

// references are the repositories: what their code reads of the options in a checkpoint, and names that their parsers
// put there too.
var references = []struct {
	name    string // repository: file of the model
	options Options
	reads   []map[string]takes
	names   []string
}{
	{"fartashf/vsepp: model.py", Options{Network: VSEPP, TextEncoder: "gru"},
		[]map[string]takes{wordReads, vseReads}, []string{"resume", "use_restval"}},
	{"KunpengLi1994/VSRN: model.py", Options{Network: VSRN, TextEncoder: "gru"},
		[]map[string]takes{wordReads, vseReads, vsrnReads}, []string{"reset_train", "resume", "use_restval"}},
	{"Paranioar/SGRAF: model.py", Options{Network: SAF, TextEncoder: "bigru"},
		[]map[string]takes{wordReads, sgrafReads, {"module_name": oneOf("SAF")}}, []string{"model_name"}},
	{"Paranioar/SGRAF: model.py", Options{Network: SGR, TextEncoder: "bigru"},
		[]map[string]takes{wordReads, sgrafReads, {"module_name": oneOf("SGR")}}, []string{"model_name"}},
	{"CrossmodalGroup/GSMN: model.py", Options{Network: GSMN, TextEncoder: "bigru"},
		[]map[string]takes{wordReads, gsmnReads}, []string{"model_name", "resume"}},
	{"kuanghuei/SCAN: model.py", Options{Network: SCAN, TextEncoder: "bigru"},
		[]map[string]takes{wordReads, scanReads}, []string{"model_name", "resume"}},
	{"ppanzx/CHAN: lib/model.py", Options{Network: CHAN, TextEncoder: "bigru"},
		[]map[string]takes{wordReads, chanReads, {"text_enc_type": oneOf("bigru"), "optim": oneOf("adam")}},
		[]string{"drop", "model_name", "vse_mean_warmup_epochs"}},
	{"ppanzx/CHAN: lib/model.py", Options{Network: CHAN, TextEncoder: TextBert},
		[]map[string]takes{wordReads, chanReads, {"text_enc_type": oneOf("bert"), "optim": oneOf("adam", "sgd")}},
		[]string{"drop", "model_name", "vse_mean_warmup_epochs"}},
	{"woodfrog/vse_infty, branch bigru: lib/vse.py", Options{Network: VSEInf, TextEncoder: "bigru"},
		[]map[string]takes{wordReads, vseInftyReads}, vseInftyNames},
	{"woodfrog/vse_infty: lib/vse.py", Options{Network: VSEInf, TextEncoder: TextBert},
		[]map[string]takes{vseInftyReads}, vseInftyNames},
}

var (
	sharedNames   = []string{"log_step", "logger_name", "lr_update", "num_epochs", "val_step"}
	vseInftyNames = []string{"backbone_lr_factor", "backbone_warmup_epochs", "drop", "embedding_warmup_epochs",
		"input_scale_factor", "model_name", "reset_start_epoch", "resume", "vse_mean_warmup_epochs"}
)

func TestExportsHoldTheOptionsThatTheReferencesRead(t *testing.T) {
	for _, c := range references {
		o := DefaultOptions()
		o.Network, o.TextEncoder, o.EmbedDim, o.WordDim = c.options.Network, c.options.TextEncoder, 16, 5
		o.SGRAF.SimDim = 4
		o.Bert.Layers, o.Bert.Hidden, o.Bert.Heads, o.Bert.Intermediate, o.Bert.Positions = 1, 4, 2, 6, 8
		m := try.Get(NewModel(newDevice(t, cpu.FP32), o, Dims{Regions: 2, Feature: 4, Vocab: 7}))(t)
		path := filepath.Join(t.TempDir(), "model_best.pth.tar")
		trained := map[string]any{"margin": 0.185, "batch_size": 84, "loss": "lseh"}
		try.Do(t, ExportReference(path, m, &Checkpoint{}, ExportOptions{Namespace: true, Trained: trained}))
		v := try.Get(torchfile.Load(path))(t)
		top := v.(*torchfile.Dict)
		opt, _ := top.Get("opt")
		attrs := &opt.(*torchfile.Namespace).Attrs
		for _, reads := range append(c.reads, modelReads, evaluationReads) {
			for name, takes := range reads {
				if v, ok := attrs.Get(name); !ok {
					t.Errorf("%s (%s): option %s, which it reads, is missing", c.name, o.TextEncoder, name)
				} else if !takes(v) {
					t.Errorf("%s (%s): option %s is %v, which it does not take", c.name, o.TextEncoder, name, v)
				}
			}
		}
		const warmup = "vse_mean_warmup_epochs" // a run's own replaces the default
		if own := o.Traits().WarmupReference; slices.Contains(c.names, warmup) != (own == warmup) {
			t.Errorf("%s (%s): warm-up epochs of a run are exported as %q", c.name, o.TextEncoder, own)
		}
		if v, ok := attrs.Get(warmup); ok && v != int64(1) {
			t.Errorf("%s (%s): option %s is %v, by default 1", c.name, o.TextEncoder, warmup, v)
		}
		for _, name := range slices.Concat(sharedNames, c.names) {
			if _, ok := attrs.Get(name); !ok {
				t.Errorf("%s (%s): option %s of its parser is missing", c.name, o.TextEncoder, name)
			}
		}
		// load_state_dict wants the sizes that the options make.
		sizes := map[string][2]string{"0 fc.weight": {"embed_size", "img_dim"}}
		if o.TextEncoder != TextBert {
			sizes["1 embed.weight"] = [2]string{"vocab_size", "word_dim"}
		}
		list, _ := top.Get("model")
		prefix := ""
		if f := formats[o.Network].prefix; f != nil {
			prefix = f(m)
		}
		for tensor, options := range sizes {
			state := list.(*torchfile.List).Items[tensor[0]-'0'].(*torchfile.Dict)
			w, ok := state.Get(prefix + tensor[2:])
			if !ok {
				t.Fatalf("%s: no tensor %s", c.name, tensor)
			}
			for i, option := range options {
				if v, _ := attrs.Get(option); v != int64(w.(*torchfile.Tensor).Shape[i]) {
					t.Errorf("%s (%s): option %s is %v, tensor %s has %v", c.name, o.TextEncoder, option, v, tensor,
						w.(*torchfile.Tensor).Shape)
				}
			}
		}
		for name, want := range map[string]any{"margin": 0.185, "batch_size": int64(84), "loss": "lseh"} {
			if got, _ := attrs.Get(name); got != want {
				t.Errorf("%s (%s): option %s is %v, the run had %v", c.name, o.TextEncoder, name, got, want)
			}
		}
		// What is exported again keeps its options.
		r := try.Get(OpenReference(path, nil))(t)
		again := filepath.Join(t.TempDir(), "again.pth.tar")
		try.Do(t, ExportReference(again, m, r, ExportOptions{}))
		v = try.Get(torchfile.Load(again))(t)
		opt, _ = v.(*torchfile.Dict).Get("opt")
		if got, _ := opt.(*torchfile.Dict).Get("margin"); got != 0.185 {
			t.Errorf("%s (%s): margin is %v after another export", c.name, o.TextEncoder, got)
		}
	}
}

// A network of one's own, which no repository has: PyTorch reads one state dict with its tensors by their names here.
func TestExportOfANetworkWithoutARepository(t *testing.T) {
	const own = "own"
	registry[own] = registry[VSRN]
	defer delete(registry, own)
	o := DefaultOptions()
	o.Network, o.TextEncoder, o.EmbedDim, o.WordDim = own, "gru", 16, 5
	m := try.Get(NewModel(newDevice(t, cpu.FP32), o, Dims{Regions: 2, Feature: 4, Vocab: 7},
		Learned("bias", -3, -10, 10)))(t)
	m.Init(1, nil)
	path := filepath.Join(t.TempDir(), "own.pth")
	try.Do(t, ExportReference(path, m, &Checkpoint{Info: Info{Step: 70}}, ExportOptions{
		Trained: map[string]any{"margin": 0.3}}))
	v := try.Get(torchfile.Load(path))(t)
	top := v.(*torchfile.Dict)
	get := func(d *torchfile.Dict, name string) any {
		t.Helper()
		v, ok := d.Get(name)
		if !ok {
			t.Fatalf("no %s", name)
		}
		return v
	}
	if steps := get(top, "Eiters"); steps != int64(70) {
		t.Errorf("step %v", steps)
	}
	for name, want := range map[string]any{"network": own, "embed_size": int64(16), "vocab_size": int64(7),
		"margin": 0.3} {
		if got := get(get(top, "opt").(*torchfile.Dict), name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	state := get(top, "model").(*torchfile.Dict)
	for _, p := range m.Network.Params() {
		if trainingOnly(m.Network, p.Name) {
			continue
		}
		got := try.Get(get(state, p.Name).(*torchfile.Tensor).Float64s())(t)
		want := make([]float64, len(got))
		m.Instance.Dev.DownloadDoubles(want, m.Instance.Params.Value(p.Name))
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", p.Name, got, want)
		}
	}
	get(state, "img.bn.num_batches_tracked")
	bias := try.Get(get(get(top, "loss").(*torchfile.Dict), "bias").(*torchfile.Tensor).Float64s())(t)
	if !slices.Equal(bias, []float64{-3}) {
		t.Errorf("the loss learned a bias of %v, want -3", bias)
	}

	registry[own] = entry{traits: registry[own].traits, build: func(o Options, d Dims) (Network, error) {
		n, err := registry[VSEPP].build(o, d)
		return struct{ Embedder }{n.(Embedder)}, err
	}}
	m = try.Get(NewModel(newDevice(t, cpu.FP32), o, Dims{Regions: 2, Feature: 4, Vocab: 7}))(t)
	try.Refuses(m.ONNX())(t, "onnxCaptions", "export --out")
}
