package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vsetrain/lab/try"
	"vsetrain/loss"
	"vsetrain/models"
)

// networkNames and lossNames are what messages say of the keys whose values the files of networks and losses add.
var (
	networkNames = "one of " + strings.Join(models.Having(func(models.Traits) bool { return true }), ", ")
	lossNames    = "one of " + strings.Join(loss.Names(), ", ")
)

// What the program has today is among them.
func TestNamesOfNetworksAndLosses(t *testing.T) {
	for list, first := range map[string]string{networkNames: "one of vsepp, vsrn, saf, sgr, vseinf, gsmn, scan, chan",
		lossNames: "one of lsh, lmh, luwm, lseh"} {
		if !strings.HasPrefix(list, first) {
			t.Errorf("%s, expected it to begin with %s", list, first)
		}
	}
}

// One file per mistake, with its whole message after "testdata/bad/".
var badFiles = map[string]string{
	"alias": `alias.yaml:1:39: loss.lseh.lambda: aliases (*m) are not read; write the value out`,
	"captions_per_image": `captions_per_image.yaml:1:28: data.captions_per_image: expected auto, a whole number ` +
		`>= 1, or one for each split such as train=20,test=1, found 0`,
	"duplicate_key":     `duplicate_key.yaml:4:3: train.batch: duplicate key; already set in line 2`,
	"duplicate_section": `duplicate_section.yaml:2:1: loss: duplicate key; already set in line 1`,
	"enum": `enum.yaml:1:18: model.network: expected ` + networkNames + `, found "vsep"; did you ` +
		`mean vsepp?`,
	"enum_case": `enum_case.yaml:1:14: loss.name: expected ` + lossNames + `, found "LSEH"; did you ` +
		`mean lseh?`,
	"extends_bad_base": `range_low.yaml:1:13: optim.lr: expected a number in (0, 10], found 0`,
	"extends_cycle": `extends_cycle2.yaml:1:10: extends: goes round in a circle: extends_cycle.yaml extends ` +
		`extends_cycle2.yaml extends extends_cycle.yaml`,
	"extends_cycle2": `extends_cycle.yaml:1:10: extends: goes round in a circle: extends_cycle2.yaml extends ` +
		`extends_cycle.yaml extends extends_cycle2.yaml`,
	"extends_missing": `extends_missing.yaml:1:10: extends: no such file: nowhere.yaml`,
	"extends_type":    `extends_type.yaml:1:11: extends: expected a file, a preset or a list of them, found 3`,
	"flat_key":        `flat_key.yaml:1:1: optim.lr: unknown key; write optim: {lr: ...}`,
	"list_item":       `list_item.yaml:1:16: optim.betas: expected a list of 2 numbers in [0, 1), found [0.9, 1.0]`,
	"list_length":     `list_length.yaml:1:16: optim.betas: expected a list of 2 numbers in [0, 1), found [0.9]`,
	"luwm_warmup": `luwm_warmup.yaml:1:35: loss.warmup_epochs: expected 0 for loss luwm, found 1; luwm has no ` +
		`sum of violations to warm up with`,
	"merge_key": `merge_key.yaml:3:3: optim: merge keys (<<) are not read; use extends at the top of the file`,
	"micro_batch": `micro_batch.yaml:2:22: train.micro_batch: expected 0 for network saf, found 16; it scores ` +
		`pairs, so the gradient of an image needs all captions of the batch at once; processes can divide the batch ` +
		`(train --procs)`,
	"negative_seed": `negative_seed.yaml:1:7: seed: expected a whole number >= 0, found -1`,
	"not_a_mapping": `not_a_mapping.yaml:1:1: expected keys such as model: and loss:, found ["seed", 7]`,
	"not_finite":    `not_finite.yaml:1:16: loss.margin: expected a number in [0, 100], found .nan`,
	"null_section": `null_section.yaml:1:7: train: expected a section with keys, found nothing; leave the key ` +
		`out to keep its default`,
	"null_value": `null_value.yaml:2:9: train.batch: expected a whole number in [2, 65536], found nothing; ` +
		`leave the key out to keep its default`,
	"other_section": `other_section.yaml:2:3: train.lr: unknown key; did you mean optim.lr?`,
	"range_high":    `range_high.yaml:1:16: optim.decay: expected a number in (0, 1], found 1.5`,
	"range_low":     `range_low.yaml:1:13: optim.lr: expected a number in (0, 10], found 0`,
	"reduce_fp64": `reduce_fp64.yaml:2:23: optim.reduce_dtype: expected fp32 with device.precision fp64, found bf16; ` +
		`fp64 is for checking, which sums in bf16 would spoil`,
	"second_update": `second_update.yaml:1:36: optim.lr_update2: expected 0, or with schedule once an epoch ` +
		`after lr_update, found 20`,
	"second_update_equal": `second_update_equal.yaml:1:52: optim.lr_update2: expected 0, or with schedule ` +
		`once an epoch after lr_update, found 15`,
	"tab": "tab.yaml:2: not valid YAML: found character that cannot start any token; indent with " +
		"spaces, not tabs, and quote strings that begin with @, ` or %",
	"text_encoder": `text_encoder.yaml:3:17: model.text_encoder: expected bigru for network saf, found "gru"`,
	"text_encoder_default": `text_encoder_default.yaml: model.text_encoder: expected bigru for network saf, found ` +
		`"gru" (the default)`,
	"tf32_on_cpu": `tf32_on_cpu.yaml:1:32: device.precision: expected fp32, bf16 or fp64 on the cpu, found ` +
		`"tf32"; tf32 exists on NVIDIA GPUs only`,
	"two_documents": `two_documents.yaml:2:1: expected one document, found a second one after ---`,
	"two_mistakes": `two_mistakes.yaml:1:8: loss.margn: unknown key; did you mean margin?
two_mistakes.yaml:2:13: optim.lr: expected a number in (0, 10], found -1`,
	"unclosed":        `unclosed.yaml:1: not valid YAML: did not find expected ',' or '}'`,
	"unknown_far":     `unknown_far.yaml:1:9: train.learning_schedule: unknown key; did you mean optim.schedule?`,
	"unknown_key":     `unknown_key.yaml:4:3: optim.lrr: unknown key; did you mean lr?`,
	"unknown_section": `unknown_section.yaml:2:1: modle: unknown key; did you mean model?`,
	"version": `version.yaml:1:10: version: expected 1, found 2; this vsetrain reads configurations of ` +
		`version 1`,
	"weight_decay": `weight_decay.yaml:1:35: optim.weight_decay: expected 0 for optimiser adam, found 0.0001; ` +
		`set optim.name to adamw`,
	"wrong_type_bool":    `wrong_type_bool.yaml:1:18: train.shuffle: expected true or false, found "yes"`,
	"wrong_type_int":     `wrong_type_int.yaml:1:17: train.epochs: expected a whole number in [1, 1000000], found 2.5`,
	"wrong_type_leaf":    `wrong_type_leaf.yaml:2:7: optim.lr: expected a number in (0, 10], found a section`,
	"wrong_type_number":  `wrong_type_number.yaml:1:13: optim.lr: expected a number in (0, 10], found "fast"`,
	"wrong_type_section": `wrong_type_section.yaml:1:8: model: expected a section with keys, found "vsepp"`,
	"wrong_type_string":  `wrong_type_string.yaml:1:13: data.dir: expected a string, found 2017; put it in quotes`,
}

func TestBadFiles(t *testing.T) {
	entries := try.Get(os.ReadDir("testdata/bad"))(t)
	for _, e := range entries {
		t.Run(e.Name(), func(t *testing.T) {
			_, err := Load(Request{File: filepath.Join("testdata/bad", e.Name())})
			if err == nil {
				t.Fatal("accepted")
			}
			got := strings.ReplaceAll(err.Error(), "testdata/bad/", "")
			if want, ok := badFiles[strings.TrimSuffix(e.Name(), ".yaml")]; !ok || got != want {
				t.Errorf("\n got %s\nwant %s", got, want)
			}
		})
	}
	if len(entries) != len(badFiles) {
		t.Errorf("%d files, %d messages", len(entries), len(badFiles))
	}
}
