package view

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"vsetrain/internal/apps/report"
	"vsetrain/internal/apps/search"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/files/runfs"
	"vsetrain/internal/run/evaluate"
	"vsetrain/internal/run/records"
	"vsetrain/lab/try"
)

// The table of runs says what the files say; filter and order are links and forms.
func TestRunsPage(t *testing.T) {
	s := open(t, Options{Dir: runs})
	one := try.Get(report.Open(filepath.Join(runs, "one")))(t)
	best, _ := one.Log.Best()
	s.has("/", `>one</a>`, `>sub/two</a>`, "2 runs", "2 finished", fmt.Sprintf("<b>%.2f</b>", best.MRecall),
		`<polyline class="curve s0"`,
		`aria-label="Select sub/two"`, `<title>Runs · vsetrain</title>`)
	first := func(path string) string {
		return regexp.MustCompile(`data-row href="[^"]*">([^<]*)<`).FindStringSubmatch(s.get(path))[1]
	}
	if a, b := first("/?sort=name"), first("/?sort=name&desc=1"); a != "one" || b != "sub/two" {
		t.Errorf("sorted by name: %s first, and from the end %s", a, b)
	}
	s.has("/?sort=name", `aria-sort="ascending"`)
	s.has("/?q=two+VSEPP", "!>one</a>", ">sub/two</a>")
	s.has("/?q=nothing", "No run matches “nothing”")
}

func TestRunPage(t *testing.T) {
	s := open(t, Options{Dir: runs})
	text := s.has("/run?id=sub%2Ftwo", "<h1>sub/two</h1>", "M-Recall on the validation split", "Learning rate",
		"Gradient norm", "Loss per pair", `role="img"`,
		"<desc", "optim.lr", "vsetrain train", "All 4 validations", `<dd id="step">16</dd>`)
	if n := strings.Count(text, `<svg viewBox="0 0 600 284"`); n != 7 {
		t.Errorf("%d plots, want 7", n)
	}
	s.status("/run?id=three", http.StatusNotFound)
	alone := open(t, Options{Dir: filepath.Join(runs, "one")}) // one run is a folder of runs, too
	alone.has("/run?id=.", "<h1>one</h1>")
}

// The comparison has the numbers of the report, in the order of the request.
func TestComparePage(t *testing.T) {
	root := t.TempDir()
	slow, fast, other := tiny(), tiny(), tiny()
	fast.Optim.LR, other.Data.Dir = 0.01, "elsewhere"
	fakeRun(t, filepath.Join(root, "slow"), slow, line2(10, 1, 30, true)+line2(20, 2, 40, true)+line2(40, 4, 50, true))
	fakeRun(t, filepath.Join(root, "fast"), fast, line2(10, 1, 50, true)+line2(20, 2, 51, true))
	fakeRun(t, filepath.Join(root, "other"), other, line2(10, 1, 90, true))
	fakeRun(t, filepath.Join(root, "flat"), slow,
		strings.Repeat(`{"kind":"train","step":400,"epoch":3.9,"loss":6,"collapsed":400}`+"\n", 2)+
			line2(401, 4, 5, true))
	s := open(t, Options{Dir: root})
	s.has("/compare?r=flat&r=fast", "base collapsed", "!passes")
	s.has("/compare?r=slow&r=fast", "!different data", `!<div class="scroll">`, `aria-label="remove fast">remove`,
		"2.0</td><td class=\"num\">\u22122.0 <span class=\"note wide\">(\u221250.0 %)",
		"<code>optim.lr</code></th><td><code>0.0002</code></td><td><code>0.01</code>",
		"fast: passes the best of slow", "slow: best")
	s.has("/compare?r=slow&r=fast&eq=1", "1.0</td><td class=\"num\">\u22123.0")
	s.has("/compare?r=fast&r=slow", "not reached")
	s.has("/compare?r=slow&r=other", "were trained on different data", "other data")
	s.has("/compare", "Select runs in the table of")
	s.status("/compare?r=slow&r=gone", http.StatusNotFound)
	many := "/compare?r=slow"
	for i := range maxCompared {
		fakeRun(t, filepath.Join(root, fmt.Sprint("n", i)), slow, "")
		many += fmt.Sprint("&r=n", i)
	}
	s.server.store.at = time.Time{}
	s.status(many, http.StatusBadRequest, "more than 16 runs")
}

// False negatives and averaged weights have their curves.
func TestRunPlots(t *testing.T) {
	share, all := 30.0, 10.0
	r := &Run{}
	for i := range 4 {
		r.Steps = append(r.Steps, records.StepRecord{Epoch: float64(i), HardFalse: &share, AllFalse: &all})
		r.Validations = append(r.Validations, records.ValidationRecord{Epoch: float64(i),
			Measured: records.Measured{MRecall: 20}, Average: &records.Measured{MRecall: 25}})
	}
	found := map[string]string{}
	for _, p := range runPlots(r, 2.5) {
		found[p.ID] = p.Description()
		want := map[string]float64{"m_recall": 2.5}[p.ID]
		if p.Guess != want || want > 0 && p.Up.At(want) > plotBottom {
			t.Errorf("%s: guessing gives %g, at %g", p.ID, p.Guess, p.Up.At(p.Guess))
		}
	}
	for id, want := range map[string]string{"false_negatives": "hard negatives: from 30 to 30",
		"m_recall": "averaged weights: from 25 to 25"} {
		if !strings.Contains(found[id], want) {
			t.Errorf("%s: %q, want %q", id, found[id], want)
		}
	}
}

// The last batch of an epoch, of 12 pairs in place of 64, leaves no dip in what is drawn of a pair, and little in the
// speed; a loss that is a mean is drawn as it is. A run whose configuration cannot be read is drawn all the same.
func TestShortBatch(t *testing.T) {
	values := func(r *Run, id string) string {
		for _, p := range runPlots(r, 2.5) {
			if p.ID == id {
				return fmt.Sprintf("%.4g", p.Curves[0].Y)
			}
		}
		return "none"
	}
	r := &Run{Config: tiny()}
	lines := ""
	for i, pairs := range []float64{64, 12, 64} {
		ms := 10 + pairs // a step has costs that no pair has
		s := records.StepRecord{Kind: "train", Step: int64(i + 1), Epoch: 0.5 * float64(i+1), Loss: 0.5 * pairs,
			GradNorm: 0.25 * pairs, StepMS: ms, CaptionsPerS: 1000 * pairs / ms, HardCaptions: int(pairs / 4)}
		r.Steps = append(r.Steps, s)
		b := try.Get(json.Marshal(s))(t)
		lines += string(b) + "\n"
	}
	for id, want := range map[string]string{"loss": "[0.5 0.5 0.5]", "grad_norm": "[0.25 0.25 0.25]",
		"negatives": "[25 25 25]", "speed": "[864.9 791.7 791.7]"} {
		if got := values(r, id); got != want {
			t.Errorf("%s is drawn as %s, want %s", id, got, want)
		}
	}
	r.Config.Loss.Name = "infonce"
	if got := values(r, "loss"); got != "[32 6 32]" {
		t.Errorf("a mean is drawn as %s", got)
	}
	root := t.TempDir()
	fakeRun(t, filepath.Join(root, "foreign"), tiny(), lines+`{"kind":"val","step":3,"epoch":1.5,"m_recall":30}`+"\n")
	write(t, filepath.Join(root, "foreign", runfs.ConfigName), "loss: {name: nosuchloss}\n")
	fakeRun(t, filepath.Join(root, "own"), tiny(), lines)
	s := open(t, Options{Dir: root})
	s.has("/compare?r=own&r=foreign", "data unknown")
	s.has("/run?id=foreign", "loss.name: expected one of", "Best M-Recall", "M-Recall on the validation split",
		"Speed, last epoch</dt><dd>791.7 captions/s", "!Nothing is logged yet", "!All 1 ")
}

// What report measured on the test split is shown: recalls, judgements and diagnosis of a run, and for two runs the
// differences from the base. Nothing is shown of runs on other data, and weights that have changed are named.
func TestMeasuredRuns(t *testing.T) {
	root := t.TempDir()
	judged := filepath.Join(root, "judged")
	b := try.Get(os.ReadFile(filepath.Join(world, "test_ids.txt")))(t)
	id := strings.Fields(string(b))
	write(t, filepath.Join(judged, "eccv_image_to_caption.json"),
		fmt.Sprintf(`{%q: [%q, %q], %q: [%q]}`, id[1], id[1]+"#0", id[2]+"#1", id[3], id[3]+"#4"))
	write(t, filepath.Join(judged, "eccv_caption_to_image.json"), fmt.Sprintf(`{%q: [%q, %q]}`, id[2]+"#1", id[2],
		id[1]))
	for _, name := range []string{"one", "sub/two"} {
		try.Do(t, os.CopyFS(filepath.Join(root, name), os.DirFS(filepath.Join(runs, name))))
	}
	try.Do(t, os.CopyFS(filepath.Join(root, "copy"), os.DirFS(filepath.Join(runs, "one"))))
	s := open(t, Options{Dir: root})
	s.has("/run?id=one", "Not measured yet")
	s.has("/compare?r=one&r=sub%2Ftwo", "!Test split")
	measure := func(name string, judgements ...string) {
		t.Helper()
		r := try.Get(report.Open(filepath.Join(root, name)))(t)
		q := evaluate.Request{Batch: 16, Device: device.DefaultOptions(), Diagnose: len(judgements) > 0,
			Judgements: judgements}
		q.Device.Threads = 1
		try.Do(t, r.MeasureTest(t.Context(), q))
	}
	measure("one", judged)
	s.has("/run?id=one", "Recalls on world, test split, protocol whole", "Judgements eccv on world", "mAP@R",
		"2 images with 3 right captions", "Diagnosis of these recalls", "Hubs on world",
		"Errors that judgements call right")
	s.has("/compare?r=one&r=sub%2Ftwo", "!Differences from")
	measure("sub/two")
	s.has("/compare?r=one&r=sub%2Ftwo", "Differences from one, test split, protocol whole",
		"paired bootstrap over 8 images", "Judgements eccv")
	s.has("/compare?r=sub%2Ftwo&r=one", "Differences from sub/two")
	measure("copy")
	if text := s.has("/compare?r=one&r=copy", "copy is left out: it has the setting and the seed, "); strings.Contains(
		text, "± 0.0") {
		t.Error("a copy counts as a seed")
	}
	measure("one") // asks for less, and loses nothing
	s.has("/run?id=one", "Judgements eccv on world", "Hubs on world")
	later := time.Now().Add(time.Hour)
	try.Do(t, os.Chtimes(filepath.Join(root, "one/checkpoints/best.safetensors"), later, later))
	s.has("/run?id=one", "one was measured with earlier weights")
	measure("one") // again, by the same judgements
	s.has("/run?id=one", "Judgements eccv on world", "!earlier weights")
	write(t, filepath.Join(root, "one", report.TestName), "{")
	s.has("/run?id=one", "Not measured yet")
}

// Runs in a folder named trials are a sweep; its table has the settings that differ.
func TestSweepPage(t *testing.T) {
	root := t.TempDir()
	for i, lr := range []float64{0.001, 0.002, 0.004} {
		c := tiny()
		c.Optim.LR = lr
		fakeRun(t, filepath.Join(root, "lr/trials", fmt.Sprint("t", i)), c, line2(16, 2, float64(10*(i+1)), true))
	}
	write(t, filepath.Join(root, "lr/trials/t0/failed.json"), `{"error":"loss is NaN","exit":1}`)
	c := tiny()
	c.Train.Epochs = 9 // successive halving: the first rung is two epochs
	fakeRun(t, filepath.Join(root, "lr/trials/t1"), c, line2(16, 2, 20, true))
	write(t, filepath.Join(root, "lr/trials/t1/target"), "2\n")
	try.Do(t, os.Mkdir(filepath.Join(root, "lr/trials/t7"), 0o777))
	write(t, filepath.Join(root, "lr/trials/t8/failed.json"), "{")
	s := open(t, Options{Dir: root})
	s.has("/", "3 runs · 1 failed · 1 finished · 1 paused") // as the page of the sweep
	s.has("/sweep", "1 more trial has no run yet", "<li>t8: failed</li>",
		"paused</span> <span class=\"note wide\">after "+
			"2 epochs", `failed</span> <span class="note bad">loss is NaN`)
	s.has("/sweep", "Sweep lr", "3 trials", "<code>optim.lr</code>", "<code>0.004</code>",
		"Best M-Recall <b>30.00</b>", ">t2</a>", "!loss.name")
	s.has("/", `<a href="/sweep?id=lr">lr</a>`)
	whole := open(t, Options{Dir: filepath.Join(root, "lr")})
	whole.has("/sweep", "3 trials")
	open(t, Options{Dir: runs}).has("/sweep", "No sweep below this folder")
}

// Trials that are equally good are all named, equal curves are one with one name, and a setting that changed nothing is
// named.
func TestSweepTies(t *testing.T) {
	root := t.TempDir()
	for i, batch := range []int{2, 3} {
		for k, margin := range []float64{0.1, 0.2, 0.3} {
			c := tiny()
			c.Train.Batch, c.Loss.Margin = batch, margin
			fakeRun(t, filepath.Join(root, "lr/trials", fmt.Sprintf("t%d%d", i, k)), c,
				line2(16, 2, float64(10+i), true))
		}
	}
	s := open(t, Options{Dir: root})
	s.has("/sweep", "Best M-Recall <b>11.00</b>", ">t10</a> and 2 ties: <a",
		">t11</a>, <a", ">t12</a>.", "No effect on M-Recall: <code>loss.margin</code>. Trials that differ in it alone",
		"margin=0.1, batch=3 and 2 equal", `class="curve s1 d1 dot"`, "!<code>train.batch</code>. ",
		`!class="curve s2`)
	s.has("/", "11.00")
}

// The best trials of a sweep have colours and names, rungs are lines, trials below the last one are paused, and the
// figures of collect are shown by their names alone.
func TestSweepRungsAndFigures(t *testing.T) {
	root := t.TempDir()
	sweep := filepath.Join(root, "deep/er")
	for i := range 10 {
		c := tiny()
		c.Optim.LR = float64(i+1) / 1000
		c.Train.Epochs = 1 + i/8
		dir := filepath.Join(sweep, "trials", fmt.Sprint("t", i))
		fakeRun(t, dir, c, line2(8*(1+i/8), float64(1+i/8), float64(10+i), true))
		write(t, filepath.Join(dir, "result-1.json"), "{}")
		if i >= 8 {
			write(t, filepath.Join(dir, "result-2.json"), "{}")
		}
		write(t, filepath.Join(dir, "result-x.json"), "{}")
	}
	s := open(t, Options{Dir: root})
	text := s.has("/sweep", `data-name="lr=0.01"`, `class="curve s0 d0 dot"`, `class="curve s7 d2 dot"`,
		`class="curve trial dot"`, `rung <span class="note">at 1</span>`, `rung <span class="note">at 2</span>`,
		"2 finished · 8 paused", `paused</span></td>`, // the column of rungs says after how many epochs
		"draws which settings matter")
	if strings.Contains(text, "train.epochs") || strings.Count(text, `<line class="curve s`) != 2*8 {
		t.Error("epochs are a setting, or another number of trials than eight has a colour in the legend and the table")
	}
	if best := strings.Index(text, "lr=0.01</li>"); best < 0 || best > strings.Index(text, "lr=0.009</li>") {
		t.Error("the legend does not begin with the best trial")
	}
	write(t, filepath.Join(sweep, "collect/parallel.svg"), "<svg/>")
	write(t, filepath.Join(sweep, "collect/secret.svg"), "<svg/>")
	early := time.Now().Add(-time.Hour)
	s.has("/sweep?id=deep%2Fer",
		`<div class="scroll" tabindex="0" role="group" aria-label="Results and settings of all `+
			`points (parallel coordinates)"><img src="/figure?id=deep%2fer&amp;figure=parallel"`)
	try.Do(t, os.Chtimes(filepath.Join(sweep, "collect/parallel.svg"), early, early))
	s.has("/sweep", "These two figures are out of date")
	r, svg := s.ask("GET", "/figure?id=deep%2Fer&figure=parallel", nil)
	if svg != "<svg/>" || r.Header.Get("Content-Type") != "image/svg+xml" ||
		!strings.Contains(r.Header.Get("Content-Security-Policy"), "sandbox") {
		t.Errorf("%s %q %v", r.Status, svg, r.Header)
	}
	for _, path := range []string{"figure=secret", "figure=importance", "figure=..%2Fcollect%2Fparallel",
		"id=gone&figure=parallel"} {
		s.status("/figure?"+path, http.StatusNotFound)
	}
}

// Trials of sweeps do not flood the table of runs, unless they are asked for or are all there is.
func TestTrialsAreFolded(t *testing.T) {
	root := t.TempDir()
	fakeRun(t, filepath.Join(root, "single"), tiny(), line2(16, 2, 10, true))
	for _, name := range []string{"a", "b"} {
		fakeRun(t, filepath.Join(root, "lr/trials", name), tiny(), line2(16, 2, 20, true))
	}
	s := open(t, Options{Dir: root})
	s.has("/", ">single</a>", "Trials are listed with their sweeps", "1 run and 2 trials of sweeps", "!lr/trials/a",
		"!do not match")
	for _, path := range []string{"/?trials=1", "/?q=lr"} {
		s.has(path, ">lr/trials/a</a>", ">lr/trials/b</a>", "!on the pages of")
	}
	open(t, Options{Dir: filepath.Join(root, "lr")}).has("/", ">trials/a</a>")
}

// The retrieval pages have the answers of search and the ranks of evaluation.
func TestRetrieval(t *testing.T) {
	s := open(t, Options{Dir: runs})
	s.has("/search?r=one", "must be encoded", `action="/load"`)
	key := networkKey{"one", "best", "test"}
	s.load(key)
	x := try.Get(search.Open(search.Options{Checkpoints: []string{filepath.Join(runs, "one")}}))(t)
	defer x.Close()
	caption := x.Caption(11)
	answer := try.Get(x.Text(t.Context(), caption, 3))(t)
	card := func(n int) string {
		return fmt.Sprintf("<b>%d</b> <span class=\"num\" title=\"score\">%s</span>", n+1,
			minus(fmt.Sprintf("%.3f", answer.Hits[n].Score)))
	}
	text := s.has("/search?r=one&q="+url.QueryEscape(caption), "Top 8 of 8 images with rank and score",
		card(0), card(1), card(2),
		`<img src="/picture?ck=best&amp;i=`)
	if a, b := strings.Index(text, x.Image(answer.Hits[0].Index).Captions[0]), strings.Index(text,
		x.Image(answer.Hits[2].Index).Captions[0]); a < 0 || b < a {
		t.Error("the images are not in the order of their scores")
	}
	if r, _ := s.ask("GET", "/search?r=one&part=1", nil); r.Header.Get("X-Live") != "done" {
		t.Error("an open page asks the script to look again")
	}
	s.has("/search?r=one&c=11", "the image of this caption has rank", `<span class="tag">match</span>`)
	s.has("/search?r=one&q=qqqq+zzzz", `role="alert"`)
	s.has("/search?r=one&q=qqqq+"+url.QueryEscape(caption), "Not in the vocabulary: <b>qqqq</b>")

	out := try.Get(x.Outcomes(t.Context()))(t)
	rep := try.Get(evaluate.Run(t.Context(), evaluate.Request{Checkpoints: []string{filepath.Join(runs, "one")},
		Split: "test", Protocol: "whole", Batch: 8, Device: tiny().Device}))(t)
	for dir, want := range map[string]float64{"t2i": rep.Results[0].Metrics.T2I.R1,
		"i2t": rep.Results[0].Metrics.I2T.R1} {
		s.has("/queries?r=one&dir="+dir, fmt.Sprintf("<dt>R@1</dt><dd>%.1f %%</dd>", want), "Queries by the rank")
		s.has("/mistakes?r=one&dir="+dir, "Hardest mistakes")
	}
	worst := 0
	for i, o := range out.Captions {
		if o.Rank > out.Captions[worst].Rank {
			worst = i
		}
	}
	rows := regexp.MustCompile(
		`<th scope="row"><a data-row href="[^"]*">([^<]*)</a></th><td class="num"><b>(\d+)</b>`).FindAllStringSubmatch(
		s.get("/queries?r=one"), -1)
	if len(rows) != 40 || rows[0][2] != fmt.Sprint(out.Captions[worst].Rank+1) {
		t.Errorf("%d queries, the first of rank %s; want 40, rank %d", len(rows), rows[0][2],
			out.Captions[worst].Rank+1)
	}
	first := 0
	for _, o := range out.Captions {
		if o.Rank == 0 {
			first++
		}
	}
	if got := strings.Count(s.get("/queries?r=one&bin=1"), "data-row"); got != first {
		t.Errorf("%d queries of rank 1, want %d", got, first)
	}
	if hard := search.Hardest(out.Captions, 1); len(hard) == 1 {
		s.has("/mistakes?r=one", fmt.Sprintf("match at rank <b>%d</b>, scored %.3f lower", hard[0].Rank+1,
			hard[0].Margin()))
	}
	id := x.Image(2).ID
	s.has("/image?r=one&id="+id, "<h1>Image "+id+"</h1>", "finds this image at rank", `rel="prev"`, `rel="next"`,
		`<span class="tag">match</span>`)
	for path, want := range map[string]int{"/image?r=one&i=8": 400, "/image?r=one&i=-1": 400,
		"/image?r=one&id=nobody": 400, "/search?r=one&c=40": 400, "/search?r=one&ck=other": 400,
		"/search?r=one&q=" + strings.Repeat("a+", 600): 400,
		"/search?r=gone": 404, "/search?r=one&split=dev": 200} {
		s.status(path, want)
	}
}

// A split of images alone is searched; there is nothing to rank.
func TestGallery(t *testing.T) {
	dir := t.TempDir()
	try.Do(t, os.CopyFS(dir, os.DirFS(world)))
	try.Do(t, os.Remove(filepath.Join(dir, "test_caps.txt")))
	s := open(t, Options{Dir: runs, Data: dir})
	key := networkKey{"one", "best", "test"}
	s.loadOnly(key)
	s.has("/search?r=one", "8 images, 0 captions", "!Examples from this split")
	s.has("/search?r=one&q=a+red+cube", "Top 8 of 8 images with rank and score")
	s.has("/image?r=one&i=3", "This split has no captions.", `rel="prev"`, "<img")
	for _, page := range []string{"/queries", "/mistakes"} {
		s.has(page+"?r=one", "nothing to rank", `!action="/rank"`)
	}
	if p, _ := s.server.networks.state(key); p.Ranking || p.Err != "" {
		t.Errorf("%+v", p)
	}
}

// What cannot be opened says why; opened anew it can succeed. Networks beyond the limit are given back.
func TestNetworks(t *testing.T) {
	fail := true
	var opened int
	var closed atomic.Int32
	counted := func(context.Context, search.Options) (searcher, error) {
		if fail {
			return nil, errors.New("weights <b>gone</b>")
		}
		opened++
		return &fake{closed: &closed}, nil
	}
	s := open(t, Options{Dir: runs, open: counted})
	key := networkKey{"one", "best", "test"}
	s.ask("POST", "/load", url.Values{"r": {"one"}})
	s.server.networks.work.Wait()
	s.has("/search?r=one", "weights &lt;b&gt;gone&lt;/b&gt;", "Try again")
	fail = false
	pairs := networkKey{"one", "last", "test"} // a network that scores pairs ranks when it is asked to
	s.server.opt.open = opensFake(&fake{pairs: true})
	s.ask("POST", "/load", url.Values{"r": {"one"}, "ck": {"last"}})
	s.server.networks.work.Wait()
	s.has("/mistakes?r=one&ck=last", "takes minutes to hours. </p>", "Rank every query")
	s.ask("POST", "/rank", url.Values{"r": {"one"}, "ck": {"last"}})
	s.server.networks.work.Wait()
	if p, _ := s.server.networks.state(pairs); !p.Ranked || p.Ranking {
		t.Errorf("after the ranking: %+v", p)
	}
	delete(s.server.networks.all, pairs)
	s.server.opt.open = counted
	s.load(key)
	s.has("/search?r=one", "Examples from this split")
	_, release := s.server.networks.acquire(key)
	for _, split := range []string{"dev", "train", "other"} {
		s.load(networkKey{"one", "best", split})
	}
	time.Sleep(10 * time.Millisecond)
	if closed.Load() != 0 {
		t.Error("a network is closed that a request reads")
	}
	release()
	if s.server.networks.work.Wait(); opened != 4 || closed.Load() != 1 {
		t.Errorf("%d opened, %d closed; want 4 and 1", opened, closed.Load())
	}
	gate := make(chan bool) // of one that is dropped while it is opened
	s.server.opt.open = func(context.Context, search.Options) (searcher, error) {
		<-gate
		return &fake{closed: &closed}, nil
	}
	for _, split := range []string{"a", "b", "c", "d"} {
		s.ask("POST", "/load", url.Values{"r": {"one"}, "split": {split}})
	}
	close(gate)
	if s.server.networks.work.Wait(); closed.Load() != 5 {
		t.Errorf("%d closed, want 5: three others, and the one that was being opened", closed.Load())
	}
	s.server.Close()
	if closed.Load() != 8 {
		t.Errorf("%d closed at the end, want 8", closed.Load())
	}
	for _, form := range []url.Values{{"r": {"gone"}}, {"r": {"one"}, "ck": {"../best"}},
		{"r": {"one"}, "split": {"../test"}}} {
		if r, _ := s.ask("POST", "/load", form); r.StatusCode < 400 {
			t.Errorf("%v: %s", form, r.Status)
		}
	}
}

// A page that has not changed is not sent again, and one that changes is.
func TestLivePart(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "r")
	fakeRun(t, dir, tiny(), line2(10, 1, 30, true))
	s := open(t, Options{Dir: root})
	r, text := s.ask("GET", "/run?id=r&part=1", nil)
	s.contains("the part", text, "!<html", "30.00")
	tag := r.Header.Get("ETag")
	if r, text := s.ask("GET", "/run?id=r&part=1", nil, "If-None-Match", tag); r.StatusCode != http.StatusNotModified ||
		text != "" {
		t.Errorf("unchanged: %s", r.Status)
	}
	write(t, filepath.Join(dir, "metrics.jsonl"), line2(10, 1, 30, true)+line2(20, 2, 35, true))
	s.server.store.at = time.Time{}
	if r, text := s.ask("GET", "/run?id=r&part=1", nil, "If-None-Match", tag); r.StatusCode != http.StatusOK ||
		!strings.Contains(text, "35.00") {
		t.Errorf("changed: %s", r.Status)
	}
}

// Options that cannot be used are refused with what was expected.
func TestOptions(t *testing.T) {
	empty := t.TempDir()
	file := filepath.Join(empty, "file")
	write(t, file, "")
	for want, o := range map[string]Options{
		"gone: no such folder; expected one that holds runs":       {Dir: filepath.Join(empty, "gone")},
		"file is a file; expected a folder that holds runs":        {Dir: file},
		"nothing to show: no run":                                  {Dir: empty},
		"gone: no such folder; expected one that holds a data set": {Dir: runs, Data: filepath.Join(empty, "gone")},
		"--images ":                     {Dir: runs, Images: file},
		`--allow-host "a:80": expected`: {Dir: runs, Hosts: []string{"a:80"}},
	} {
		try.Refuses(New(o))(t, want)
	}
}
