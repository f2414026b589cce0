package train

import (
	"fmt"

	"vsetrain/internal/system/options"
	"vsetrain/models/nn"
)

// Options are the options of Loop. The doc tags explain them.
type Options struct {
	Epochs       int    `yaml:"epochs" min:"1" max:"1000000" doc:"passes over the training captions"`
	Batch        int    `yaml:"batch" min:"2" max:"65536" doc:"image-caption pairs in a mini-batch; the loss is a sum over it"`
	MicroBatch   int    `yaml:"micro_batch" min:"0" max:"65536" doc:"pairs of a batch to compute at a time (of a network that scores pairs: captions, with all images), with the loss and gradient of the whole batch; 0 takes all"`
	ValStep      int    `yaml:"val_step" min:"0" max:"1000000000" doc:"steps between validations, besides those at the end of each epoch; 0 validates only there"`
	ValGap       int    `yaml:"val_gap" min:"0" max:"1000000000" doc:"skip a validation fewer steps than this after the last one or the start, except at the end of training; 0 skips none"`
	ValPrecision string `yaml:"val_precision" enum:"auto|same" doc:"auto scores pairs in bf16 first when training in fp32 on a CPU, and in fp32 if that can change a rank; same scores all in device.precision"`
	LogStep      int    `yaml:"log_step" min:"0" max:"1000000000" doc:"steps between log lines of loss and times; 0 logs only validations"`
	Shuffle      bool   `yaml:"shuffle" doc:"draw a new order of the captions each epoch"`
	DropLast     bool   `yaml:"drop_last" doc:"leave out an incomplete last batch (vse-infinity does)"`
	InitFrom     string `yaml:"init_from" doc:"run directory, folder of export --hub or checkpoint with the initial weights; empty draws them"`
	Best         string `yaml:"best" enum:"m_recall|4recalls" doc:"score of the best checkpoint: m_recall of all six recalls, 4recalls leaves out R@10 as VSRN does"`
	Keep         int    `yaml:"keep" min:"1" max:"1000" doc:"number of best validations whose checkpoints are kept (step-N); 1 keeps only best"`

	// Overfit also validates on these batches, which a correct network overfits.
	Overfit   int `yaml:"overfit" min:"0" max:"1000000" doc:"train only on the first N batches, again and again; 0 takes all"`
	EarlyStop int `yaml:"early_stop" min:"0" max:"1000000" doc:"stop after this many validations without a better score; 0 is off"`

	// CollapseSteps counts steps in a row whose scores give LMH a loss within 1 % of 2 * batch * margin.
	CollapseSteps int `yaml:"collapse_steps" min:"0" max:"1000000" doc:"steps with all scores alike (loss = 2 batch margin) before on_collapse applies; 0 is off"`
	// OnCollapse warns by default, because the recalls of VSE++ may rise on this plateau.
	OnCollapse string `yaml:"on_collapse" enum:"warn|stop" doc:"warn explains a collapse and continues, stop ends the run"`
	MaxSteps   int    `yaml:"max_steps" min:"0" max:"1000000000" doc:"stop after this many steps; 0 is no limit"`
}

// EncodeBatch returns the number of images or captions to encode at a time.
func (o *Options) EncodeBatch() int {
	if o.MicroBatch > 0 {
		return min(o.MicroBatch, o.Batch)
	}
	return o.Batch
}

// Stop is the value of Options.OnCollapse that ends the run.
const Stop = "stop"

// ValAuto is the value of Options.ValPrecision that scores in bf16 first.
const ValAuto = "auto"

// DefaultOptions returns the references' common settings.
func DefaultOptions() Options {
	return Options{Epochs: 30, Batch: 128, ValStep: 500, ValPrecision: ValAuto, LogStep: 10, Shuffle: true,
		Best: "m_recall", Keep: 1, CollapseSteps: 200, OnCollapse: "warn"}
}

// Validate returns an *options.Error for the first option that cannot be used.
func (o *Options) Validate() error { return options.Check(o) }

// Schedules of the learning rate.
const (
	Repeat = "repeat" // lr * decay^floor(epoch / lr_update)
	Once   = "once"   // * decay at epoch lr_update, and again at lr_update2
	Cosine = "cosine" // half a cosine from lr at the end of warm-up to lr * cosine_end at epoch cosine_epochs
)

// OptimOptions are the options of the optimiser and its learning-rate schedule.
type OptimOptions struct {
	Name   string  `yaml:"name" enum:"adam|adamw" doc:"adam, or adamw with decoupled weight decay"`
	LR     float64 `yaml:"lr" above:"0" max:"10" doc:"learning rate at the start"`
	BertLR float64 `yaml:"bert_lr" above:"0" max:"10" doc:"factor of the learning rate for the parameters of BERT"`
	Decay  float64 `yaml:"decay" above:"0" max:"1" doc:"factor of the learning rate at each update of the schedule"`

	Schedule  string `yaml:"schedule" enum:"repeat|once|cosine" doc:"repeat: decay every lr_update epochs; once: decay at epoch lr_update (and at lr_update2), as vse-infinity; cosine: half a cosine over cosine_epochs"`
	LRUpdate  int    `yaml:"lr_update" min:"0" max:"1000000" doc:"epochs between (repeat) or until (once) a decay; 0 never decays"`
	LRUpdate2 int    `yaml:"lr_update2" min:"0" max:"1000000" doc:"epoch of a second decay with schedule once; 0 is none"`

	CosineEpochs int     `yaml:"cosine_epochs" min:"0" max:"1000000" doc:"epoch that ends the cosine; 0 is train.epochs"`
	CosineEnd    float64 `yaml:"cosine_end" min:"0" max:"1" doc:"factor of lr at the end of the cosine"`

	// WarmupSteps is independent of the warm-up of a loss, loss.warmup_epochs.
	WarmupSteps int `yaml:"warmup_steps" min:"0" max:"1000000000" doc:"steps over which the rate rises to lr; 0 is none"`

	Clip        float64    `yaml:"clip" min:"0" max:"1e9" doc:"largest global L2 norm of the gradients; 0 is no clipping"`
	WeightDecay float64    `yaml:"weight_decay" min:"0" max:"10" doc:"decoupled weight decay (adamw)"`
	Betas       [2]float64 `yaml:"betas" min:"0" below:"1" doc:"decay of the first and second moments"`
	Eps         float64    `yaml:"eps" above:"0" max:"1" doc:"term that keeps the denominator from zero"`
	EMA         float64    `yaml:"ema" min:"0" below:"1" doc:"decay of a moving average of the weights; 0 keeps none"`
	// ReduceDtype is the type of the gradients that ranks send. CPUs add them in float32.
	ReduceDtype string `yaml:"reduce_dtype" enum:"fp32|bf16" doc:"type of the gradients that ranks exchange: bf16 sends half the bytes, rounded to 8 bits (relative error at most 1/256)"`
	LegacyEps   bool   `yaml:"legacy_eps" doc:"apply eps before the bias correction, as PyTorch did up to 1.2"`
}

// BF16 is the value of OptimOptions.ReduceDtype that sends half the bytes.
const BF16 = "bf16"

// DefaultOptimOptions returns Adam with the references' settings: 2e-4, divided by ten every 15 epochs, clip at 2.
func DefaultOptimOptions() OptimOptions {
	return OptimOptions{Name: "adam", LR: 2e-4, BertLR: 0.1, Decay: 0.1, Schedule: Repeat, LRUpdate: 15, Clip: 2,
		Betas: [2]float64{0.9, 0.999}, Eps: 1e-8, ReduceDtype: "fp32"}
}

// scale returns the factor of the learning rate of an optimiser group.
func (o *OptimOptions) scale(group string) float64 {
	if group == nn.BertGroup {
		return o.BertLR
	}
	return 1
}

// Validate returns an *options.Error for the first option that cannot be used.
func (o *OptimOptions) Validate() error {
	if err := options.Check(o); err != nil {
		return err
	}
	if o.Name == "adam" && o.WeightDecay != 0 {
		return &options.Error{Key: "weight_decay", Found: fmt.Sprint(o.WeightDecay), Expected: "0 for optimiser adam",
			Remedy: "set optim.name to adamw"}
	}
	if o.LRUpdate2 != 0 && (o.Schedule != Once || o.LRUpdate2 <= o.LRUpdate) {
		return &options.Error{Key: "lr_update2", Found: fmt.Sprint(o.LRUpdate2),
			Expected: "0, or with schedule once an epoch after lr_update"}
	}
	for _, c := range []struct{ key, found string }{{"cosine_epochs", fmt.Sprint(o.CosineEpochs)},
		{"cosine_end", fmt.Sprint(o.CosineEnd)}} {
		if c.found != "0" && o.Schedule != Cosine {
			return &options.Error{Key: c.key, Found: c.found, Expected: "0 for schedule " + o.Schedule,
				Remedy: "set optim.schedule to cosine"}
		}
	}
	return nil
}
