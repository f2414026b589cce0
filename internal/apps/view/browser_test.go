package view

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/png"
	"math"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"vsetrain/lab/try"
	"vsetrain/train"
)

// chromiumPath finds a browser; VSETRAIN_CHROMIUM names one.
func chromiumPath(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("VSETRAIN_CHROMIUM"); path != "" {
		return path
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("no Chromium on this machine; scripts/install-test-tools.sh installs one, or VSETRAIN_CHROMIUM names its " +
		"program")
	return ""
}

// browser is a tab of a real headless Chromium.
type browser struct {
	t   *testing.T
	ctx context.Context
	url string

	mu     sync.Mutex
	errors []string // of scripts and of the content security policy
}

// chromium is the one browser of all tests; closeBrowser ends it.
var chromium struct {
	sync.Once
	ctx  context.Context
	stop []context.CancelFunc
	err  error
}

func startBrowser(path string) {
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.WindowSize(1200, 900),
		chromedp.NoSandbox, chromedp.DisableGPU)
	alloc, stop := chromedp.NewExecAllocator(context.Background(), options...)
	chromium.stop = append(chromium.stop, stop)
	quiet := func(string, ...any) {} // of events that this version of the driver does not know
	chromium.ctx, stop = chromedp.NewContext(alloc, chromedp.WithErrorf(quiet))
	chromium.stop = append(chromium.stop, stop)
	chromium.err = chromedp.Do(chromium.ctx)
}

func closeBrowser() {
	for _, stop := range slices.Backward(chromium.stop) {
		stop()
	}
}

// browse opens a tab without cookies for a site. What its console calls an error fails the test.
func browse(t *testing.T, s *site) *browser {
	t.Helper()
	path := chromiumPath(t)
	chromium.Do(func() { startBrowser(path) })
	if chromium.err != nil {
		t.Fatalf("%s does not start: %v", path, chromium.err)
	}
	ctx, stop := chromedp.NewContext(chromium.ctx)
	t.Cleanup(stop)
	ctx, stop = context.WithTimeout(ctx, 90*time.Second)
	t.Cleanup(stop)
	b := &browser{t: t, ctx: ctx, url: s.URL}
	try.Do(t, chromedp.Listen(ctx, func(e any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch e := e.(type) {
		case *runtime.EventExceptionThrown:
			b.errors = append(b.errors, (&chromedp.ExceptionError{ExceptionDetails: e.ExceptionDetails}).Error())
		case *log.EventEntryAdded:
			if e.Entry.Level == log.EntryLevelError {
				b.errors = append(b.errors, e.Entry.Text+" "+e.Entry.URL)
			}
		}
	}))
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, e := range b.errors {
			t.Errorf("console: %s", e)
		}
	})
	b.do(command(log.Enable, cdp.Empty{}), command(network.ClearBrowserCookies, cdp.Empty{}))
	return b
}

// command is a command of the protocol whose answer says nothing.
func command[P any](c cdp.Command[P, cdp.Empty], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, c, params)
		return err
	})
}

// do runs actions, all of which must succeed.
func (b *browser) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	try.Do(b.t, chromedp.Do(b.ctx, actions...))
}

// get runs an action that returns something.
func get[T any](b *browser, action chromedp.Action[T]) T {
	b.t.Helper()
	return try.Get(chromedp.Run(b.ctx, action))(b.t)
}

func (b *browser) open(path string) {
	b.t.Helper()
	b.do(chromedp.Navigate(b.url + path))
	b.until(path+" is whole", `location.href === `+quote(b.url+path)+` && document.querySelector("main")`)
}

// value returns the value of an expression.
func value[T any](b *browser, js string) T {
	b.t.Helper()
	return get(b, chromedp.Evaluate[T](js))
}

// until waits for an expression to be true on a page that is whole. Between two pages there is none; then it is not
// true yet.
func (b *browser) until(what, js string) {
	b.t.Helper()
	js = fmt.Sprintf(`(() => { try { return document.readyState === "complete" && !!(%s); } catch { return false; } `+
		`})()`, js)
	var err error
	for range 150 {
		var ok bool
		if ok, err = chromedp.Run(b.ctx, chromedp.Evaluate[bool](js)); ok {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	b.t.Fatalf("not within 15 s: %s (%s, %v); the page says\n%.2000s", what, js, err,
		value[string](b, "document.body.innerText"))
}

// keys presses keys on what has the focus, once the page and its script are there.
func (b *browser) keys(keys string) {
	b.t.Helper()
	b.until("the page is whole", "true")
	b.do(chromedp.KeyEvent(keys))
}

// The curve of a run grows while it trains, and what the person did to the page stays.
func TestBrowserFollowsTraining(t *testing.T) {
	chromiumPath(t)
	root := t.TempDir()
	cfg := tiny()
	cfg.Train.Epochs = 400
	step := make(chan bool, 1000)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	started := make(chan bool, 1)
	go func() {
		done <- trainTo(ctx, cfg, filepath.Join(root, "live"), func(i train.StepInfo) {
			if i.Position.Step == 1 {
				started <- true
			}
			select {
			case <-step:
			case <-ctx.Done():
			}
		})
	}()
	advance := func(steps int) {
		for range steps {
			step <- true
		}
	}
	defer func() {
		stop()
		<-done
	}()
	select {
	case <-started:
	case err := <-done:
		t.Fatal(err)
	}
	advance(12)
	s := open(t, Options{Dir: root})
	b := browse(t, s)
	b.open("/run?id=live")
	b.until("twelve steps are shown", `+document.querySelector("#step").textContent >= 12`)
	if !value[bool](b, `document.querySelector(".state").textContent === "running"`) {
		t.Error("the run is not shown as running")
	}
	const points = `document.querySelector("#plot-loss polyline:last-of-type").getAttribute("points").split(" ").length`
	before := value[int](b, points)
	b.do(chromedp.Click("#settings summary"), chromedp.Click("#data-loss summary"))
	advance(20)
	b.until("the curve grows without a reload", points+fmt.Sprintf(" >= %d", before+15))
	b.until("the step counts on", `+document.querySelector("#step").textContent >= 32`)
	if value[bool](b, `document.querySelector("#settings").open`) ||
		!value[bool](b, `document.querySelector("#data-loss").open`) {
		t.Error("what was closed or opened did not stay")
	}
	b.open("/")
	b.do(chromedp.Click(`input[name=r]`))
	best := value[string](b, `document.querySelector("tbody tr").innerText`)
	advance(20)
	b.until("the table of runs follows", fmt.Sprintf("document.querySelector('tbody tr').innerText !== %q", best))
	if !value[bool](b, `document.querySelector("input[name=r]").checked`) {
		t.Error("the choice of a run did not stay")
	}
	stop()
	b.until("the end is shown", `document.querySelector(".state").textContent === "interrupted"`)
}

// A search from the keyboard: open a network, type, walk to a picture, open it.
func TestBrowserSearch(t *testing.T) {
	chromiumPath(t)
	s := open(t, Options{Dir: runs})
	b := browse(t, s)
	b.open("/search?r=one")
	b.do(chromedp.Click("form[action='/load'] button"))
	b.until("the network opens without a reload", `document.activeElement.id === "q"`)
	b.keys("a dog" + kb.Enter)
	b.until("images are found", `document.querySelectorAll(".card img").length === 8`)
	b.until("their pictures are drawn",
		`[...document.querySelectorAll(".card img")].every((i) => i.complete && i.naturalWidth > 0 || i.loading === `+
			`"lazy" && i.getBoundingClientRect().top > innerHeight)`)
	b.keys(kb.Escape + "jj")
	if got := value[int](b, `[...document.querySelectorAll("[data-row]")].indexOf(document.activeElement)`); got != 1 {
		t.Errorf("jj leads to row %d, want 1", got)
	}
	want := value[string](b, "document.activeElement.href")
	b.keys(kb.Enter)
	b.until("Enter opens the image", "location.href === "+quote(want))
	b.until("its captions are found", `document.querySelectorAll("ol.lines li").length === 20`)
	b.open("/image?r=one&i=3")
	b.keys("]")
	b.until("] opens the next image", `new URLSearchParams(location.search).get("i") === "4"`)
	b.keys("gr")
	b.until("g r leads to the runs", `location.pathname === "/"`)
	b.open("/queries?r=one")
	b.until("the ranks are there", `document.querySelectorAll("table.ranks tbody tr").length === 40`)
	b.do(chromedp.Click(".histogram a"))
	b.until("a bar chooses its queries", `new URLSearchParams(location.search).get("bin") === "1"`)
	b.open("/mistakes?r=one")
	b.until("mistakes stand side by side", `document.querySelectorAll(".mistake .pair .card").length >= 2`)
}

func quote(s string) string { return fmt.Sprintf("%q", s) }

// Keys on the table of runs: filter, rows, choice, comparison, help.
func TestBrowserKeyboard(t *testing.T) {
	chromiumPath(t)
	s := open(t, Options{Dir: runs})
	b := browse(t, s)
	b.open("/")
	b.keys("?")
	b.until("? opens the list of keys", `document.querySelector("#keys").open`)
	b.keys(kb.Escape)
	b.until("Esc closes it", `!document.querySelector("#keys").open`)
	b.keys("jxjxc")
	b.until("c compares the chosen runs",
		`location.pathname === "/compare" && document.querySelectorAll("table.compare tbody tr").length === 2`)
	if got := value[string](b,
		`document.querySelector("#plot-m_recall svg").getAttribute("aria-labelledby").split(" ").map((id) => `+
			`document.getElementById(id).textContent).join("|")`); !strings.Contains(got, "M-Recall") ||
		!strings.Contains(got, "one: from") {
		t.Errorf("the plot is called %q", got)
	}
	b.do(chromedp.Focus("#plot-m_recall svg"))
	b.keys(kb.ArrowRight + kb.ArrowRight + kb.ArrowRight)
	b.until("arrows read values", `document.querySelector(".readout")?.innerText.includes("epoch")`)
	b.open("/")
	b.keys("/")
	b.until("/ goes to the filter", `document.activeElement.id === "filter"`)
	b.keys("two" + kb.Enter)
	b.until("the filter applies", `document.querySelectorAll("tbody tr").length === 1`)
}

// Colours follow the system, and the person's choice, which stays.
func TestBrowserDark(t *testing.T) {
	chromiumPath(t)
	s := open(t, Options{Dir: runs})
	b := browse(t, s)
	const luminance = `(() => { const c = getComputedStyle(document.body).backgroundColor.match(/\d+/g).map(Number); ` +
		`return (c[0] + c[1] + c[2]) / 765; })()`
	system := func(scheme string) {
		b.do(command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}))
	}
	shade := func(what string, dark bool) {
		t.Helper()
		if l := value[float64](b, luminance); (l < 0.3) != dark {
			t.Errorf("%s: the ground has luminance %.2f", what, l)
		}
	}
	system("light")
	b.open("/")
	shade("light system", false)
	system("dark")
	shade("dark system", true)
	b.keys("t")
	b.until("t changes", `document.documentElement.dataset.theme === "light"`)
	shade("light by choice on a dark system", false)
	b.until("the choice is stored",
		`fetch("/", {cache: "no-store"}).then((r) => r.text()).then((t) => { window.stored = `+
			`t.includes('data-theme="light"'); }) && window.stored === true`)
	b.open("/compare")
	shade("the next page", false)
	b.do(chromedp.Click(".theme button[value=dark]"))
	system("light")
	shade("dark by button on a light system", true)
	// Text stands out from its ground: 4.5 to 1 at least (WCAG AA), in both.
	for _, theme := range []string{"light", "dark"} {
		b.do(chromedp.Evaluate[chromedp.Void](`document.documentElement.dataset.theme = ` + quote(theme)))
		for _, pair := range [][2]string{{"--ink", "--ground"}, {"--soft", "--ground"}, {"--soft", "--wash"},
			{"--link", "--ground"}, {"--bad", "--bad-wash"}, {"--good", "--good-wash"}, {"--warn", "--ground"}} {
			ratio := value[float64](b, fmt.Sprintf(`((a, b) => {
				const l = (name) => {
					const style = getComputedStyle(document.documentElement).getPropertyValue(name);
					const c = style.trim().slice(1).match(/../g).map((h) => parseInt(h, 16) / 255)
						.map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
					return 0.2126 * c[0] + 0.7152 * c[1] + 0.0722 * c[2];
				};
				const [x, y] = [l(a), l(b)].sort((p, q) => q - p);
				return (x + 0.05) / (y + 0.05);
			})(%q, %q)`, pair[0], pair[1]))
			if ratio < 4.5 {
				t.Errorf("%s: contrast of %s on %s is %.2f, want 4.5", theme, pair[0], pair[1], ratio)
			}
		}
	}
}

// Without JavaScript the same is done with links and forms.
func TestBrowserWithoutScript(t *testing.T) {
	chromiumPath(t)
	s := open(t, Options{Dir: runs})
	s.load(networkKey{"one", "best", "test"})
	b := browse(t, s)
	b.do(command(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}))
	b.open("/search?r=one")
	b.do(chromedp.SendKeys(chromedp.ID("q"), "a dog"), chromedp.Submit(chromedp.ID("q")),
		chromedp.WaitVisible(".card img"))
	here := get(b, chromedp.Location())
	if u, err := url.Parse(here); err != nil || u.Query().Get("q") != "a dog" {
		t.Errorf("the search led to %s", here)
	}
	b.open("/run?id=one")
	b.do(chromedp.WaitVisible("#plot-m_recall polyline"))
	b.do(chromedp.Click(".theme button[value=dark]"), chromedp.WaitReady("html[data-theme=dark]"))
	here = get(b, chromedp.Location())
	if !strings.HasSuffix(here, "/run?id=one") {
		t.Errorf("the choice of colours led to %s", here)
	}
	b.open("/")
	b.do(chromedp.Click("input[name=r]"), chromedp.Click("#compare button"), chromedp.WaitVisible("table.compare"))
}

// pagesOfRuns are pages of each kind.
var pagesOfRuns = []string{"/", "/run?id=one", "/compare?r=one&r=sub%2Ftwo", "/search?r=one&q=a", "/image?r=one&i=0",
	"/queries?r=one", "/mistakes?r=one"}

// badText lists texts of plots that are small on the screen or lie on each other. The label of an axis has its place.
const badText = `[...document.querySelectorAll(".plot > svg")].flatMap((svg) => {
	const all = [...svg.querySelectorAll("text")].map((e) => [e.textContent, e.getBoundingClientRect(),
		parseFloat(getComputedStyle(e).fontSize) * e.getScreenCTM().a]);
	return all.filter(([, , size]) => size < 9.5).map(([text, , size]) => text + " is " + size + " px high").concat(
		all.flatMap(([text, a], i) => all.slice(i + 1).filter(([, b]) =>
			Math.min(a.right, b.right) > Math.max(a.left, b.left) + 1 &&
			Math.min(a.bottom, b.bottom) > Math.max(a.top, b.top) + 4).map(([other]) => text + " lies on " + other)));
}).join("; ")`

// The page fits a telephone: nothing but tables and figures scrolls sideways, and what a page is opened for is seen
// without that. Texts of plots are readable at all widths. A picture by itself is shown whole, a curve of one value is
// seen.
func TestBrowserNarrow(t *testing.T) {
	chromiumPath(t)
	s := open(t, Options{Dir: runs})
	s.load(networkKey{"one", "best", "test"})
	b := browse(t, s)
	for _, width := range []int64{1400, 900, 700, 390} {
		b.do(chromedp.EmulateViewport(width, 800))
		for _, page := range pagesOfRuns {
			b.open(page)
			if w := value[int64](b, "document.documentElement.scrollWidth"); w > width {
				t.Errorf("%s is %d pixels wide on a screen of %d", page, w, width)
			}
			if bad := value[string](b, badText); bad != "" {
				t.Errorf("%s at %d pixels: %s", page, width, bad)
			}
		}
	}
	for page, head := range map[string]string{"/": "Best M-Recall", "/compare?r=one&r=sub%2Ftwo": "Best M-Recall",
		"/run?id=one": "M-Recall", "/compare?r=sub%2Ftwo&r=one": "Difference", "/queries?r=one": "Rank"} {
		b.open(page)
		if right := value[float64](b, `[...document.querySelectorAll("thead th")].find((e) => e.offsetWidth && `+
			`e.innerText.includes(`+quote(head)+`)).getBoundingClientRect().right`); right <= 0 || right > 390 {
			t.Errorf("%s: %s ends at %g of 390 pixels", page, head, right)
		}
	}
	// where columns are left out, a note says which
	const left = `[...document.querySelectorAll("th.wide")].filter((e) => e.offsetWidth === 0).map((e) => e.innerText)`
	const note = `document.querySelector(".narrow").offsetHeight`
	for _, page := range []string{"/", "/compare?r=one&r=sub%2Ftwo", "/queries?r=one"} {
		for width, narrow := range map[int64]bool{390: true, 1400: false} {
			b.do(chromedp.EmulateViewport(width, 800))
			b.open(page)
			if hides := value[int](b, left+".length") > 0; hides != narrow || value[int](b, note) > 0 != narrow {
				t.Errorf("%s at %d pixels: columns are left out: %t; height of the note: %d", page, width, hides,
					value[int](b, note))
			}
		}
	}
	for _, width := range []int64{390, 1400} {
		b.do(chromedp.EmulateViewport(width, 800))
		for _, shape := range [][2]int{{40, 200}, {200, 40}, {30, 30}} {
			picture := filepath.Join(world, "images", s.server.networks.all[networkKey{"one", "best", "test"}].index.
				Image(0).ID+".png")
			before := try.Get(os.ReadFile(picture))(t)
			var drawn bytes.Buffer
			try.Do(t, png.Encode(&drawn, image.NewGray(image.Rect(0, 0, shape[0], shape[1]))))
			write(t, picture, drawn.String())
			b.open(fmt.Sprintf("/image?r=one&i=0&shape=%d", shape[0]))
			b.do(command(network.ClearBrowserCache, cdp.Empty{}))
			b.open(fmt.Sprintf("/image?r=one&i=0&again=%d", shape[0]))
			b.until("the picture is drawn", `document.querySelector(".big img").naturalWidth === `+fmt.Sprint(shape[0]))
			ratio := value[float64](b, `(({width, height}) => width / height)(document.querySelector(".big img")`+
				`.getBoundingClientRect())`)
			if want := float64(shape[0]) / float64(shape[1]); math.Abs(ratio/want-1) > 0.05 {
				t.Errorf("at %d pixels a picture of %v is shown %.2f times as wide as high", width, shape, ratio)
			}
			write(t, picture, string(before))
		}
	}
}

// A run of one validation and one logged step has a dot in every plot and in the table of runs.
func TestBrowserOneValue(t *testing.T) {
	chromiumPath(t)
	root := t.TempDir()
	fakeRun(t, filepath.Join(root, "one"), tiny(), `{"kind":"train","step":1,"epoch":0.125,"loss":3,"grad_norm":1,`+
		`"lr":0.1,"step_ms":2,"captions_per_s":8000,"hard_captions":4,"hard_images":4}`+"\n"+
		`{"kind":"val","step":1,"epoch":0.125,"m_recall":20,"best":true}`+"\n")
	s := open(t, Options{Dir: root})
	b := browse(t, s)
	for page, least := range map[string]int{"/run?id=one": 13, "/": 1, "/compare?r=one": 4} {
		b.open(page)
		if n := value[int](b, `[...document.querySelectorAll("polyline.curve")].filter((e) => {
			const {x, y} = e.getBoundingClientRect(), style = getComputedStyle(e);
			return parseFloat(style.strokeWidth) >= 5 && style.strokeLinecap === "round" && x > 0 && y > 0;
		}).length`); n < least {
			t.Errorf("%s shows %d dots, want %d", page, n, least)
		}
	}
}

// axe finds nothing that is serious, in both colours and on both widths. VSETRAIN_AXE names its axe.min.js, of the npm
// package axe-core.
func TestBrowserAxe(t *testing.T) {
	path := os.Getenv("VSETRAIN_AXE")
	if path == "" {
		t.Skip("VSETRAIN_AXE does not name axe.min.js: npm pack axe-core")
	}
	axe := try.Get(os.ReadFile(path))(t)
	s := open(t, Options{Dir: runs})
	s.load(networkKey{"one", "best", "test"})
	b := browse(t, s)
	for _, scheme := range []string{"light", "dark"} {
		b.do(command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}))
		for _, width := range []int64{1400, 390} {
			b.do(chromedp.EmulateViewport(width, 900))
			for _, page := range pagesOfRuns {
				b.open(page)
				b.do(chromedp.Evaluate[chromedp.Void](string(axe) + `
					axe.run().then((r) => window.found = r.violations
						.filter((v) => v.impact === "serious" || v.impact === "critical")
						.map((v) => v.id + ": " + v.nodes[0].html).join("\n"));
					undefined`))
				b.until("axe is done", `window.found !== undefined`)
				if found := value[string](b, `window.found`); found != "" {
					t.Errorf("%s, %s, %d pixels: %s", page, scheme, width, found)
				}
			}
		}
	}
}
