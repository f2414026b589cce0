package report

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"vsetrain/internal/run/config"
	"vsetrain/loss"
	"vsetrain/models"
)

// Group holds the runs of one setting, which differ in their seeds and in settings that do not change results.
type Group struct {
	Network string // as the paper writes it
	Loss    string // LMH1, LMH2, LSEH ...
	Runs    []*Run // one for each seed, sorted by seed
	Repeats []*Run // other runs of these seeds; tables and figures leave them out
	key     string
}

// add adds a run. Only one run of each seed counts, because the same seed trained again, resumed or copied says nothing
// about other seeds. A finished run counts before an unfinished one, then the longest run, the run validated last, and
// the run named first.
func (g *Group) add(r *Run) {
	at := slices.IndexFunc(g.Runs, func(o *Run) bool { return o.Config.Seed == r.Config.Seed })
	if at < 0 {
		g.Runs = append(g.Runs, r)
		return
	}
	kept := g.Runs[at]
	validated := func(r *Run) (t time.Time) {
		if n := len(r.Validations); n > 0 {
			t = r.Validations[n-1].Time
		}
		return t
	}
	if cmp.Or(b2i(r.Finished())-b2i(kept.Finished()), cmp.Compare(r.Epochs(), kept.Epochs()),
		validated(r).Compare(validated(kept))) > 0 {
		g.Runs[at], r = r, kept
	}
	g.Repeats = append(g.Repeats, r)
}

// DataSet holds the runs on one data set. Runs on different data sets are never compared.
type DataSet struct {
	Name   string // last element of the folder; the whole path if two data sets share it
	Dir    string
	Groups []*Group // by network, then by loss
	Base   *Group   // the base of the others of its network; nil for the paper's comparisons
}

// SetBase makes the setting of a run, given by its name or directory, the base of its data set.
func SetBase(sets []*DataSet, run string) error {
	var in []*Group
	var names []string
	for _, d := range sets {
		for _, r := range d.Runs() {
			names = append(names, r.Name)
		}
		for _, g := range d.Groups {
			if slices.ContainsFunc(slices.Concat(g.Runs, g.Repeats), func(r *Run) bool {
				return r.Name == run || filepath.Clean(r.Dir) == filepath.Clean(run)
			}) {
				d.Base, in = g, append(in, g)
			}
		}
	}
	if len(in) != 1 {
		return fmt.Errorf("the base %s: expected the name or the directory of one of the runs (%s), found %d settings "+
			"with it", run, strings.Join(names, ", "), len(in))
	}
	return nil
}

// NetworkName returns the name of a network in tables.
func NetworkName(m *models.Options) string {
	t := m.Traits()
	return t.Name()
}

// LossName returns the name of the loss of a run in tables.
func (r *Run) LossName() string {
	if r.Label != "" {
		return r.Label
	}
	unacted := r.Config.Loss.Unacted(r.Epochs())
	if p := strings.ToUpper(config.PresetLoss(&r.Config)); slices.Contains(loss.Titles(), p) {
		return p + unacted // LMH1 and LMH2 are LMH with the margin and the schedule of the paper
	}
	return r.Config.Loss.Title() + unacted
}

// ShortLossName is LossName without the usual kind of semantic vectors, for tables with only that kind.
func (r *Run) ShortLossName() string {
	name, kinds := r.LossName(), r.Config.Loss.MarginTitles()
	if r.Label == "" && len(kinds) > 0 && strings.HasPrefix(name, kinds[0]) {
		return strings.ToUpper(r.Config.Loss.Name) + name[len(kinds[0]):]
	}
	return name
}

// immaterial are the keys, or beginnings of keys, in which the runs of a group may differ.
var immaterial = []string{"version", "seed", "data.dir", "run.", "track.", "device.", "train.log_step",
	"train.early_stop", "train.keep", "train.collapse_steps", "train.on_collapse", "train.val_precision"}

// setting returns the keys of a run that determine its group.
func setting(c *config.Config) []config.Value {
	return slices.DeleteFunc(config.Values(c), func(v config.Value) bool { return matches(immaterial, v.Key) })
}

// Collect groups runs by data set, in the order in which the data sets first appear, and by network and loss.
func Collect(runs []*Run) []*DataSet {
	var sets []*DataSet
	for _, r := range runs {
		dir := filepath.Clean(r.Config.Data.Dir)
		at := slices.IndexFunc(sets, func(d *DataSet) bool { return d.Dir == dir })
		if at < 0 {
			at = len(sets)
			sets = append(sets, &DataSet{Name: filepath.Base(dir), Dir: dir})
		}
		sets[at].add(r)
	}
	for _, d := range sets {
		if slices.ContainsFunc(sets, func(o *DataSet) bool {
			return o != d && filepath.Base(o.Dir) == filepath.Base(d.Dir)
		}) {
			d.Name = d.Dir
		}
		d.arrange()
	}
	return sets
}

func (d *DataSet) add(r *Run) {
	name, network := r.LossName(), NetworkName(&r.Config.Model)
	key := fmt.Sprint(name, setting(&r.Config))
	for _, g := range d.Groups {
		if g.key == key && g.Network == network {
			g.add(r)
			return
		}
	}
	d.Groups = append(d.Groups, &Group{Network: network, Loss: name, Runs: []*Run{r}, key: key})
}

// Repeated names the runs that are left out, with the runs that count instead.
func (d *DataSet) Repeated() (lines []string) {
	for _, g := range d.Groups {
		for _, r := range g.Repeats {
			kept := g.Runs[slices.IndexFunc(g.Runs, func(o *Run) bool { return o.Config.Seed == r.Config.Seed })]
			this, that := r.Name, kept.Name
			if this == that {
				this, that = r.Dir, kept.Dir
			}
			lines = append(lines, fmt.Sprintf("%s is left out: it has the setting and the seed, %d, of %s, and a seed "+
				"counts once.", this, r.Config.Seed, that))
		}
	}
	return lines
}

// arrange sorts the groups, and distinguishes groups with the same name by what they differ in.
func (d *DataSet) arrange() {
	rank := func(names []string, name string) int {
		kind, _, _ := strings.Cut(name, " ") // LMH of "LMH α=0.05"
		if i := slices.Index(names, kind); i >= 0 {
			return i
		}
		return len(names)
	}
	lossOrder := loss.Titles()
	slices.SortStableFunc(d.Groups, func(a, b *Group) int {
		return cmp.Or(cmp.Compare(a.traits().Order, b.traits().Order), cmp.Compare(a.Network, b.Network),
			rank(lossOrder, a.Loss)-rank(lossOrder, b.Loss))
	})
	several := false // kinds of semantic vectors are named only if there are several
	for _, g := range d.Groups {
		several = several || g.kind() > 0
		slices.SortStableFunc(g.Runs, func(a, b *Run) int { return cmp.Compare(a.Config.Seed, b.Config.Seed) })
	}
	for _, g := range d.Groups {
		if !several {
			g.Loss = g.Runs[0].ShortLossName()
		}
	}
	tell(d.Groups)
}

// tell appends the values that differ to equal names.
func tell(groups []*Group) {
	names := map[*Group]string{}
	for _, g := range groups {
		var same []*Group
		for _, o := range groups {
			if o.Network == g.Network && o.Loss == g.Loss {
				same = append(same, o)
			}
		}
		if len(same) < 2 {
			continue
		}
		var values []string
		mine := setting(&g.Runs[0].Config)
		for i, v := range mine {
			if slices.ContainsFunc(same, func(o *Group) bool { return setting(&o.Runs[0].Config)[i].Text != v.Text }) {
				_, short, _ := strings.Cut(v.Key, ".")
				values = append(values, short+"="+v.Text)
			}
		}
		if len(values) > 3 {
			values = append(values[:3], "...")
		}
		names[g] = g.Loss + " (" + strings.Join(values, ", ") + ")"
	}
	for g, name := range names {
		g.Loss = name
	}
}

// kind returns the kind of semantic vectors that give the margins of a group's loss: 0 for the usual kind, -1 for a
// loss without such margins.
func (g *Group) kind() int {
	o := &g.Runs[0].Config.Loss
	return slices.Index(o.MarginTitles(), o.Title())
}

// traits returns the traits of the network of a group.
func (g *Group) traits() models.Traits { return g.Runs[0].Config.Model.Traits() }

// networks returns the groups of each network, in order.
func (d *DataSet) networks() [][]*Group {
	return chunk(d.Groups, func(a, b *Group) bool { return a.Network == b.Network })
}

// chunk cuts a slice between neighbours that are not alike.
func chunk[T any](s []T, alike func(a, b T) bool) [][]T {
	var out [][]T
	for i := range s {
		if i > 0 && alike(s[i-1], s[i]) {
			out[len(out)-1] = append(out[len(out)-1], s[i])
			continue
		}
		out = append(out, []T{s[i]})
	}
	return out
}
