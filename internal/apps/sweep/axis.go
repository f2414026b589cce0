package sweep

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"vsetrain/internal/run/config"
)

// mostValues is the largest number of values of one axis.
const mostValues = 10_000

// interval is a range or log_range.
type interval struct {
	from, to, step float64
	count          int
	seen           map[string]*yaml.Node
	node           *yaml.Node
}

// axis decodes one axis: param or name; values, range, log_range or choices; and when.
func (r *reader) axis(path string, n *yaml.Node, earlier []Axis) Axis {
	a := Axis{At: r.at(n)}
	var kinds []string
	var linear, logarithmic *interval
	kind := func(name string, decode func(string, *yaml.Node, *yaml.Node)) key {
		return key{name, func(path string, k, v *yaml.Node) {
			kinds = append(kinds, name)
			decode(path, k, v)
		}}
	}
	var values, choices []*yaml.Node
	before := len(r.list)
	seen := r.section(path, n,
		key{"param", r.text(&a.Param)}, key{"name", r.text(&a.Name)},
		kind("values", r.items("values", func(_ string, v *yaml.Node) { values = append(values, v) })),
		kind("choices", r.items("choices", func(_ string, v *yaml.Node) { choices = append(choices, v) })),
		kind("range", func(path string, _, v *yaml.Node) { linear = r.interval(path, v, "step") }),
		kind("log_range", func(path string, _, v *yaml.Node) { logarithmic = r.interval(path, v, "count") }),
		key{"when", func(path string, _, v *yaml.Node) { a.When = r.when(path, v, earlier) }},
	)
	if k := seen["param"]; k != nil && a.Param != "" {
		var known bool
		a.Whole, known = config.Whole(a.Param)
		if !known { // the message of the configuration itself
			r.list = append(r.list, config.CheckSettings([]config.Setting{{Key: a.Param, Value: k,
				KeyAt: valueAt(r, n, "param"), At: r.at(k)}})...)
			return a
		}
		if a.Param == "seed" {
			r.add(k, path, "seeds belong to seeds: [7, 8], not to an axis")
		}
	}
	if len(r.list) > before {
		return a
	}
	switch {
	case (a.Param == "") == (a.Name == ""):
		r.add(n, path, "expected param (a key of the configuration) or name (of choices), one of them")
	case len(kinds) != 1:
		r.add(n, path, "expected one of values, range, log_range and choices, found %s; an axis without values is "+
			"empty", found(kinds))
	case a.Name != "" && kinds[0] != "choices":
		r.add(n, path, "a named axis has choices, found %s", kinds[0])
	case slices.ContainsFunc(earlier, func(e Axis) bool { return e.Key() == a.Key() && len(a.When) == 0 }):
		r.add(n, path, "%s has an axis already; only axes with when may share a key", a.Key())
	default:
		r.fill(path, &a, values, choices, linear, logarithmic)
	}
	return a
}

func valueAt(r *reader, n *yaml.Node, key string) config.Source {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return r.at(n.Content[i+1])
		}
	}
	return r.at(n)
}

func found(kinds []string) string {
	if len(kinds) == 0 {
		return "none"
	}
	return strings.Join(kinds, " and ")
}

// fill makes the values of an axis and checks each against the configuration.
func (r *reader) fill(path string, a *Axis, values, choices []*yaml.Node, linear, logarithmic *interval) {
	switch {
	case linear != nil:
		r.spread(path, a, linear)
	case logarithmic != nil:
		a.Log = true
		r.spread(path, a, logarithmic)
	default:
		a.Ordered = len(choices) == 0
		for _, v := range append(values, choices...) {
			a.Values = append(a.Values, r.value(path, a, v))
		}
		for i, v := range a.Values {
			if j := slices.IndexFunc(a.Values[:i], func(o Value) bool { return o.Text == v.Text }); j >= 0 {
				r.add(append(values, choices...)[i], path, "%s is there twice", v.Text)
			}
		}
		a.Ordered = a.Ordered && !slices.ContainsFunc(a.Values, func(v Value) bool { return math.IsNaN(v.Number) })
	}
	for i, v := range a.Values {
		a.Values[i].canonical = config.Canonical(a.Param, v.Text)
	}
	if a.Param == "" {
		return
	}
	var all []config.Setting
	for _, v := range a.Values {
		all = append(all, v.Settings...)
	}
	if a.Continuous() {
		for _, x := range []float64{a.From, a.To} {
			all = append(all, numberSetting(a, x).Settings...)
		}
	}
	r.list = append(r.list, config.CheckSettings(all)...)
}

// value decodes an item of values or choices: a value of the parameter, or the name of a choice with what it sets.
func (r *reader) value(path string, a *Axis, n *yaml.Node) Value {
	if a.Param != "" {
		v := Value{Text: inline(n), Number: math.NaN(),
			Settings: []config.Setting{{Key: a.Param, Value: n, KeyAt: r.at(n), At: r.at(n)}}}
		if x, err := config.Float(n); err == nil {
			v.Number = x
		}
		return v
	}
	if n.Kind == yaml.ScalarNode && n.Tag != "!!null" {
		return Value{Text: n.Value, Number: math.NaN()}
	}
	var v Value
	seen := r.section(path, n, key{"name", r.text(&v.Text)},
		key{"set", func(path string, _, s *yaml.Node) { v.Settings = r.settings(path, s) }})
	if n.Kind == yaml.MappingNode && seen["name"] == nil {
		r.add(n, path, "a choice needs a name")
	}
	v.Number = math.NaN()
	return v
}

// inline writes a scalar or a list of scalars on one line.
func inline(n *yaml.Node) string {
	if n.Kind != yaml.SequenceNode {
		return n.Value
	}
	items := make([]string, len(n.Content))
	for i, c := range n.Content {
		items[i] = inline(c)
	}
	return "[" + strings.Join(items, ", ") + "]"
}

func (r *reader) interval(path string, n *yaml.Node, third string) *interval {
	v := &interval{node: n}
	last := key{third, r.number(&v.step)}
	if third == "count" {
		last.decode = r.whole(&v.count, 2, mostValues)
	}
	v.seen = r.section(path, n, key{"from", r.number(&v.from)}, key{"to", r.number(&v.to)}, last)
	return v
}

// spread makes the values of a range, or an interval where it has neither step nor count.
func (r *reader) spread(path string, a *Axis, v *interval) {
	a.Ordered, a.From, a.To = true, v.from, v.to
	switch {
	case v.seen["from"] == nil || v.seen["to"] == nil:
		r.add(v.node, path, "a range needs from and to")
	case v.from >= v.to:
		r.add(v.node, path, "the range is empty: from %v is not below to %v", v.from, v.to)
	case a.Log && v.from <= 0:
		r.add(v.node, path, "log_range needs from above 0, found %v", v.from)
	case a.Log && v.count > 0:
		for i := range v.count {
			x := v.from * math.Pow(v.to/v.from, float64(i)/float64(v.count-1))
			a.Values = append(a.Values, numberSetting(a, x))
		}
		// rounding to whole numbers can give the same value twice
		a.Values = slices.CompactFunc(a.Values, func(x, y Value) bool { return x.Text == y.Text })
	case v.seen["step"] != nil && v.step <= 0:
		r.add(v.node, path, "expected a step above 0, found %v", v.step)
	case v.step > 0 && (v.to-v.from)/v.step >= mostValues:
		r.add(v.node, path, "more than %d values; choose a larger step", mostValues)
	case v.step > 0:
		for i := 0; ; i++ {
			x := v.from + float64(i)*v.step
			if x > v.to+1e-9*v.step {
				return
			}
			a.Values = append(a.Values, numberSetting(a, x))
		}
	}
}

// numberSetting returns a value of a numeric axis, rounded to six digits so that it can be written and read again.
func numberSetting(a *Axis, x float64) Value {
	if a.Whole {
		x = math.Round(x)
	}
	text := strconv.FormatFloat(x, 'g', 6, 64)
	x, _ = strconv.ParseFloat(text, 64)
	tag := "!!float"
	if x == math.Trunc(x) && math.Abs(x) < 1e15 {
		text, tag = fmt.Sprintf("%.0f", x), "!!int"
	}
	node := &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: text}
	return Value{Text: text, Number: x, Settings: []config.Setting{{Key: a.Param, Value: node, KeyAt: a.At, At: a.At}}}
}

// when decodes the conditions of an axis on earlier ones.
func (r *reader) when(path string, n *yaml.Node, earlier []Axis) (out []Condition) {
	if n.Kind != yaml.MappingNode || len(n.Content) == 0 {
		r.add(n, path, "expected a condition such as {model.network: vsepp}, found %s", config.Describe(n))
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		c := Condition{Key: k.Value}
		var known, texts, has []string
		interval, param := false, ""
		for _, e := range earlier {
			known = append(known, e.Key())
			if e.Key() == c.Key {
				param, interval = e.Param, interval || e.Continuous()
				for _, x := range e.Values {
					texts, has = append(texts, x.Text), append(has, x.canonical)
				}
			}
		}
		items := v.Content
		if v.Kind == yaml.ScalarNode || slices.Contains(has, config.Canonical(param, inline(v))) { // a list is a value
			items = []*yaml.Node{v}
		}
		for _, item := range items {
			c.Values = append(c.Values, config.Canonical(param, inline(item)))
		}
		switch {
		case !slices.Contains(known, c.Key):
			r.add(k, path, "%s is not an earlier axis; earlier axes are %s", c.Key, found(known))
		case interval:
			r.add(k, path, "%s is an interval; conditions need an axis with a list of values", c.Key)
		default:
			for j, text := range c.Values {
				if !slices.Contains(has, text) {
					r.add(items[j], path, "%s is never %s; it has %s", c.Key, inline(items[j]),
						strings.Join(texts, ", "))
				}
			}
		}
		out = append(out, c)
	}
	return out
}
