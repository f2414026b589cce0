package view

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/files/runfs"
	"vsetrain/internal/run/config"
	"vsetrain/internal/run/evaluate"
	"vsetrain/internal/run/records"
	"vsetrain/lab/try"
)

// The time left follows the pace of the session that trains now, not the hours in which nothing ran.
func TestTimeLeft(t *testing.T) {
	at := func(minute int) time.Time { return time.Date(2026, 1, 1, 12, minute, 0, 0, time.UTC) }
	c := tiny()
	c.Train.Epochs, c.Train.EarlyStop = 10, 3
	r := &Run{State: Running, Config: c, Owner: runfs.Owner{Since: at(20)}}
	step := func(minute int, epoch float64) {
		r.Steps = append(r.Steps, records.StepRecord{Time: at(minute), Epoch: epoch})
	}
	step(0, 1)
	step(21, 2)
	if got := timingOf(r, nil); got.Left != "" {
		t.Errorf("one step of the session: %q", got.Left)
	}
	step(23, 4)
	sessions := []runfs.Env{{Started: at(0)}, {Started: at(20)}}
	got := timingOf(r, sessions)
	if got.Left != "6 min 00 s" || !got.Early || !got.Started.Equal(at(0)) || !got.Session.Equal(at(20)) {
		t.Errorf("%+v", got)
	}
	c.Train.MaxSteps = 1000
	r.State = Interrupted
	if got := timingOf(r, sessions); got.Left != "" || !got.Started.Equal(at(0)) {
		t.Errorf("%+v", got)
	}
	for d, want := range map[time.Duration]string{30 * time.Second: "30 s", 90 * time.Minute: "1 h 30 min",
		72 * time.Hour: "3 d 0 h"} {
		if got := span(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}

// Options that are not the default are apart from those that are, and from settings of other networks and losses.
func TestSettingGroups(t *testing.T) {
	c := tiny()
	c.Model.Network, c.Loss.Name = "saf", "lseh"
	groups := settings(c)
	in := map[string]string{}
	for _, g := range groups {
		for _, s := range g.List {
			in[s.Key] += g.ID
		}
	}
	for key, group := range map[string]string{"model.network": "settings", "data.dir": "settings",
		"model.sgraf.steps": "settings-default", "loss.lseh.lambda": "settings-default",
		"model.vsrn.mode": "settings-other", "model.bert.dir": "settings-other",
		"loss.luwm.positive": "settings-other"} {
		if in[key] != group {
			t.Errorf("%s is in %q, want %q", key, in[key], group)
		}
	}
	standard := config.Default()
	if len(in) != len(config.Values(&standard)) {
		t.Errorf("%d settings", len(in))
	}
	s := open(t, Options{Dir: runs})
	s.has("/run?id=one", "of other networks and losses, not used by this run", "<dt>Seed</dt><dd>7</dd>")
}

// Settings that differ stand below their runs, also beside runs whose configuration cannot be read.
func TestDifferencesBesideUnreadable(t *testing.T) {
	random := rand.New(rand.NewPCG(2, 6))
	for range 100 {
		var runs []*Run
		var want []string
		rates := map[string]bool{}
		for range 2 + random.IntN(4) {
			r := &Run{}
			text := ""
			if random.IntN(3) > 0 {
				r.Config = tiny()
				r.Config.Optim.LR = []float64{0.5, 0.25}[random.IntN(2)]
				text = fmt.Sprint(r.Config.Optim.LR)
				rates[text] = true
			}
			runs, want = append(runs, r), append(want, text)
		}
		got := differencesOf(runs)
		if len(rates) < 2 && len(got) == 0 {
			continue
		}
		if len(got) != 1 || got[0].Key != "optim.lr" || !slices.Equal(got[0].Values, want) {
			t.Fatalf("%+v, want %q", got, want)
		}
	}
}

// Warm-ups that are over have a line where they end.
func TestWarmupMarks(t *testing.T) {
	c := tiny()
	c.Loss.WarmupEpochs, c.Optim.WarmupSteps = 1, 4
	r := &Run{Config: c}
	for i := range 16 {
		r.Steps = append(r.Steps, records.StepRecord{Step: int64(i + 1), Epoch: float64(i+1) / 8, Loss: 1,
			GradNorm: 1, LearningRate: 1})
	}
	got := map[string][]mark{}
	for _, p := range runPlots(r, 0) {
		got[p.ID] = p.Marks
	}
	if m := got["loss"]; len(m) != 1 || m[0].X != 1 || !strings.Contains(m[0].Name, "end of loss warm-up") {
		t.Errorf("loss: %+v", m)
	}
	if m := got["lr"]; len(m) != 1 || m[0].X != 0.5 || !strings.Contains(m[0].Name, "end of learning rate warm-up") {
		t.Errorf("learning rate: %+v", m)
	}
	r.Steps = r.Steps[:3]
	for _, p := range runPlots(r, 0) {
		if len(p.Marks) > 0 {
			t.Errorf("%s: %+v before any warm-up is over", p.ID, p.Marks)
		}
	}
}

// The ranks that a browser downloads are those that eval writes.
func TestRanksFile(t *testing.T) {
	s := open(t, Options{Dir: runs})
	path := "/ranks.csv?r=sub%2Ftwo"
	s.status(path, 400, "not ranked yet")
	s.load(networkKey{"sub/two", "best", "test"})
	r, got := s.ask("GET", path, nil)
	if d := r.Header.Get("Content-Disposition"); d != `attachment; filename="sub-two-best-test-ranks.csv"` {
		t.Errorf("%s: %s", r.Status, d)
	}
	file := filepath.Join(t.TempDir(), "ranks.csv")
	q := evaluate.Request{Checkpoints: []string{filepath.Join(runs, "sub/two")}, Split: "test", Batch: 16,
		Device: device.DefaultOptions(), SaveRanks: file}
	q.Device.Threads = 1
	try.Get(evaluate.Run(t.Context(), q))(t)
	if want, err := os.ReadFile(file); err != nil || got != string(want) {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
	s.has("/queries?r=sub%2Ftwo", `href="/ranks.csv?ck=best&amp;r=sub%2Ftwo&amp;split=test" download`)
}

// What the GPU told with the last step is on the page of its run, as far as it told it.
func TestGPUOnTheRunPage(t *testing.T) {
	root := t.TempDir()
	step := `{"kind":"train","step":1,"epoch":1,"loss":1,"lr":1,"grad_norm":1,"step_ms":1,"captions_per_s":9`
	told := `,"gpu_memory_mb":2000,"gpu_memory_total_mb":143771,"gpu_busy":87,"gpu_watts":312,"gpu_celsius":41}`
	fakeRun(t, filepath.Join(root, "whole"), tiny(), step+told+"\n")
	fakeRun(t, filepath.Join(root, "part"), tiny(), step+`,"gpu_memory_mb":700,"gpu_memory_total_mb":9000}`+"\n")
	s := open(t, Options{Dir: root})
	s.has("/run?id=whole", "<dt>GPU memory</dt><dd>2000 of 143771 MB</dd>",
		"<dt>GPU in use</dt><dd>87 %, 312 W, 41 °C</dd>")
	s.has("/run?id=part", "<dt>GPU memory</dt><dd>700 of 9000 MB</dd>")
	s.has("/run?id=part", "!GPU in use")
}

// The words of a caption are drawn over the picture, with the weights that the network computes; networks without such
// weights have no links to them.
func TestAttentionPage(t *testing.T) {
	root := t.TempDir()
	c := tiny()
	c.Model.Network, c.Model.TextEncoder, c.Train.MaxSteps = "saf", "bigru", 2
	try.Do(t, trainTo(t.Context(), c, filepath.Join(root, "saf"), nil))
	s := open(t, Options{Dir: root})
	key := networkKey{"saf", "last", "test"}
	s.loadOnly(key)
	s.has("/image?r=saf&ck=last&split=test&i=2", `href="/attention?c=11&amp;ck=last&amp;i=2&amp;r=saf&amp;split=test"`)
	text := s.has("/attention?r=saf&ck=last&split=test&i=2&c=11", "The weights of a word sum to 1",
		`<image href="/picture?ck=last&amp;i=2`, `fill="rgb(0,0,0)"/></mask>`, `class="marker third"`,
		": the largest weights are 0.", "Weights of all regions")
	s.contains("words of the caption over boxes", text, "!cells of a grid", "!start&gt;")
	a := try.Get(s.server.networks.all[key].index.Attention(t.Context(), 2, 11))(t)
	if n := strings.Count(text, "<figure>"); n != len(a.Words)-2 || n < 2 || strings.Count(text, `"casing"`) != 3*n ||
		strings.Contains(text, `class="edge"`) {
		t.Errorf("%d figures of %d words", n, len(a.Words))
	}
	for _, bad := range []string{"i=99&c=11", "i=2&c=-1", "i=2"} {
		s.status("/attention?r=saf&ck=last&split=test&"+bad, 400)
	}
	plain := open(t, Options{Dir: runs})
	plain.load(networkKey{"one", "best", "test"})
	plain.has("/image?r=one&i=2", "!/attention")
	plain.status("/attention?r=one&i=2&c=11", 400, "do not attend to regions")
}

// A second run answers the same beside the first: each says where the other has an image. It is opened by a button,
// which comes back to the page.
func TestTwoRunsSideBySide(t *testing.T) {
	s := open(t, Options{Dir: runs})
	s.load(networkKey{"one", "best", "test"})
	path := "/search?r=one&c=11&b=sub%2Ftwo"
	s.has(path, "<h2>one</h2>", "<h2>sub/two</h2>", "Its test split must be encoded first",
		`name="back" value="/search?r=one&amp;c=11&amp;b=sub%2Ftwo"`)
	r, _ := s.ask("POST", "/load", url.Values{"r": {"sub/two"}, "back": {path}})
	if got := r.Header.Get("Location"); got != path {
		t.Errorf("back to %q", got)
	}
	if r, _ := s.ask("POST", "/load", url.Values{"r": {"sub/two"}, "back": {"https://elsewhere/x"}}); r.Header.Get(
		"Location") != "/x" {
		t.Errorf("back to %q", r.Header.Get("Location"))
	}
	s.load(networkKey{"sub/two", "best", "test"})
	text := s.has(path, "the image of this caption has rank", `<option value="sub/two" selected>`)
	if n := strings.Count(text, `<figure class="card`); n != 16 {
		t.Errorf("%d cards, want 8 of each run", n)
	}
	there := strings.Count(text, `<span class="note">other run: `)
	if there != 16 { // all 8 images are among the results of both
		t.Errorf("%d cards tell of the other run", there)
	}
	s.has("/search?r=one&q=a+photo&b=sub%2Ftwo", `<span class="note">other run: `)
	s.has("/search?r=one&q=a+photo", "!other run: ")
	s.status("/search?r=one&c=1&b=gone", http.StatusNotFound)
}
