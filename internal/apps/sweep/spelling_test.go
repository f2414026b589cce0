package sweep

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"vsetrain/lab/try"
)

// spellings are ways to write a value of a key.
func spellings(rng *rand.Rand, key string, n int) string {
	var ways []string
	switch key {
	case "train.batch":
		ways = []string{fmt.Sprint(n), fmt.Sprintf("0x%X", n), fmt.Sprintf("0o%o", n), fmt.Sprintf("0b%b", n),
			fmt.Sprintf("+%d", n)}
	case "optim.lr":
		x := float64(n) / 1000
		plain := strconv.FormatFloat(x, 'f', -1, 64)
		ways = []string{plain, plain + "0", fmt.Sprintf("%de-3", n), fmt.Sprintf("%.1fE-02", float64(n)/10),
			strings.TrimPrefix(plain, "0"), "+" + plain}
	case "model.vsepp.use_abs":
		ways = [][]string{{"false", "False", "FALSE"}, {"true", "True", "TRUE"}}[n%2]
	default: // optim.betas
		return fmt.Sprintf("[0.%d, %s]", n, []string{"0.99", "0.990", "99e-2", ".99"}[rng.IntN(4)])
	}
	return ways[rng.IntN(len(ways))]
}

// A condition holds for the points whose values equal its own, however both are spelt.
func TestConditionsCompareValues(t *testing.T) {
	dir := t.TempDir()
	try.Do(t, os.WriteFile(filepath.Join(dir, "base.yaml"), []byte("model: {network: vsepp}\nloss: {name: lmh}\n"),
		0o666))
	rng := rand.New(rand.NewPCG(19, 1))
	keys := []string{"train.batch", "optim.lr", "model.vsepp.use_abs", "optim.betas"}
	for range 150 {
		key := keys[rng.IntN(len(keys))]
		values := rng.Perm(8)[:3]
		if key == "model.vsepp.use_abs" {
			values = []int{0, 1}
		}
		asked := map[int]bool{}
		var list, when []string
		for _, v := range values {
			list = append(list, spellings(rng, key, v+2))
			if rng.IntN(2) == 0 {
				asked[v] = true
				when = append(when, spellings(rng, key, v+2))
			}
		}
		if len(when) == 0 {
			continue
		}
		text := fmt.Sprintf("base: base.yaml\naxes:\n  - {param: %s, choices: [%s]}\n  - {param: loss.margin, values: "+
			"[0.15, 0.25], "+
			"when: {%s: [%s]}}\n", key, strings.Join(list, ", "), key, strings.Join(when, ", "))
		file := filepath.Join(dir, "s.yaml")
		try.Do(t, os.WriteFile(file, []byte(text), 0o666))
		d, err := Load(file)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		p, err := NewPlan(d)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if want := len(values) + len(asked); p.Points != want {
			t.Errorf("%d points, want %d, of\n%s", p.Points, want, text)
		}
		for _, trial := range p.Trials { // as a worker reads it again
			b := try.Get(trial.Point.MarshalJSON())(t)
			if again, err := d.parse(b); err != nil || again.String() != trial.Point.String() {
				t.Errorf("%s is read as %v, %v", b, again, err)
			}
		}
	}
}
