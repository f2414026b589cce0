package flags

import (
	"encoding"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"vsetrain/internal/run/config"
	"vsetrain/internal/system/options"
)

// value is a flag: its tags, and the field that it sets.
type value struct {
	name, group string
	tag         reflect.StructTag
	rule        options.Rule
	field       reflect.Value
	set         func(text string) error // in place of a field
	truth, list bool
	flag        *pflag.Flag
	given       bool // the list was given; it is not the default
}

// Set implements pflag.Value. It leaves the field unchanged if it refuses the text.
func (v *value) Set(text string) error {
	if v.set != nil {
		return v.set(text)
	}
	if !v.list {
		return v.store(v.field, text)
	}
	items := []string{text}
	if sep := v.tag.Get("list"); sep != "" {
		items = strings.Split(text, sep)
	}
	list := reflect.MakeSlice(v.field.Type(), 0, len(items))
	for i, item := range items {
		to := reflect.New(v.field.Type().Elem()).Elem()
		if err := v.store(to, strings.TrimSpace(item)); err != nil && len(items) > 1 {
			return fmt.Errorf("item %d: %w", i+1, err)
		} else if err != nil {
			return err
		}
		list = reflect.Append(list, to)
	}
	if v.given {
		list = reflect.AppendSlice(v.field, list)
	}
	for i := range list.Len() {
		for j := range i {
			if v.tag.Get("once") != "" && list.Index(i).Equal(list.Index(j)) {
				return fmt.Errorf("%v is named twice", list.Index(i))
			}
		}
	}
	v.field.Set(list)
	v.given = true
	return nil
}

// store reads one value.
func (v *value) store(to reflect.Value, text string) error {
	if t, ok := to.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return t.UnmarshalText([]byte(text))
	}
	if to.Type() == reflect.TypeFor[time.Duration]() {
		return v.duration(to, text)
	}
	expected := v.rule.String()
	var number float64
	var set func()
	var wrong error
	switch to.Kind() {
	case reflect.String:
		return v.text(to, text)
	case reflect.Bool:
		truth, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("expected true or false, found %q", text)
		}
		to.SetBool(truth)
		return nil
	case reflect.Int, reflect.Int64:
		n, err := options.ParseInt(text)
		number, wrong, set = float64(n), err, func() { to.SetInt(int64(n)) }
	case reflect.Uint64:
		n, err := options.ParseUint(text)
		number, wrong, set = float64(n), err, func() { to.SetUint(n) }
		if err != nil {
			expected += " >= 0"
		}
	case reflect.Float64:
		number, wrong = options.ParseFloat(text)
		set = func() { to.SetFloat(number) }
	default:
		panic(fmt.Sprintf("flags: --%s has the type %s", v.name, to.Type()))
	}
	zero := options.LeadingZero(text)
	switch {
	case wrong != nil && zero != "":
		return fmt.Errorf("expected %s; %s", expected, zero)
	case wrong != nil:
		return fmt.Errorf("expected %s, found %q", expected, text)
	case !v.rule.AcceptsNumber(number):
		return fmt.Errorf("expected %s, found %s", expected, text)
	}
	set()
	return nil
}

// text stores a text, with ~ replaced by the home directory.
func (v *value) text(to reflect.Value, text string) error {
	if !v.rule.AcceptsText(text) {
		near := options.Nearest(text, v.rule.Enum)
		if near != "" {
			near = "; did you mean " + near + "?"
		}
		return fmt.Errorf("expected %s, found %q%s", v.rule, text, near)
	}
	if _, empty := v.tag.Lookup("empty"); text == "" && !empty && len(v.rule.Enum) == 0 {
		return fmt.Errorf("expected %s, found an empty text; leave the flag out", v.arg())
	}
	text, err := config.ExpandHome(text)
	to.SetString(text)
	return err
}

// duration stores a time. The bounds of the rule are in seconds.
func (v *value) duration(to reflect.Value, text string) error {
	d, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("expected a time such as 10s or 5m, found %q", text)
	}
	if !v.rule.AcceptsNumber(d.Seconds()) {
		return fmt.Errorf("expected a time, in seconds %s, found %s", strings.TrimPrefix(v.rule.String(),
			"a whole number "), text)
	}
	to.SetInt(int64(d))
	return nil
}

// String implements pflag.Value. It is empty if the help shows no default.
func (v *value) String() string {
	if v == nil || !v.field.IsValid() || v.field.IsZero() && !v.truth {
		return ""
	}
	if v.list {
		items := make([]string, v.field.Len())
		for i := range items {
			items[i] = fmt.Sprint(v.field.Index(i))
		}
		return strings.Join(items, ",")
	}
	return fmt.Sprint(v.field)
}

// Type implements pflag.Value.
func (v *value) Type() string {
	switch {
	case v.truth:
		return "bool"
	case v.list:
		return "stringArray" // which the shell may complete again
	}
	return "string"
}

// arg is the name of the value in the help.
func (v *value) arg() string {
	if name := v.tag.Get("arg"); name != "" || v.truth {
		return name
	}
	const longest = 24
	if words := strings.Join(v.rule.Enum, "|"); words != "" && utf8.RuneCountInString(words) <= longest {
		return words
	}
	t := v.field.Type()
	if v.list {
		t = t.Elem()
	}
	switch {
	case v.tag.Get("list") != "":
		return "LIST"
	case t == reflect.TypeFor[time.Duration]():
		return "TIME"
	case t.Kind() == reflect.Float64:
		return "NUMBER"
	case t.Kind() == reflect.String && len(v.rule.Enum) > 0:
		return "WORD"
	case t.Kind() == reflect.String:
		return "TEXT"
	}
	return "N"
}

// usage is the help of the flag.
func (v *value) usage() string {
	text := v.tag.Get("usage")
	if v.arg() == "WORD" && len(v.rule.Enum) > 0 {
		text += ": " + strings.Join(v.rule.Enum, ", ")
	}
	if sep := v.tag.Get("list"); v.list && sep == "" {
		text += "; may be repeated"
	} else if sep != "" {
		text += "; comma-separated"
	}
	if empty := v.tag.Get("empty"); empty != "" && empty != "yes" {
		text += " (default: " + empty + ")"
	}
	return text
}
