// Package options checks options structs against the rules in their field tags.
//
// A field of an options struct carries
//
//	yaml:"lr"        its key in the configuration
//	doc:"..."        one line for people: its meaning, unit, and the meaning of zero
//	enum:"a|b"       the accepted values of a string
//	min:"0"          smallest accepted number        above:"0"   the number must be larger
//	max:"1"          largest accepted number         below:"1"   the number must be smaller
//
// so that Check, the JSON Schema and the comments of `config show` cannot disagree. Validate methods call Check first
// and then check rules about several fields. A struct that is Tagged computes tags.
package options

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Error is the error for one option with an invalid value.
type Error struct {
	Key      string // dotted path inside the options struct that was checked, e.g. "lseh.lambda"
	Found    string
	Expected string
	Remedy   string // optional
}

func (e *Error) Error() string {
	s := fmt.Sprintf("%s: expected %s, found %s", e.Key, e.Expected, e.Found)
	if e.Remedy != "" {
		s += "; " + e.Remedy
	}
	return s
}

// Under returns an *Error with prefix before its key, and any other error unchanged.
func Under(prefix string, err error) error {
	if e, ok := err.(*Error); ok {
		c := *e
		c.Key = prefix + "." + e.Key
		return &c
	}
	return err
}

// Check returns an *Error for the first field of the struct (or pointer to struct) v, in declaration order, that
// breaks a rule of its tags, or nil. Nested structs are checked too. Every number must be finite.
func Check(v any) error {
	return checkStruct("", reflect.Indirect(reflect.ValueOf(v)))
}

func checkStruct(prefix string, rv reflect.Value) error {
	for i, f := range Fields(rv.Type()) {
		for k, key := range Sections(f.Type) {
			if e := checkStruct(under(prefix, key), rv.Field(i).Index(k).Elem()); e != nil {
				return e
			}
		}
		key, ok := Key(f)
		if !ok {
			continue
		}
		key = under(prefix, key)
		if f.Type.Kind() == reflect.Struct {
			if e := checkStruct(key, rv.Field(i)); e != nil {
				return e
			}
			continue
		}
		if e := checkValue(key, rv.Field(i), RuleOf(f)); e != nil {
			return e
		}
	}
	return nil
}

func under(prefix, key string) string {
	if prefix == "" {
		return key
	}
	return prefix + "." + key
}

func checkValue(key string, v reflect.Value, r Rule) error {
	switch {
	case v.Kind() == reflect.Slice || v.Kind() == reflect.Array:
		for i := range v.Len() {
			if e := checkValue(fmt.Sprintf("%s[%d]", key, i), v.Index(i), r); e != nil {
				return e
			}
		}
	case v.Kind() == reflect.String:
		if !r.AcceptsText(v.String()) {
			return &Error{Key: key, Found: strconv.Quote(v.String()), Expected: r.String()}
		}
	case v.CanInt():
		if !r.AcceptsNumber(float64(v.Int())) {
			return &Error{Key: key, Found: fmt.Sprint(v.Int()), Expected: r.String()}
		}
	case v.CanUint():
		if !r.AcceptsNumber(float64(v.Uint())) {
			return &Error{Key: key, Found: fmt.Sprint(v.Uint()), Expected: r.String()}
		}
	case v.CanFloat():
		if x := v.Float(); !r.AcceptsNumber(x) {
			return &Error{Key: key, Found: text(x), Expected: r.String()}
		}
	}
	return nil
}

// Tagged is an options struct that computes tags, for example from names that other files register. MoreTags returns
// tags of a key, in addition to the tags of its field.
type Tagged interface {
	MoreTags(key string) reflect.StructTag
}

// Fields returns the fields of a struct of options with all their tags.
func Fields(t reflect.Type) []reflect.StructField {
	fields := make([]reflect.StructField, t.NumField())
	more, ok := reflect.Zero(t).Interface().(Tagged)
	for i := range fields {
		fields[i] = t.Field(i)
		if key, named := Key(fields[i]); ok && named {
			fields[i].Tag += " " + more.MoreTags(key)
		}
	}
	return fields
}

// Registered is an array of options structs that other files register. Each is a section next to the keys of the struct
// that holds the array. They are values of type any, so that a copy of the array shares nothing. Sections returns the
// keys of the sections, in the order of the array.
type Registered interface{ Sections() []string }

// Sections returns the keys of a type that is Registered, nil for any other type.
func Sections(t reflect.Type) []string {
	if t.Kind() != reflect.Array {
		return nil
	}
	if r, ok := reflect.Zero(t).Interface().(Registered); ok {
		return r.Sections()
	}
	return nil
}

// At returns the value at an index path in an options struct: indexes of fields, and of sections in an array of them.
func At(v reflect.Value, index []int) reflect.Value {
	for _, i := range index {
		if v.Kind() == reflect.Array {
			v = v.Index(i).Elem()
		} else {
			v = v.Field(i)
		}
	}
	return v
}

// Set changes the value at an index path.
func Set(v reflect.Value, index []int, value reflect.Value) {
	switch {
	case len(index) == 0:
		v.Set(value)
	case v.Kind() == reflect.Array:
		held := v.Index(index[0])
		section := reflect.New(held.Elem().Type()).Elem()
		section.Set(held.Elem())
		Set(section, index[1:], value)
		held.Set(section)
	default:
		Set(v.Field(index[0]), index[1:], value)
	}
}

// Tag returns a tag with the given value.
func Tag(name, value string) reflect.StructTag {
	return reflect.StructTag(name + ":" + strconv.Quote(value))
}

// Key returns the configuration key of a field and whether it has one.
func Key(f reflect.StructField) (string, bool) {
	name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
	return name, name != "" && name != "-" && f.IsExported()
}

// Rule is what the tags of one field accept.
type Rule struct {
	Enum           []string
	Min, Max       *float64
	Above, Below   *float64
	numeric, whole bool
}

// RuleOf reads the tags of a field. It panics if a number in a tag is invalid.
func RuleOf(f reflect.StructField) Rule {
	r := Rule{Min: number(f, "min"), Max: number(f, "max"), Above: number(f, "above"), Below: number(f, "below")}
	if s := f.Tag.Get("enum"); s != "" {
		r.Enum = strings.Split(s, "|")
	}
	t := f.Type
	if t.Kind() == reflect.Slice || t.Kind() == reflect.Array {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Float32, reflect.Float64:
		r.numeric = true
	case reflect.Int, reflect.Int64, reflect.Uint64:
		r.numeric, r.whole = true, true
	}
	return r
}

func number(f reflect.StructField, tag string) *float64 {
	s, ok := f.Tag.Lookup(tag)
	if !ok {
		return nil
	}
	x, err := strconv.ParseFloat(s, 64)
	if err != nil {
		panic(fmt.Sprintf("options: field %s: tag %s:%q is not a number", f.Name, tag, s))
	}
	return &x
}

// AcceptsText reports whether a string obeys the rule.
func (r Rule) AcceptsText(s string) bool {
	return len(r.Enum) == 0 || slices.Contains(r.Enum, s)
}

// AcceptsNumber reports whether a number is finite and inside the range of the rule.
func (r Rule) AcceptsNumber(x float64) bool {
	switch {
	case math.IsNaN(x) || math.IsInf(x, 0),
		r.Min != nil && x < *r.Min, r.Max != nil && x > *r.Max,
		r.Above != nil && x <= *r.Above, r.Below != nil && x >= *r.Below:
		return false
	}
	return true
}

// String describes what the rule accepts: "one of adam, adamw", "a number in (0, 1]", "a whole number >= 1".
func (r Rule) String() string {
	if len(r.Enum) > 0 {
		return "one of " + strings.Join(r.Enum, ", ")
	}
	noun := "a string"
	if r.numeric {
		noun = "a number"
	}
	if r.whole {
		noun = "a whole number"
	}
	lo, loOp, loBr := r.Min, ">=", "["
	if r.Above != nil {
		lo, loOp, loBr = r.Above, ">", "("
	}
	hi, hiOp, hiBr := r.Max, "<=", "]"
	if r.Below != nil {
		hi, hiOp, hiBr = r.Below, "<", ")"
	}
	switch {
	case lo != nil && hi != nil:
		return fmt.Sprintf("%s in %s%s, %s%s", noun, loBr, text(*lo), text(*hi), hiBr)
	case lo != nil:
		return fmt.Sprintf("%s %s %s", noun, loOp, text(*lo))
	case hi != nil:
		return fmt.Sprintf("%s %s %s", noun, hiOp, text(*hi))
	case r.numeric && !r.whole:
		return "a finite number"
	}
	return noun
}

// text writes a number without an exponent where it stays short.
func text(x float64) string {
	if a := math.Abs(x); a >= 1e-3 && a < 1e10 {
		return strconv.FormatFloat(x, 'f', -1, 64)
	}
	return strconv.FormatFloat(x, 'g', -1, 64)
}
