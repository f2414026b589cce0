package models

import (
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

// referenceTag is the tag of an option that a checkpoint of a reference repository holds. It is the option's name there
// ("cross_attn"), with pairs of values if they differ ("agg_func=LogSumExp:lse,Mean:mean"). After a + the option may be
// missing: the repository does not have it, or it serves training only.
const referenceTag = "reference"

// ownEntry is the entry of a checkpoint's options for options that the repository does not have, by their keys in the
// configuration. The repositories ignore it.
const ownEntry = "vsetrain"

// modelSection is the section of the configuration that holds Options.
const modelSection = "model."

// Given are options that replace the options of a checkpoint, by their keys below model, such as "scan.lambda". A value
// has the type of the option.
type Given map[string]any

// option is a leaf of Options.
type option struct {
	key   string // below model
	field reflect.StructField
	value reflect.Value
}

// each visits all options, also of other networks.
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

// concerns reports whether the network has an option: other networks and text encoders have sections of their own.
func (o *Options) concerns(key string) bool {
	section, _, nested := strings.Cut(key, ".")
	if bert := o.TextEncoder == TextBert; section == TextBert || strings.HasPrefix(key, "word_") {
		return bert == (section == TextBert)
	}
	return !nested || section == o.Traits().Section
}

// referenced visits the options with a reference tag.
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

// reference is the name of an option in a repository, and the values of text in the repository and here.
type reference struct {
	name   string
	may    bool // be missing
	values [][2]string
}

// parseReferenceTag parses a reference tag. enum are the values of an option of text.
func parseReferenceTag(tag string, enum []string) (r reference) {
	name, list, _ := strings.Cut(tag, "=")
	r.name, r.may = strings.CutPrefix(name, "+")
	for pair := range strings.SplitSeq(list, ",") {
		if theirs, ours, ok := strings.Cut(pair, ":"); ok {
			r.values = append(r.values, [2]string{theirs, ours})
		}
	}
	if list == "" {
		for _, v := range enum {
			r.values = append(r.values, [2]string{v, v})
		}
	}
	return r
}

// take sets an option to a plain value. It returns false if the value is not one of the option's type, and an error if
// it is text that the option does not have.
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

// numberOf returns a plain value as a number.
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

// truthOf returns a plain value as a truth value.
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

// shown formats a value of a checkpoint for a message.
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

// several stands for different values under one name.
type several struct{}

// writeOptions adds the options of a network to the options of its repository.
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

// differing returns the options of the network that differ from other options, by their keys in the configuration, with
// their values in o. Options that only begin a training (json:"-") are not compared.
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

// stored returns the options without a branch that serves training only, which no repository stores.
func (o Options) stored() Options {
	o.VSRN.Caption = false
	return o
}

// GivenBy returns all options of a network, to replace all options in the file of a repository.
func GivenBy(o Options) Given {
	g := Given{}
	o = o.stored()
	for x := range o.each() {
		g[x.key] = x.value.Interface()
	}
	return g
}

// apply sets the given options.
func (g Given) apply(o *Options) {
	for x := range o.each() {
		if v, ok := g[x.key]; ok {
			x.value.Set(reflect.ValueOf(v))
		}
	}
}

// written matches a value as Python's repr writes it: in quotes, or as a NumPy scalar or tensor.
var written = regexp.MustCompile(`^(?:['"](.*)['"]|(?:np\.|numpy\.)?\w+\(([^(),]*)(?:,.*)?\))$`)

// plain returns a value of a checkpoint as a number, text or truth value, or nil for None. Other values stay as they
// are.
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
		for _, value := range []string{"_val", "val"} { // of a node of OmegaConf, in version 2 and in version 1
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

// dictOf returns the named values of a dict, an object, a list of pairs or JSON text; nil for other values.
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

// named adds the plain values and ownEntry of a dict, and of dicts and objects inside it, under names that out does not
// have. The values nearest to the top count; if they differ, the name has the value several.
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

// same reports whether two values are plain and equal.
func same(x, y any) bool {
	switch x.(type) {
	case nil, bool, int64, float64, string:
		return x == y
	}
	return false
}

// evidence returns the networks of which a checkpoint has an option that the others lack.
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
	slices.Sort(with)
	return slices.Compact(with)
}
