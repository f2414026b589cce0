package main

import (
	"bytes"
	"strings"
	"testing"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/run/config"
	"vsetrain/internal/run/training"
	"vsetrain/train"
)

// What a run says first: one of a thing is singular, and a run that was never validated has no best.
func TestStartedLines(t *testing.T) {
	for _, c := range []struct {
		resumed train.Position
		want    string
	}{
		{train.Position{Step: 3}, "resumed after step 3 (1.50 of 1 epoch done), no validation yet\n"},
		{train.Position{Step: 3, Best: 12.5, BestStep: 2},
			"resumed after step 3 (1.50 of 1 epoch done), best M-Recall so far 12.50\n"},
	} {
		var out, errs bytes.Buffer
		cfg := config.Default()
		v := &trainView{app: newApp(&out, &errs), cfg: &cfg}
		v.Started(training.Plan{TrainCaptions: 200, TrainImages: 1, DevImages: 1, Batches: 2, Pairs: 128, Epochs: 1,
			Resume: true, Resumed: c.resumed})
		v.close()
		want := "200 captions of 1 image, 1 validation image, 2 batches of 128 an epoch, 1 epoch\n"
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q does not say %q", &out, want)
		}
		if !strings.Contains(out.String(), c.want) {
			t.Errorf("%q does not say %q", &out, c.want)
		}
	}
}

// The progress bar has what the GPU tells.
func TestGPUUsage(t *testing.T) {
	for _, c := range []struct {
		u    *device.Usage
		want string
	}{
		{nil, ""},
		{&device.Usage{Used: 15e8, Total: 80e9, Busy: 93}, "  GPU 93 % 1.5 of 80.0 GB"},
		{&device.Usage{Used: 15e8, Total: 80e9, Busy: -1}, "  GPU 1.5 of 80.0 GB"},
	} {
		if got := gpuUsage(c.u); got != c.want {
			t.Errorf("%+v: %q, want %q", c.u, got, c.want)
		}
	}
}
