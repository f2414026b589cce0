package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"vsetrain/eval"
	"vsetrain/internal/run/config"
	"vsetrain/internal/run/records"
	"vsetrain/loss"
	"vsetrain/models"
)

// newRun makes a run in memory: a network, a loss of the paper, a seed, and its validations.
func newRun(data, network, lossName string, seed uint64, history ...Point) *Run {
	c := config.Default()
	c.Data.Dir, c.Model.Network, c.Seed = data, network, seed
	if network == models.VSEInf {
		c.Model.TextEncoder = "bigru"
	}
	switch lossName {
	case "LMH2":
		c.Loss.Margin = 0.16
	case "LSEH", "LSEH-BERT":
		c.Loss.Name, c.Loss.Margin = loss.LSEH, 0.185
		if lossName == "LSEH-BERT" {
			c.Loss.LSEH.Semantics = "bert"
		}
	case "LUWM":
		c.Loss.Name = loss.LUWM
	}
	name := fmt.Sprintf("%s-%s-%d", network, strings.ToLower(lossName), seed)
	r := &Run{Dir: "runs/" + name, Name: name, Config: c}
	if strings.HasPrefix(lossName, "LMH") {
		r.Label = lossName // the data sets of these tests have no presets
	}
	for i, p := range history {
		r.Validations = append(r.Validations, records.ValidationRecord{Step: int64(i + 1), Epoch: p.Epoch,
			Measured: records.Measured{MRecall: p.MRecall}})
	}
	return r
}

// paperEfficiency are the values of the paper's tables of training efficiency: for LMH1 and LMH2 the best M-Recall,
// when it was reached, and when LSEH passed it.
var paperEfficiency = []struct {
	data    string
	average [2]float64 // the printed averages in percent, over LMH1 and over LMH2
	rows    map[string][2][3]float64
}{
	{"f30k", [2]float64{-53.2, -74.7}, map[string][2][3]float64{models.VSEPP: {{57.1, 6.0, 1.8}, {59.1, 8.4, 2.0}},
		models.VSRN: {{78.0, 12.0, 4.9}, {79.4, 11.5, 5.3}},
		models.SAF:  {{81.4, 29.0, 13.9}, {80.9, 29.0, 10.0}}, models.SGR: {{81.0, 38.6, 20.1}, {1.6, 7.0, 0.8}},
		models.VSEInf: {{85.9, 16.8, 10.6}, {81.8, 24.0, 2.6}}}},
	{"coco", [2]float64{-43.0, -52.1}, map[string][2][3]float64{models.VSEPP: {{72.5, 2.9, 2.3}, {21.3, 16.0, 0.2}},
		models.VSRN: {{86.8, 15.6, 6.6}, {86.7, 10.2, 6.4}},
		models.SAF:  {{88.0, 19.8, 8.0}, {88.0, 14.8, 8.0}}, models.SGR: {{88.4, 17.8, 8.1}, {87.8, 14.0, 6.3}},
		models.VSEInf: {{89.4, 16.9, 13.1}, {89.5, 17.1, 13.1}}}},
	{"iapr", [2]float64{-48.5, -69.8}, map[string][2][3]float64{models.VSEPP: {{50.0, 19.0, 3.7}, {9.3, 16.0, 2.0}},
		models.VSRN: {{86.7, 36.0, 21.0}, {87.2, 31.0, 22.0}},
		models.SAF:  {{87.3, 29.0, 16.0}, {16.8, 19.2, 1.0}}, models.SGR: {{87.1, 39.6, 19.0}, {10.9, 40.0, 1.0}},
		models.VSEInf: {{92.7, 17.0, 13.0}, {92.5, 20.0, 12.0}}}},
}

// Runs with the validations of the paper's tables give the paper's averages.
func TestPaperAverages(t *testing.T) {
	var runs []*Run
	for _, set := range paperEfficiency {
		for network, v := range set.rows {
			lseh := map[float64]float64{}
			for k, name := range []string{"LMH1", "LMH2"} {
				runs = append(runs, newRun(set.data, network, name, 7, Point{0.1, 1}, Point{v[k][1], v[k][0]},
					Point{v[k][1] + 1, v[k][0]}))
				lseh[v[k][2]] = max(lseh[v[k][2]], v[k][0]+0.01)
			}
			h := []Point{{0.05, 0.5}}
			for epoch, m := range lseh {
				h = append(h, Point{epoch, m})
			}
			slices.SortFunc(h, func(a, b Point) int { return int(math.Copysign(1, a.Epoch-b.Epoch)) })
			runs = append(runs, newRun(set.data, network, "LSEH", 7, h...))
		}
	}
	sets := Collect(runs)
	if len(sets) != 3 {
		t.Fatalf("%d data sets", len(sets))
	}
	for i, d := range sets {
		table := d.efficiencyTable(d.Comparisons(false))
		if len(table.Rows) != 12 || table.Rows[0].Cells[0].Text != "VSE++" {
			t.Fatalf("%s", table.Text(nil))
		}
		for k, want := range paperEfficiency[i].average {
			row := table.Rows[10+k]
			if got := math.Round(10*row.Cells[7].Value) / 10; row.Cells[0].Text != "average" ||
				row.Cells[1].Text != fmt.Sprintf("LMH%d", k+1) || got != want {
				t.Errorf("%s: average over LMH%d is %v, the paper has %v\n%s", d.Name, k+1, got, want, table.Text(nil))
			}
		}
	}
}

// The columns Mean and the summary, with numbers of the paper.
func TestRecallTables(t *testing.T) {
	set := func(r *Run, i2t, t2i [3]float64) *Run {
		m := eval.Metrics{Protocol: "1k", I2T: eval.Recalls{R1: i2t[0], R5: i2t[1], R10: i2t[2]},
			T2I: eval.Recalls{R1: t2i[0], R5: t2i[1], R10: t2i[2]}}
		m.MRecall = (i2t[0] + i2t[1] + i2t[2] + t2i[0] + t2i[1] + t2i[2]) / 6
		r.Test = []eval.Metrics{m}
		return r
	}
	d := Collect([]*Run{
		set(newRun("f30k", models.VSEPP, "LSEH", 7), [3]float64{45.9, 74.0, 82.7}, [3]float64{33.2, 62.2, 73.3}),
		set(newRun("f30k", models.VSEPP, "LMH1", 7), [3]float64{38.9, 68.0, 78.5}, [3]float64{29.7, 58.7, 69.8}),
		set(newRun("f30k", models.VSRN, "LMH1", 7), [3]float64{69.8, 89.0, 94.4}, [3]float64{52.1, 78.8, 86.6}),
		set(newRun("f30k", models.VSRN, "LSEH", 7), [3]float64{72, 92, 95}, [3]float64{55, 81, 88}),
		set(newRun("f30k", models.VSRN, "LSEH", 8), [3]float64{74, 93.6, 96.4}, [3]float64{56.6, 82.8, 89.6}),
		set(newRun("f30k", models.GSMN, "LUWM", 7), [3]float64{73.1, 92.7, 96.8}, [3]float64{54.2, 79.9, 87.3}),
		newRun("f30k", models.SAF, "LMH1", 7),
	})[0]
	tables := d.recallTables("test", "test split", testRecalls("1k"), true)
	if len(tables) != 3 {
		t.Fatalf("%d tables", len(tables))
	}
	main := tables[0].Text(nil)
	wants(t, main, "VSE++    LMH1        38.9        68.0        78.5  61.8 ± 16.8",
		"VSRN     LSEH  73.0 ± 1.4  92.8 ± 1.1  95.7 ± 1.0  87.2 ± 10.1  55.8 ± 1.1",
		"R@K and M-Recall: mean ± sample standard deviation over the seeds.")
	if strings.Contains(main, "GSMN") || strings.Contains(main, "SAF") {
		t.Errorf("GSMN, or a run without recalls, among the networks:\n%s", main)
	}
	mean, std := eval.MeanSpread(38.9, 68.0, 78.5, 69.8, 89.0, 94.4)
	if c := tables[1].Rows[0].Cells; c[0].Text != "LMH1" || math.Abs(c[1].Value-mean) > 1e-9 ||
		math.Abs(c[1].Std-std) > 1e-9 {
		t.Errorf("summary of LMH1: %+v, want %v ± %v", c, mean, std)
	}
	if !strings.Contains(tables[2].Text(nil), "GSMN     LUWM  73.1") {
		t.Errorf("GSMN:\n%s", tables[2].Text(nil))
	}
	// Unasked, ± is the deviation over the seeds everywhere.
	tables = d.recallTables("test", "test split", testRecalls("1k"), false)
	main = tables[0].Text(nil)
	wants(t, main, "VSE++    LMH1        38.9        68.0        78.5        61.8",
		"VSRN     LSEH  73.0 ± 1.4  92.8 ± 1.1  95.7 ± 1.0  87.2 ± 1.2  55.8 ± 1.1",
		"  Mean ± sample standard deviation over the seeds.\n")
	if strings.Contains(main+tables[1].Text(nil), "lie from each other") ||
		!math.IsNaN(tables[1].Rows[0].Cells[1].Std) {
		t.Errorf("the spread of the paper unasked:\n%s%s", main, tables[1].Text(nil))
	}
	both := Collect([]*Run{set(newRun("f30k", models.VSEInf, "LSEH-BERT", 7), [3]float64{81.0, 96.1, 97.7},
		[3]float64{63.1, 87.1, 92.7}),
		set(newRun("f30k", models.VSEInf, "LSEH", 7), [3]float64{82.4, 96.0, 98.6}, [3]float64{63.7, 87.1, 92.5})})[0]
	tables = both.recallTables("test", "test split", testRecalls("1k"), false)
	if last := tables[len(tables)-1]; last.Name != "test-semantics" || last.Rows[0].Cells[1].Text != "LSEH-SVD" ||
		last.Rows[1].Cells[1].Text != "LSEH-BERT" {
		t.Errorf("semantics:\n%s", last.Text(nil))
	}
}

// Runs of one setting share a group, others are told apart; data sets are never mixed.
func TestCollect(t *testing.T) {
	fast := newRun("data/a", models.VSEPP, "LMH1", 7)
	fast.Config.Optim.LR = 1e-3
	named := newRun("data/a", models.VSEPP, "LMH1", 7)
	named.Label = "mine"
	slow := newRun("./data/a", models.VSEPP, "LMH1", 8)
	slow.Config.Device.Threads, slow.Config.Train.LogStep = 3, 77
	sets := Collect([]*Run{slow, fast, newRun("data/a", models.VSEPP, "LMH1", 7),
		newRun("other/a", models.VSEPP, "LSEH", 7), named})
	if len(sets) != 2 || sets[0].Name != "data/a" || sets[1].Name != "other/a" {
		t.Fatalf("data sets %+v", sets)
	}
	var got []string
	for _, g := range sets[0].Groups {
		got = append(got, fmt.Sprint(g.Loss, " ", len(g.Runs), " ", g.Runs[0].Config.Seed))
	}
	want := []string{"LMH1 (lr=0.0002) 2 7", "LMH1 (lr=0.001) 1 7", "mine 1 7"}
	if !slices.Equal(got, want) {
		t.Errorf("groups %q, want %q", got, want)
	}
	if c := sets[1].Comparisons(false); len(c) != 0 {
		t.Errorf("a single group is compared: %+v", c)
	}
}

// Seeds are paired with themselves; runs without validations are left out; what is not reached says so.
func TestComparisons(t *testing.T) {
	d := setOf(newRun("a", models.VSEPP, "LMH1", 7, Point{1, 10}, Point{4, 20}),
		newRun("a", models.VSEPP, "LMH1", 8, Point{2, 30}), newRun("a", models.VSEPP, "LSEH", 8, Point{1, 30}),
		newRun("a", models.VSEPP, "LSEH", 7, Point{1, 20}, Point{3, 21}), newRun("a", models.VSEPP, "LMH2", 7))
	c := d.Comparisons(false)
	if len(c) != 1 || len(c[0].Pairs) != 2 || c[0].Pairs[1].Reached || c[0].Pairs[1].Epochs != 0 {
		t.Fatalf("%+v", c)
	}
	text := d.efficiencyTable(c).Text(nil)
	wants(t, text, "3.0 (1 of 2)       -   -  1 of 2", "If a pair did not reach the best of its base",
		"Not finished, counted as they stand: vsepp-lmh1-7")
	text = d.efficiencyTable(d.Comparisons(true)).Text(nil)
	if !strings.Contains(text, "≥ best") || strings.Contains(text, "1 of 2") || !strings.Contains(text, "1.0 ± 0.0") {
		t.Errorf("or-equal:\n%s", text)
	}
}

// What differs beside the loss stands under the comparison, and that a base was still rising.
func TestDifferences(t *testing.T) {
	base := newRun("a", models.VSEPP, "LMH1", 7, Point{1, 10}, Point{2, 12}, Point{4, 15})
	base.Config.Train.Epochs, base.Config.Loss.WarmupEpochs = 4, 1
	fine := newRun("a", models.VSEPP, "LSEH", 7, Point{1, 14}, Point{5, 25}, Point{6, 24})
	fine.Config.Train.Epochs, fine.Config.Device.Precision = 6, "bf16"
	d := setOf(base, fine)
	table := d.differenceTable(d.Comparisons(false))
	csv := table.CSV()
	want := "network,base,loss,what,of the base,of the loss\n" +
		"VSE++,LMH1,LSEH,loss.margin,0.2,0.185\n" +
		"VSE++,LMH1,LSEH,loss.warmup_epochs,1,0\n" +
		"VSE++,LMH1,LSEH,train.epochs,4,6\n" +
		"VSE++,LMH1,LSEH,device.precision,fp32,bf16\n" +
		"VSE++,LMH1,LSEH,epochs trained,4.0,6.0\n" +
		"VSE++,LMH1,LSEH,best at the last validation,vsepp-lmh1-7,-\n"
	if csv != want {
		t.Errorf("got\n%swant\n%s", csv, want)
	}
	note := "Still rising when they ended, so that more epochs may raise them (the best validation of each base is " +
		"its last): vsepp-lmh1-7."
	if !slices.Contains(table.Notes, note) {
		t.Errorf("notes %q", table.Notes)
	}
	r, err := Build([]*DataSet{d}, Options{})
	if err != nil || !strings.Contains(r.Markdown(), `| train.epochs | 4 | 6 |`) {
		t.Errorf("%v\n%s", err, r.Markdown())
	}
	same := newRun("a", models.VSEPP, "LSEH", 7, Point{1, 14}, Point{2, 13})
	same.Config.Loss.Margin = 0.2
	d = Collect([]*Run{newRun("a", models.VSEPP, "LMH1", 7, Point{1, 12}, Point{2, 10}),
		newRun("a", models.VSEPP, "LMH1", 8, Point{1, 12}, Point{2, 10}), same})[0] // optim.betas is a list
	if table := d.differenceTable(d.Comparisons(false)); table != nil {
		t.Errorf("runs that differ in their loss alone:\n%s", table.Text(nil))
	}
}
