package view

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"vsetrain/internal/apps/report"
	"vsetrain/internal/run/records"
	"vsetrain/lab/try"
)

// Points land in the frame, at the places of their values.
func TestPlot(t *testing.T) {
	p := newPlot(plot{X: "epoch", Zero: true, Curves: []curve{{Name: "a", X: []float64{0, 1, 2},
		Y: []float64{0, 10, 5}}, {Name: "none"},
		{Name: "wild", X: []float64{1, 1, 1, 1e300}, Y: []float64{math.NaN(), math.Inf(1), 3, 1}}}})
	if len(p.Curves) != 2 || len(p.Curves[1].X) != 1 {
		t.Fatalf("%+v", p.Curves)
	}
	want := "52,236 320,20.76 588,128.38" // the axis ends 5 % above the highest value
	if got := p.Points(p.Curves[0]); got != want {
		t.Errorf("points %s, want %s", got, want)
	}
	if got := p.Across.Ticks(7); len(got) < 3 || got[0] != 0 || got[len(got)-1] != 2 {
		t.Errorf("ticks %v", got)
	}
	if d := p.Description(); !strings.Contains(d, "a: from 0 to 5 at epoch 2; lowest 0 at 0, highest 10 at 1.") {
		t.Error(d)
	}
	if rows := p.Table(); len(rows) != 3 || !slices.Equal(rows[1], []string{"1", "10", "3"}) {
		t.Errorf("table %v", rows)
	}
	p.Curves = slices.Insert(p.Curves, 0, curve{Name: "thin", Class: "s0 faint", X: []float64{1}, Y: []float64{7}})
	if rows := p.Table(); len(rows) != 3 || !slices.Equal(rows[1], []string{"1", "10", "3"}) {
		t.Errorf("table beside a faint curve, which has no column: %v", rows)
	}
	if !newPlot(plot{}).Empty() || !newPlot(plot{Log: true,
		Curves: []curve{{X: []float64{1}, Y: []float64{0}}}}).Empty() {
		t.Error("a plot without values is not empty")
	}
	for _, y := range []float64{3, 1e-3, -2} { // a constant curve lies in the middle, and the axis has a 0
		flat := newPlot(plot{Curves: []curve{{X: []float64{0, 5}, Y: []float64{y, y}}}})
		if got := flat.Points(flat.Curves[0]); got != "52,123 588,123" {
			t.Errorf("constant curve of %g: %s", y, got)
		}
		if ticks := flat.Up.Ticks(5); !slices.Contains(ticks, 0) {
			t.Errorf("constant curve of %g: ticks %v", y, ticks)
		}
	}
	zero := newPlot(plot{Zero: true, Curves: []curve{{X: []float64{0, 5}, Y: []float64{0, 0}}}})
	if got := zero.Points(zero.Curves[0]); got != "52,236 588,236" { // on the axis
		t.Errorf("curve of zeros: %s", got)
	}
}

// A curve of one value is a dot inside the frame, also where values beside it cannot be shown; one of several is none.
func TestOneValueIsADot(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	for range 500 {
		c, shown := curve{Class: "s0"}, 0
		for range 1 + random.IntN(3) {
			y := []float64{math.NaN(), math.Inf(-1), -3, 0, 1e-9, 5.73, 100}[random.IntN(7)]
			c.X, c.Y = append(c.X, float64(len(c.X)*random.IntN(40))/8), append(c.Y, y)
			shown += map[bool]int{true: 1}[math.Abs(y) <= 100]
		}
		p := newPlot(plot{Curves: []curve{c}})
		if shown == 0 {
			if !p.Empty() {
				t.Errorf("%+v is shown", c)
			}
			continue
		}
		if dot := strings.HasSuffix(p.Curves[0].Class, " dot"); dot != (shown == 1) {
			t.Errorf("%+v of %d values: class %q", c, shown, p.Curves[0].Class)
		}
		for xy := range strings.SplitSeq(p.Points(p.Curves[0]), " ") {
			var x, y float64
			if _, err := fmt.Sscanf(xy, "%g,%g", &x, &y); err != nil || x < plotLeft || x > plotRight || y < plotTop ||
				y > plotBottom {
				t.Errorf("%+v: a point at %s, %v", c, xy, err)
			}
		}
	}
	if spark := sparkline(&Run{Log: report.Log{Validations: []records.ValidationRecord{{Epoch: 1}}}}); spark == "" {
		t.Error("a run of one validation has no course")
	}
}

// A rate that held its value changes at a step, one that always changes by a line.
func TestStairs(t *testing.T) {
	for _, c := range []struct{ y, want []float64 }{{[]float64{1, 1, 0.1, 0.1}, []float64{1, 1, 1, 0.1, 0.1}},
		{[]float64{3, 2, 1}, []float64{3, 2, 1}}, {[]float64{1, 2}, []float64{1, 2}}, {nil, nil},
		{[]float64{1, 1, 2, 3, 3, 1}, []float64{1, 1, 1, 2, 3, 3, 3, 1}}} {
		in := curve{Y: c.y}
		for i := range c.y {
			in.X = append(in.X, float64(i))
		}
		if got := stairs(in); !slices.Equal(got.Y, c.want) || len(got.X) != len(c.want) {
			t.Errorf("%v becomes %v at %v, want %v", c.y, got.Y, got.X, c.want)
		}
	}
}

// Runs whose curves are equal share one, which names them all; vertical lines of one place stand side by side.
func TestComparePlots(t *testing.T) {
	var all []*Run
	for i, loss := range []string{"lmh", "lseh", "lmh"} {
		c := tiny()
		c.Loss.Name, c.Loss.WarmupEpochs = loss, 1
		r := &Run{Name: fmt.Sprint("r", i), Config: c}
		for k := range 4 {
			r.Steps = append(r.Steps, records.StepRecord{Epoch: float64(k), LearningRate: 0.5,
				Loss: float64(1 + i + k)})
			r.Validations = append(r.Validations, records.ValidationRecord{Epoch: float64(k),
				Measured: records.Measured{MRecall: float64(10*i + k)}})
		}
		all = append(all, r)
	}
	looks := map[string]bool{}
	for _, p := range comparePlots(all, []mark{{Name: "best", X: 1}}) {
		switch p.ID {
		case "lr":
			if len(p.Curves) != 1 || p.Curves[0].Name != "r0 = r1 = r2" || !p.Runs {
				t.Errorf("equal rates: %+v", p.Curves)
			}
		case "m_recall":
			for _, c := range p.Curves {
				looks[c.Class[strings.LastIndex(c.Class, " d"):]] = true
			}
			if len(looks) != 3 || p.Y != "%" {
				t.Errorf("dashes %v, unit %q", looks, p.Y)
			}
			if len(p.Marks) != 2 || p.Marks[0].At == p.Marks[1].At {
				t.Errorf("the base's best and one warm-up: %+v", p.Marks)
			}
		case "loss":
			if !strings.Contains(p.Note, "different scales") {
				t.Errorf("note %q", p.Note)
			}
		}
	}
}

// Equal ratios are equal distances on a logarithmic axis.
func TestLogAxis(t *testing.T) {
	p := newPlot(plot{Log: true, Curves: []curve{{X: []float64{0, 1, 2}, Y: []float64{1, 10, 100}}}})
	var y []float64
	for xy := range strings.SplitSeq(p.Points(p.Curves[0]), " ") {
		_, v, _ := strings.Cut(xy, ",")
		f := try.Get(strconv.ParseFloat(v, 64))(t)
		y = append(y, f)
	}
	if d := (y[0] - y[1]) - (y[1] - y[2]); math.Abs(d) > 0.02 || y[0] <= y[2] {
		t.Errorf("places %v", y)
	}
	if ticks := p.Up.Ticks(5); !slices.Equal(ticks, []float64{1, 10, 100}) {
		t.Errorf("ticks %v", ticks)
	}
}

// What is left out of a long curve cannot be seen: ends, highest and lowest values stay, in their order.
func TestThin(t *testing.T) {
	n := 10_000
	x, y := make([]float64, n), make([]float64, n)
	for i := range x {
		x[i], y[i] = float64(i), math.Sin(float64(i)/500)
	}
	y[1234], y[8765] = 9, -9
	tx, ty := thin(x, y, 100)
	if len(tx) > 200 || len(tx) < 150 || !slices.IsSorted(tx) || slices.Max(ty) != 9 || slices.Min(ty) != -9 ||
		tx[0] != 0 || tx[len(tx)-1] != float64(n-1) {
		t.Errorf("%d points from %g to %g, values %g to %g", len(tx), tx[0], tx[len(tx)-1], slices.Min(ty),
			slices.Max(ty))
	}
	for i, at := range tx {
		if y[int(at)] != ty[i] {
			t.Fatalf("at %g the curve is %g, not %g", at, y[int(at)], ty[i])
		}
	}
	if got := smooth([]float64{0, 3, 6, 9}, 3); !slices.Equal(got, []float64{1.5, 3, 6, 7.5}) {
		t.Errorf("means %v", got)
	}
}

// Negative numbers have the sign of mathematics.
func TestMinus(t *testing.T) {
	fixed, signed := functions["fixed"].(func(int, float64) string), functions["signed"].(func(int, float64) string)
	if a, b, c := fixed(3, -0.0064), signed(1, -2), signed(1, 2); a != "\u22120.006" || b != "\u22122.0" ||
		c != "+2.0" {
		t.Errorf("%s, %s, %s", a, b, c)
	}
}
