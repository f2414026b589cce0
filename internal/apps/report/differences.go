package report

import (
	"cmp"
	"slices"
	"strings"

	"vsetrain/internal/run/config"
)

// sameInAll are the keys, or beginnings of keys, that a comparison does not show: what is compared, where it ran, and
// what does not change results.
var sameInAll = []string{"version", "seed", "data.dir", "run.", "track.", "loss.name", "device.",
	"train.log_step", "train.keep", "train.collapse_steps", "train.on_collapse"}

// differenceTable shows what besides the loss differs between the runs of comparisons: settings, the number of epochs,
// and whether the base was still rising when it ended, so that more epochs could have raised it. It is nil if nothing
// differs.
func (d *DataSet) differenceTable(comparisons []*Comparison) *Table {
	t := &Table{Name: "differences", Title: "What differs between the compared runs on " + d.Name,
		Heads: heads("network", "base", "loss", "what", "of the base", "of the loss")}
	rising := map[string]bool{}
	for i, c := range comparisons {
		rule := i > 0
		add := func(what, base, target string) {
			t.row(rule, c.Base.Network, c.Base.Loss, c.Target.Loss, what, base, target)
			rule = false
		}
		base, target := c.Base.settings(), c.Target.settings()
		for _, v := range config.Values(&c.Base.Runs[0].Config) { // for their order
			a, inA := base[v.Key]
			b, inB := target[v.Key]
			if inA && inB && a != b {
				add(v.Key, a, b)
			}
		}
		if a, b := c.Base.epochs(), c.Target.epochs(); a != b {
			add("epochs trained", a, b)
		}
		if a, b := c.Base.rising(), c.Target.rising(); len(a) > 0 {
			add("best at the last validation", strings.Join(a, ", "), cmp.Or(strings.Join(b, ", "), "-"))
			for _, name := range a {
				rising[name] = true
			}
		}
	}
	if len(t.Rows) == 0 {
		return nil
	}
	if names := d.names(func(r *Run) bool { return rising[r.Name] }); len(names) > 0 {
		t.Notes = append(t.Notes, "Still rising when they ended, so that more epochs may raise them (the best "+
			"validation of each base is its last): "+strings.Join(names, ", ")+".")
	}
	return t
}

// settings returns the values of the keys that count in a comparison; different values are joined in the order of the
// runs. It leaves out settings of other losses and networks, which have no effect.
func (g *Group) settings() map[string]string {
	all := map[string][]string{}
	for _, r := range g.Runs {
		for _, v := range config.Values(&r.Config) {
			if v.Key == "device.precision" || !matches(sameInAll, v.Key) && HasEffect(&r.Config, v.Key) {
				if !slices.Contains(all[v.Key], v.Text) {
					all[v.Key] = append(all[v.Key], v.Text)
				}
			}
		}
	}
	out := map[string]string{}
	for key, texts := range all {
		out[key] = strings.Join(texts, ", ")
	}
	return out
}

// matches reports whether a list holds a key or, ending in a full stop, a beginning of it.
func matches(list []string, key string) bool {
	return slices.ContainsFunc(list, func(p string) bool {
		return key == p || strings.HasSuffix(p, ".") && strings.HasPrefix(key, p)
	})
}

// HasEffect reports whether a setting applies to the loss and the network of a run: loss.lseh.lambda only applies to
// lseh, model.bert.* only to networks with BERT.
func HasEffect(c *config.Config, key string) bool {
	parts := strings.Split(key, ".")
	if len(parts) < 3 {
		return true
	}
	switch parts[0] {
	case "loss":
		return parts[1] == c.Loss.Name
	case "model":
		return parts[1] == c.Model.Traits().Section || parts[1] == c.Model.TextEncoder
	}
	return true
}

// epochs lists the different numbers of epochs that the runs of a group were trained for.
func (g *Group) epochs() string {
	var all []string
	for _, r := range g.Runs {
		if e := fixed(r.Epochs(), 1); !slices.Contains(all, e) {
			all = append(all, e)
		}
	}
	return strings.Join(all, ", ")
}

// rising names the finished runs whose last validation is their best.
func (g *Group) rising() (names []string) {
	for _, r := range g.Runs {
		n := len(r.Validations)
		if n < 2 || !r.Finished() {
			continue
		}
		if best, _ := r.Best(); best.Step == r.Validations[n-1].Step {
			names = append(names, r.Name)
		}
	}
	return names
}
