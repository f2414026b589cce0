package report

import (
	"cmp"
	"slices"
	"strings"

	"vsetrain/internal/run/config"
)

// sameInAll are the keys, or beginnings of keys, that a comparison need not tell: what is compared, where it ran, and
// what changes no result.
var sameInAll = []string{"version", "seed", "data.dir", "run.", "track.", "loss.name", "device.",
	"train.log_step", "train.keep", "train.collapse_steps", "train.on_collapse"}

// DifferenceTable tells what beside the loss differs between the runs of comparisons: settings, the epochs they were
// trained for, and whether the base was still rising when it ended, so that more epochs may have raised it. It is nil
// where nothing does.
func (d *DataSet) DifferenceTable(comparisons []*Comparison) *Table {
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

// settings returns the values of the keys that count in a comparison, for several runs in the order of the runs.
// Settings of other losses and networks than the ones of the group, which have no effect, are left out.
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

// matches reports whether a key is in a list of keys, or of beginnings of keys, which end in a full stop.
func matches(list []string, key string) bool {
	return slices.ContainsFunc(list, func(p string) bool {
		return key == p || strings.HasSuffix(p, ".") && strings.HasPrefix(key, p)
	})
}

// HasEffect reports whether a setting belongs to the loss and the network of a run: loss.lseh.lambda to lseh alone,
// model.bert.* to networks with BERT.
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

// epochs says how far the runs of a group were trained: one number where it is the same for all.
func (g *Group) epochs() string {
	var all []string
	for _, r := range g.Runs {
		if e := fixed(r.Epochs(), 1); !slices.Contains(all, e) {
			all = append(all, e)
		}
	}
	return strings.Join(all, ", ")
}

// rising names the runs that came to their end with their best validation as the last one.
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
