package sweep

import (
	"strings"
	"testing"

	"vsetrain/lab/try"
	"vsetrain/loss"
)

// Every mistake and its whole message after the name of the file.
var bad = map[string]struct{ text, want string }{
	"unknown parameter": {"axes:\n  - {param: optim.lrr, values: [1]}\n",
		`s.yaml:2:13: optim.lrr: unknown key; did you mean optim.lr?`},
	"parameter far off": {"axes: [{param: altitude, values: [1]}]\n", "s.yaml:1:16: altitude: unknown key; " +
		"the top level has version, seed, data, model, loss, optim, train, device, run, track"},
	"a section": {"axes: [{param: optim, values: [1]}]\n",
		`s.yaml:1:16: optim: is a section; set one of its keys: name, lr, bert_lr, decay, schedule, lr_update, ` +
			`lr_update2, cosine_epochs, cosine_end, warmup_steps, clip, weight_decay, betas, eps, ema, reduce_dtype, ` +
			`legacy_eps`},
	"empty axis": {"axes:\n  - {param: optim.lr, values: []}\n",
		`s.yaml:2:23: axes[0].values: the list is empty; give at least one of its values`},
	"axis without range": {"axes:\n  - param: optim.lr\n",
		`s.yaml:2:5: axes[0]: expected one of values, range, log_range and choices, found none; an axis without ` +
			`values is empty`},
	"two ranges": {"axes: [{param: optim.lr, values: [1], choices: [2]}]\n",
		`s.yaml:1:8: axes[0]: expected one of values, range, log_range and choices, found values and choices; an ` +
			`axis without values is empty`},
	"empty range": {"method: random\ntrials: 3\naxes: [{param: optim.lr, range: {from: 1, to: 1}}]\n",
		`s.yaml:3:33: axes[0]: the range is empty: from 1 is not below to 1`},
	"no axes":    {"method: grid\n", `s.yaml:1:1: axes: a sweep needs an axis, or several seeds`},
	"axes empty": {"axes: []\n", `s.yaml:1:1: axes: the list is empty; give at least one of its axes`},
	"value out of range": {"axes:\n  - param: optim.lr\n    values: [0.1,\n      11]\n",
		`s.yaml:4:7: optim.lr: expected a number in (0, 10], found 11`},
	"range out of range": {"method: random\ntrials: 3\naxes: [{param: optim.decay, range: {from: 0.5, to: 2}}]\n",
		`s.yaml:3:8: optim.decay: expected a number in (0, 1], found 2`},
	"wrong choice": {"axes: [{param: loss.name, choices: [lmh, lsehh]}]\n",
		"s.yaml:1:42: loss.name: expected one of " + strings.Join(loss.Names(), ", ") +
			`, found "lsehh"; did you mean lseh?`},
	"value twice": {"axes: [{param: train.batch, values: [16, 16]}]\n",
		`s.yaml:1:42: axes[0]: 16 is there twice`},
	"axis twice": {"axes: [{param: train.batch, values: [16]}, {param: train.batch, values: [32]}]\n",
		`s.yaml:1:44: axes[1]: train.batch has an axis already; only axes with when may share a key`},
	"unknown key": {"axis: [{param: train.batch, values: [16]}]\n",
		`s.yaml:1:1: axis: unknown key; did you mean axes?`},
	"unknown axis key": {"axes: [{parm: train.batch, values: [16]}]\n",
		`s.yaml:1:9: axes[0].parm: unknown key; did you mean param?`},
	"duplicate": {"seed: 1\nseed: 2\n", `s.yaml:2:1: seed: duplicate key; already set in line 1`},
	"unknown setting": {"set: {optm.lr: 1}\naxes: [{param: train.batch, values: [16]}]\n",
		`s.yaml:1:7: optm.lr: unknown key; did you mean optim.lr?`},
	"setting twice": {"set: {optim.lr: 1, optim: {lr: 2}}\naxes: [{param: train.batch, values: [16]}]\n",
		`s.yaml:1:28: optim.lr: duplicate key; already set in line 1`},
	"method": {"method: gird\naxes: [{param: train.batch, values: [16]}]\n",
		`s.yaml:1:9: method: expected one of grid, random, tpe, asha, found "gird"; did you mean grid?`},
	"no trials": {"method: tpe\naxes: [{param: train.batch, values: [16]}]\n",
		`s.yaml:1:1: trials: method tpe needs the number of points: trials: 20`},
	"trials of a grid": {"trials: 3\naxes: [{param: train.batch, values: [16]}]\n",
		`s.yaml:1:1: trials: a grid has as many points as its axes make; leave trials out`},
	"grid of intervals": {"axes: [{param: optim.lr, log_range: {from: 1e-4, to: 1}}]\n",
		`s.yaml:1:8: optim.lr: a grid needs a step (range) or a count (log_range); or choose method random, tpe or ` +
			`asha`},
	"rungs descend": {"method: asha\ntrials: 3\nasha: {rungs: [3, 1]}\naxes: [{param: train.batch, values: " +
		"[16]}]\n", `s.yaml:3:1: asha.rungs: expected ascending epochs, found 1 after 3`},
	"rungs missing": {"method: asha\ntrials: 3\naxes: [{param: train.batch, values: [16]}]\n",
		`s.yaml:1:1: asha.rungs: expected for method asha only, such as [1, 3, 9] epochs, found method asha with 0 ` +
			`rungs`},
	"when unknown": {"axes: [{param: train.batch, values: [16], when: {loss.name: lseh}}]\n",
		`s.yaml:1:50: axes[0].when: loss.name is not an earlier axis; earlier axes are none`},
	"when never": {"axes: [{param: loss.name, choices: [lmh]}, {param: train.batch, values: [16], when: " +
		"{loss.name: lseh}}]\n", `s.yaml:1:97: axes[1].when: loss.name is never lseh; it has lmh`},
	"name without use": {"axes: [{name: x, choices: [a, b]}]\n",
		`s.yaml:1:8: x: changes nothing: base has no {x}, and no choice sets anything`},
	"seed twice": {"seeds: [7, 7]\n", `s.yaml:1:12: seeds[1]: seed 7 is there already`},
	"seed axis": {"axes: [{param: seed, values: [7, 8]}]\n",
		`s.yaml:1:9: axes[0]: seeds belong to seeds: [7, 8], not to an axis`},
	"launcher": {"seeds: [7, 8]\nlauncher: {kind: slrum}\n",
		`s.yaml:2:18: launcher.kind: expected one of local, slurm, kubernetes, found "slrum"; did you mean slurm?`},
	"slurm time": {"seeds: [7, 8]\nlauncher: {slurm: {time: tomorrow}}\n",
		`s.yaml:2:26: launcher.slurm.time: expected minutes, hours:minutes:seconds or days-hours:minutes:seconds, ` +
			`found "tomorrow"`},
	"a line too many": {"seeds: [7, 8]\nlauncher: {slurm: {setup: [\"a\\u000ab\"]}}\n",
		`s.yaml:2:28: launcher.slurm.setup[0]: expected one line, found "a\nb"`},
	"more GPUs than there are": {"seeds: [7, 8]\nlauncher: {gpus: [0, 1], gpus_per_trial: 3}\n",
		`s.yaml:2:11: launcher.gpus_per_trial: expected at most 2, the number of gpus, found 3`},
	"GPUs that are left over": {"seeds: [7, 8]\nlauncher: {gpus: [0, 1, 2], gpus_per_trial: 2}\n",
		`s.yaml:2:11: launcher.gpus_per_trial: expected a number that divides the 3 GPUs of gpus, found 2`},
	"no GPUs": {"seeds: [7, 8]\nlauncher: {gpus_per_trial: 2}\n",
		`s.yaml:2:11: launcher.gpus_per_trial: needs the numbers of the GPUs that trials share out: gpus: ` +
			`[0, 1, 2, 3]`},
	"GPUs of a task": {"seeds: [7, 8]\nlauncher: {kind: slurm, gpus_per_trial: 2, slurm: {gpus: \"a100:4\"}}\n",
		`s.yaml:2:11: launcher.gpus_per_trial: 2, but slurm.gpus, what a task has, is a100:4; expected the ` +
			`same number`},
	"GPUs and processes": {"seeds: [7, 8]\nlauncher: {gpus: [0, 1], gpus_per_trial: 2, procs_per_trial: 2}\n",
		`s.yaml:2:11: launcher.gpus_per_trial: cannot be used with procs_per_trial, which is for processors; ` +
			`leave one out`},
	"alias": {"seeds: &s [7, 8]\naxes: *s\n",
		`s.yaml:2:7: axes: aliases (*s) are not read; write the value out`},
	"not a mapping": {"[1]\n", `s.yaml:1:1: expected keys such as model: and loss:, found [1]`},
	"two mistakes": {"metric: recall\naxes: [{param: optim.lrr, values: [1]}]\n",
		`s.yaml:1:9: metric: expected one of m_recall, rsum, i2t_r1, t2i_r1, found "recall"; did you mean m_recall?
s.yaml:2:16: optim.lrr: unknown key; did you mean optim.lr?`},
}

func TestBadSweeps(t *testing.T) {
	for name, c := range bad {
		t.Run(name, func(t *testing.T) {
			d, err := load(t, c.text)
			if err == nil {
				t.Fatalf("accepted: %+v", d)
			}
			var got []string
			for line := range strings.Lines(err.Error()) {
				got = append(got, line[strings.Index(line, "s.yaml"):])
			}
			if strings.Join(got, "") != c.want {
				t.Errorf("\n got %s\nwant %s", strings.Join(got, ""), c.want)
			}
		})
	}
}

// What fails only together is found when the trials are made, with the trial.
func TestBadTrials(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"axes: [{param: optim.name, choices: [adam, adamw]}, {param: optim.weight_decay, values: [0, 0.01]}]\n",
			"s.yaml:1:93: optim.weight_decay: expected 0 for optimiser adam, found 0.01; set optim.name to adamw; in " +
				"the trial optim.name=adam optim.weight_decay=0.01"},
		{"base: \"{net}.yaml\"\naxes: [{name: net, choices: [nowhere]}]\n", "nowhere.yaml; in the trial net=nowhere"},
		{"axes: [{param: train.batch, values: [16, 2]}]\nlauncher: {procs_per_trial: 4}\n",
			"s.yaml:2:11: launcher: a trial has 4 ranks, but train.batch is 2: each rank needs at least one caption; " +
				"in the trial train.batch=2"},
		{"base: \"{net}.yaml\"\nseeds: [1, 2]\n",
			"no axis has the name of the placeholder in {net}.yaml; in the trial " +
				"(base)"},
		{"method: asha\ntrials: 2\nasha: {rungs: [1, 2]}\naxes: [{param: train.epochs, values: [1, 2]}]\n",
			"s.yaml:4:8: train.epochs: asha trains to the epochs of its rungs; leave this axis out"},
		{"method: tpe\ntrials: 30\ntpe: {startup: 1}\naxes: [{param: optim.name, choices: [adamw, adam]}, {param: " +
			"optim.weight_decay, values: [0.01, 0.02]}]\n",
			"expected 0 for optimiser adam"},
	} {
		try.Refuses(NewPlan(try.Get(load(t, c.text))(t)))(t, c.want)
	}
}

// A sweep is a separate file: a preset is told from one, and both from what is not there.
func TestLoadWithoutAFile(t *testing.T) {
	for name, want := range map[string]string{
		"vsepp/f8k-lseh": "vsepp/f8k-lseh: no such sweep file; it is a preset of one run: 'vsetrain train --config " +
			"vsepp/f8k-lseh' trains it, and " +
			"a sweep names it with base:",
		"none.yaml": "none.yaml: no such sweep file; a sweep is a YAML file with axes (docs/sweeps.md), or one of " +
			"the program: ablate-vseinf, claim-vseinf, claim-vsepp, demo, high-rate, " +
			"leaderboard-noise, leaderboard-sgr, leaderboard-vseinf, leaderboard-vsepp, paper, rate-vseinf",
	} {
		if _, err := Load(name); err == nil || err.Error() != want {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
}
