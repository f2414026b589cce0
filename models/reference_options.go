package models

import (
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"vsetrain/internal/files/pickle"
	"vsetrain/internal/files/torchfile"
	"vsetrain/internal/system/options"
)

// referenceTag is the tag of an option of a network that a checkpoint of a reference repository holds: its name there,
// "cross_attn", and where the values differ both of each, "agg_func=LogSumExp:lse,Mean:mean". With + in front it may be
// missing: the repository has no such option, or it serves training only.
const referenceTag = "reference"

// ownEntry is the entry of a checkpoint's options that holds what the repository has no option for, by the keys of the
// configuration. The repositories do not look at it.
const ownEntry = "vsetrain"

// modelSection is the section of the configuration that holds Options.
const modelSection = "model."

// Given are options of a network that a person gives in place of the options of a checkpoint, by their keys below
// model, such as "scan.lambda". A value has the type of the option.
type Given map[string]any

// option is a leaf of Options.
type option struct {
	key   string // below model
	field reflect.StructField
	value reflect.Value
}

// each visits all options of a network, the options of other networks too.
func (o *Options) each() iter.Seq[option] {
	return func(yield func(option) bool) { eachOf("", reflect.ValueOf(o).Elem(), yield) }
}

func eachOf(prefix string, section reflect.Value, yield func(option) bool) bool {
	for i := range section.NumField() {
		f := section.Type().Field(i)
		key, ok := options.Key(f)
		switch {
		case !ok:
		case f.Type.Kind() == reflect.Struct:
			if !eachOf(prefix+key+".", section.Field(i), yield) {
				return false
			}
		case !yield(option{prefix + key, f, section.Field(i)}):
			return false
		}
	}
	return true
}

// concerns reports whether an option is one of the network: of no section of another network, or of another encoder.
func (o *Options) concerns(key string) bool {
	section, _, nested := strings.Cut(key, ".")
	if bert := o.TextEncoder == TextBert; section == TextBert || strings.HasPrefix(key, "word_") {
		return bert == (section == TextBert)
	}
	return !nested || section == o.Traits().Section
}

// referenced visits the options that a checkpoint of the network's repository holds.
func (o *Options) referenced() iter.Seq2[option, reference] {
	return func(yield func(option, reference) bool) {
		for x := range o.each() {
			tag, ok := x.field.Tag.Lookup(referenceTag)
			if ok && o.concerns(x.key) && !yield(x, parseReferenceTag(tag, options.RuleOf(x.field).Enum)) {
				return
			}
		}
	}
}

// reference is how a repository calls an option, and the values of text: theirs and ours.
type reference struct {
	name   string
	may    bool // be missing
	values [][2]string
}

// parseReferenceTag reads the tag of an option of text with the values enum, or of another one.
func parseReferenceTag(tag string, enum []string) (r reference) {
	name, list, _ := strings.Cut(tag, "=")
	r.name, r.may = strings.CutPrefix(name, "+")
	for pair := range strings.SplitSeq(list, ",") {
		if theirs, ours, ok := strings.Cut(pair, ":"); ok {
			r.values = append(r.values, [2]string{theirs, ours})
		}
	}
	for i := 0; list == "" && i < len(enum); i++ {
		r.values = append(r.values, [2]string{enum[i], enum[i]})
	}
	return r
}

// take sets an option to what a plain value denotes; false where it denotes nothing of the option's type. A name that
// the option does not have is an error.
func (ref *reference) take(v reflect.Value, x any) (bool, error) {
	text, isText := x.(string)
	text = strings.TrimSpace(text)
	n, isNumber := numberOf(x)
	truth, isTruth := truthOf(x)
	switch {
	case v.CanFloat() && isNumber:
		v.SetFloat(n)
	case v.CanInt() && isNumber && n == math.Trunc(n) && math.Abs(n) < 1<<53:
		v.SetInt(int64(n))
	case v.Kind() == reflect.Bool && isTruth:
		v.SetBool(truth)
	case v.Kind() == reflect.String && len(ref.values) == 0 && isText:
		v.SetString(text)
	case v.Kind() == reflect.String && len(ref.values) > 0 && (isText || isTruth):
		var known []string
		for _, p := range ref.values {
			if theirs, flag := truthOf(p[0]); p[0] == text || flag && isTruth && theirs == truth {
				v.SetString(p[1])
				return true, nil
			}
			known = append(known, p[0])
		}
		return false, fmt.Errorf("%s %s, expected one of %s", ref.name, shown(x), strings.Join(known, ", "))
	default:
		return false, nil
	}
	return true, nil
}

// numberOf returns the number that a plain value denotes.
func numberOf(x any) (float64, bool) {
	switch n := x.(type) {
	case int64:
		return float64(n), true
	case float64:
		return n, true
	case string:
		f, err := strconv.ParseFloat(strings.TrimSpace(n), 64)
		return f, err == nil
	}
	return 0, false
}

// truthOf returns the truth value that a plain value denotes.
func truthOf(x any) (value, ok bool) {
	if b, ok := x.(bool); ok {
		return b, true
	}
	if n, ok := numberOf(x); ok {
		return n == 1, n == 0 || n == 1
	}
	text, _ := x.(string)
	switch strings.ToLower(strings.TrimSpace(text)) {
	case "true", "yes", "on":
		return true, true
	case "false", "no", "off":
		return false, true
	}
	return false, false
}

// shown is a value of a checkpoint in a message.
func shown(x any) string {
	switch v := x.(type) {
	case string:
		return fmt.Sprintf("%.40q", v)
	case bool, int64, float64:
		return fmt.Sprint(v)
	case several:
		return "there several times with different values"
	}
	return "a " + pickle.TypeName(x)
}

// several stands for values that contradict each other.
type several struct{}

// writeOptions puts the options of a network among the options of its repository.
func writeOptions(to map[string]any, o Options) {
	for x, ref := range o.referenced() {
		to[ref.name] = x.value.Interface()
		for _, p := range ref.values {
			if x.value.String() == p[1] {
				if to[ref.name] = p[0]; p[0] == "True" || p[0] == "False" {
					to[ref.name] = p[0] == "True"
				}
			}
		}
	}
}

// differing returns the options of the network that are not the same, by their keys in the configuration, with their
// values in o. Where a training began (json:"-") is not an option of weights.
func (o Options) differing(from Options) map[string]any {
	out, other := map[string]any{}, map[string]any{}
	for x := range from.each() {
		other[x.key] = x.value.Interface()
	}
	for x := range o.each() {
		if v := x.value.Interface(); v != other[x.key] && o.concerns(x.key) && x.field.Tag.Get("json") != "-" {
			out[modelSection+x.key] = v
		}
	}
	return out
}

// stored are the options of a network as the file of a repository can have them: without a branch that serves training
// only.
func (o Options) stored() Options {
	o.VSRN.Caption = false
	return o
}

// GivenBy are all options of a network, in place of whatever the file of a repository says.
func GivenBy(o Options) Given {
	g := Given{}
	o = o.stored()
	for x := range o.each() {
		g[x.key] = x.value.Interface()
	}
	return g
}

// apply sets the options that are given.
func (g Given) apply(o *Options) {
	for x := range o.each() {
		if v, ok := g[x.key]; ok {
			x.value.Set(reflect.ValueOf(v))
		}
	}
}

// written is a value as Python's repr writes it: in quotes, or as a NumPy scalar or tensor.
var written = regexp.MustCompile(`^(?:['"](.*)['"]|(?:np\.|numpy\.)?\w+\(([^(),]*)(?:,.*)?\))$`)

// plain returns the number, text or truth value that a value of a checkpoint is, or nil for None; anything else as it
// is.
func plain(x any) any {
	switch v := x.(type) {
	case int:
		return int64(v)
	case string:
		t := strings.TrimSpace(v)
		if m := written.FindStringSubmatch(t); m != nil {
			t = m[1] + m[2]
			x = t
		}
		if t == "None" || t == "null" || t == "" {
			return nil
		}
	case pickle.Bytes:
		text, _ := pickle.Text(v)
		return plain(text)
	case *pickle.Array:
		if s, ok := v.Scalar(); ok {
			return plain(s)
		}
	case *pickle.Object:
		for _, value := range []string{"_val", "val"} { // of a node of OmegaConf, today and in its version 1
			if inner, ok := v.Attrs.Get(value); ok && strings.HasPrefix(v.Class, "omegaconf.") {
				return plain(inner)
			}
		}
	case *torchfile.Tensor:
		if v.Len() != 1 {
			break
		}
		f, err := v.Float64s()
		switch {
		case err != nil:
		case v.DType == "BOOL":
			return f[0] != 0
		case !strings.Contains(v.DType, "F"):
			return int64(f[0])
		default:
			return f[0]
		}
	}
	return x
}

// dictOf returns the named values of a dict or an object, or of its text as JSON; nil where there are none.
func dictOf(v any) *pickle.Dict {
	var m map[string]any
	switch d := v.(type) {
	case *pickle.Dict:
		return d
	case *pickle.Object:
		return &d.Attrs
	case *pickle.List: // of pairs
		pairs := &pickle.Dict{}
		for _, item := range d.Items {
			pair, _ := item.(pickle.Tuple)
			if len(pair) != 2 {
				return nil
			}
			pairs.Set(pair[0], pair[1])
		}
		return pairs
	case map[string]any:
		m = d
	case string:
		if json.Unmarshal([]byte(d), &m) != nil {
			return nil
		}
	}
	if m == nil {
		return nil
	}
	d := &pickle.Dict{}
	for k, x := range m {
		d.Set(k, x)
	}
	return d
}

// named adds the plain values, and ownEntry, that are named in a dict and in dicts and objects inside of it, where the
// name is new: of several of one name those nearest to the top, which must be equal.
func named(out map[string]any, top *pickle.Dict) {
	if top == nil {
		return
	}
	level, seen := []*pickle.Dict{top}, map[*pickle.Dict]bool{nil: true}
	for len(level) > 0 {
		here, next := map[string]any{}, []*pickle.Dict(nil)
		for _, d := range level {
			for k, x := range d.All() {
				name, ok := pickle.Text(k)
				x = plain(x)
				if inner := dictOf(x); inner != nil && inner.Len() > 0 && name != ownEntry {
					if !seen[inner] {
						seen[inner] = true
						next = append(next, inner)
					}
					continue
				}
				if was, twice := here[name]; twice && !same(was, x) {
					x = several{}
				}
				if ok {
					here[name] = x
				}
			}
		}
		for name, x := range here {
			if _, nearer := out[name]; !nearer {
				out[name] = x
			}
		}
		level = next
	}
}

// same reports whether two plain values are equal; other values are not.
func same(x, y any) bool {
	switch x.(type) {
	case nil, bool, int64, float64, string:
		return x == y
	}
	return false
}

// evidence returns the evidence of some networks for which a checkpoint has an option that the others do not have.
func evidence(opt map[string]any, networks []string) (with []string) {
	owners := map[string][]string{}
	for _, name := range networks {
		o := DefaultOptions()
		o.Network = name
		for _, ref := range o.referenced() {
			owners[ref.name] = append(owners[ref.name], name)
		}
	}
	for option, of := range owners {
		if _, there := opt[option]; there && len(of) == 1 {
			with = append(with, of[0])
		}
	}
	slices.SortFunc(with, cmp.Compare[string])
	return slices.Compact(with)
}
