package sweep

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"vsetrain/internal/compute/philox"
	"vsetrain/internal/run/config"
)

// Choice is the value of a point on one axis.
type Choice struct {
	Axis  int // index of the axis
	Key   string
	Value Value
}

// Point is the choice on every axis that exists there, in the order of the file.
type Point []Choice

// String returns "optim.lr=0.001 train.batch=32", "(base)" for a sweep without axes.
func (p Point) String() string {
	if len(p) == 0 {
		return "(base)"
	}
	words := make([]string, len(p))
	for i, c := range p {
		words[i] = c.Key + "=" + c.Value.Text
	}
	return strings.Join(words, " ")
}

// choice returns the choice of a key, with Axis -1 if the point has none.
func (p Point) choice(key string) Choice {
	for _, c := range p {
		if c.Key == key {
			return c
		}
	}
	return Choice{Axis: -1}
}

// Text returns the value of a key, or "" if the point has none.
func (p Point) Text(key string) string { return p.choice(key).Value.Text }

// Short returns the last part of an axis's key, for narrow tables, or the part before a last "name". It returns the
// whole key if another axis has the same short key.
func (d *Definition) Short(key string) string {
	short := lastPart(key)
	for _, other := range d.Keys() {
		if other != key && lastPart(other) == short {
			return key
		}
	}
	return short
}

func lastPart(key string) string {
	key = strings.TrimSuffix(key, ".name")
	return key[strings.LastIndexByte(key, '.')+1:]
}

// ShortText returns the point with short keys: "lr=0.001 loss=lseh".
func (d *Definition) ShortText(p Point) string {
	if len(p) == 0 {
		return p.String()
	}
	words := make([]string, len(p))
	for i, c := range p {
		words[i] = d.Short(c.Key) + "=" + c.Value.Text
	}
	return strings.Join(words, " ")
}

// MarshalJSON writes the point as [{"axis": "optim.lr", "value": "0.001"}].
func (p Point) MarshalJSON() ([]byte, error) {
	type item struct {
		Axis  string `json:"axis"`
		Value string `json:"value"`
	}
	items := make([]item, len(p))
	for i, c := range p {
		items[i] = item{c.Key, c.Value.Text}
	}
	return json.Marshal(items)
}

// holds reports whether the axis exists after the choices made so far.
func (a *Axis) holds(p Point) bool {
	for _, c := range a.When {
		if !slices.ContainsFunc(p, func(earlier Choice) bool {
			return earlier.Key == c.Key && slices.Contains(c.Values, earlier.Value.canonical)
		}) {
			return false
		}
	}
	return true
}

// build makes a point and calls choose for every axis that exists.
func (d *Definition) build(choose func(i int, a *Axis) Value) Point {
	p := Point{}
	for i := range d.Axes {
		if a := &d.Axes[i]; a.holds(p) {
			p = append(p, Choice{i, a.Key(), choose(i, a)})
		}
	}
	return p
}

// grid calls visit with every combination until it returns false.
func (d *Definition) grid(visit func(Point) bool) {
	var descend func(i int, p Point) bool
	descend = func(i int, p Point) bool {
		if i == len(d.Axes) {
			return visit(slices.Clone(p))
		}
		a := &d.Axes[i]
		if !a.holds(p) {
			return descend(i+1, p)
		}
		for _, v := range a.Values {
			if !descend(i+1, append(p[:len(p):len(p)], Choice{i, a.Key(), v})) {
				return false
			}
		}
		return true
	}
	descend(0, Point{})
}

// draw returns the n-th random point, a function of the sweep's seed and n; attempt tells repeated draws apart.
func (d *Definition) draw(n, attempt int) Point {
	s := philox.NewKey(d.Seed, "sweep/random").Stream(uint64(n)<<20 | uint64(attempt))
	u := make([]float64, len(d.Axes)) // for all axes, so that a condition shifts no other axis
	for i := range u {
		u[i] = s.Float64()
	}
	return d.build(func(i int, a *Axis) Value { return a.at(u[i]) })
}

// at returns the value at u in [0, 1): equal shares for a list, even in x or log x for an interval.
func (a *Axis) at(u float64) Value {
	if !a.Continuous() {
		return a.Values[min(int(u*float64(len(a.Values))), len(a.Values)-1)]
	}
	if a.Log {
		return numberSetting(a, round4(a.From*math.Pow(a.To/a.From, u)))
	}
	return numberSetting(a, round4(a.From+u*(a.To-a.From)))
}

// round4 keeps four significant digits, which is more than any setting needs and keeps names readable.
func round4(x float64) float64 {
	y, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 4, 64), 64)
	return y
}

// coordinate returns the position of a value on an ordered axis, in [0, 1].
func (a *Axis) coordinate(v Value) float64 {
	if !a.Continuous() {
		i := slices.IndexFunc(a.Values, func(o Value) bool { return o.Text == v.Text })
		return (float64(i) + 0.5) / float64(len(a.Values))
	}
	if a.Log {
		return clamp(math.Log(v.Number/a.From) / math.Log(a.To/a.From))
	}
	return clamp((v.Number - a.From) / (a.To - a.From))
}

func clamp(u float64) float64 { return min(max(u, 0), 1) }

// parse makes a point of the axis names and values of a file written by MarshalJSON.
func (d *Definition) parse(b []byte) (Point, error) {
	var items []struct{ Axis, Value string }
	if err := json.Unmarshal(b, &items); err != nil {
		return nil, err
	}
	texts := map[string]string{}
	for _, i := range items {
		texts[i.Axis] = i.Value
	}
	var missing error
	p := d.build(func(_ int, a *Axis) Value {
		text, ok := texts[a.Key()]
		delete(texts, a.Key())
		if ok && a.Continuous() {
			if x, err := strconv.ParseFloat(text, 64); err == nil && x >= a.From && x <= a.To {
				return numberSetting(a, x)
			}
		} else if i := slices.IndexFunc(a.Values, func(v Value) bool {
			return v.canonical == config.Canonical(a.Param, text)
		}); ok && i >= 0 {
			return a.Values[i]
		}
		missing = fmt.Errorf("the axis %s does not have the value %q", a.Key(), text)
		return Value{}
	})
	if missing == nil && len(texts) > 0 {
		missing = fmt.Errorf("the sweep lacks axes of %s", b)
	}
	return p, missing
}

// settings returns the settings of a point, in addition to the settings of the sweep.
func (p Point) settings() (out []config.Setting) {
	for _, c := range p {
		out = append(out, c.Value.Settings...)
	}
	return out
}

// Keys returns the names of the axes in the order of the file, each once.
func (d *Definition) Keys() (keys []string) {
	for i := range d.Axes {
		if k := d.Axes[i].Key(); !slices.Contains(keys, k) {
			keys = append(keys, k)
		}
	}
	return keys
}
