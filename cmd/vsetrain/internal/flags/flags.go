// Package flags makes flags and arguments from the tags of an options struct, so that each is declared in one place. A
// field carries
//
//	flag:"config,c"      the name of its flag, and a letter
//	usage:"..."          what it does, for the help, the man page and the shell
//	arg:"FILE"           the name of its value in the help; the shell completes a DIR and a SPLIT
//	empty:"..."          what an empty text means; without the tag, an empty text is an error
//	enum:"a|b" min:"1"   what is accepted, as in package options; in a list, of each item
//	words:"a|b"          what the shell proposes; other texts are accepted too
//	key:"loss.name"      the key of the configuration whose values the shell proposes
//	list:","             a list is comma-separated; otherwise the flag may be repeated
//	need:"yes"           the flag must be given
//	not:"a,b"            flags that it excludes
//	with:"a,b"           it needs one of these flags
//	hidden:"yes"         the help leaves it out
//	default:"20"         its default; otherwise the value of the field
//	once:"yes"           a list may not repeat an item
//	args:"DIR"           the field takes the argument of the command, a list all arguments; optional:"yes" accepts no
//	                     argument too, otherwise missing:"..." is the error
//
// and a field that is a struct
//
//	group:"Device"       the heading of its flags
//	flags:"gpu=index"    NAME=KEY: flags that are fields of a struct of package options, with type, check and help
//	alias:"seed=seed"    NAME=KEY: flags that set a key of the configuration, for the field Aliases of the struct
package flags

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"vsetrain/internal/run/config"
	"vsetrain/internal/system/options"
)

// Words are the words that flags accept, by the names of the flags, where they are known only at run time.
type Words map[string][]string

// Set is the flags and arguments of a command.
type Set struct {
	cmd    *cobra.Command
	of     any // the options struct of the command
	words  Words
	values []*value
	checks []func() error // of structs of options
	args   reflect.Value  // takes the arguments; the zero value means that the command takes none
	argsOf reflect.StructTag
}

// Defaulter is an options struct that sets its defaults itself.
type Defaulter interface{ Defaults() }

// Add adds the flags of the struct that o points to.
func Add(c *cobra.Command, o any, words ...Words) *Set {
	s := &Set{cmd: c, of: o}
	for _, w := range words {
		s.words = w
	}
	if d, ok := o.(Defaulter); ok {
		d.Defaults()
	}
	c.Flags().SortFlags = false
	s.walk(reflect.ValueOf(o).Elem(), "")
	return s
}

func (s *Set) walk(v reflect.Value, group string) {
	for i := range v.NumField() {
		f, field := v.Type().Field(i), v.Field(i)
		group := cmp.Or(f.Tag.Get("group"), group)
		if f.Tag.Get("args") != "" {
			s.args, s.argsOf = field, f.Tag
		}
		switch name := f.Tag.Get("flag"); {
		case name != "":
			s.add(&value{name: name, tag: f.Tag, field: field, rule: options.RuleOf(f), group: group})
		case f.Tag.Get("flags") != "":
			s.fields(field, f.Tag.Get("flags"), group)
		case f.Type.Kind() == reflect.Struct && field.CanSet() || f.Anonymous:
			s.walk(field, group)
		}
		for name, key := range pairs(f.Tag.Get("alias")) {
			s.alias(field.FieldByName("Aliases").Addr().Interface().(*[]config.Alias), name, key, group)
		}
	}
}

// pairs splits a list of NAME=KEY; NAME alone is the key too.
func pairs(list string) iter.Seq2[string, string] {
	return func(yield func(name, key string) bool) {
		for _, item := range strings.Fields(list) {
			name, key, ok := strings.Cut(item, "=")
			if !ok {
				key = name
			}
			if !yield(name, key) {
				return
			}
		}
	}
}

// fields adds flags of a struct of package options.
func (s *Set) fields(v reflect.Value, list, group string) {
	names := map[string]string{} // by key
	for name, key := range pairs(list) {
		for i, f := range options.Fields(v.Type()) {
			if k, ok := options.Key(f); ok && k == key {
				names[key] = name
				for _, o := range []any{v.Addr().Interface(), s.of} {
					if x, ok := o.(fixed); ok {
						f.Tag = x.FixedTags(key) + " " + f.Tag // the first of two counts
					}
				}
				s.add(&value{name: name, field: v.Field(i), rule: options.RuleOf(f), group: group,
					tag: f.Tag + " empty:\"yes\" " + options.Tag("usage", f.Tag.Get("doc"))})
			}
		}
		if names[key] == "" {
			panic(fmt.Sprintf("flags: --%s: %s has no key %s", name, v.Type(), key))
		}
	}
	s.checks = append(s.checks, func() error {
		err := validate(v.Addr().Interface())
		var wrong *options.Error
		if errors.As(err, &wrong) {
			named := *wrong
			named.Key = cmp.Or(names[wrong.Key], wrong.Key)
			return fmt.Errorf("--%v", &named)
		}
		return err
	})
}

// fixed is a struct of options, or a command, that replaces the tags of some keys.
type fixed interface {
	FixedTags(key string) reflect.StructTag
}

func validate(o any) error {
	if o, ok := o.(interface{ Validate() error }); ok {
		return o.Validate()
	}
	return options.Check(o)
}

// alias adds a flag that sets a key of the configuration.
func (s *Set) alias(to *[]config.Alias, name, key, group string) {
	k := config.KeyOf(key)
	v := &value{name: name, group: group, truth: k.Truth, tag: options.Tag("key", key) + " " +
		options.Tag("usage", k.Doc+" ("+key+")") + " " + options.Tag("arg", k.Arg)}
	v.set = func(text string) error {
		*to = append(*to, config.Alias{Flag: "--" + name, Key: key, Text: text})
		return nil
	}
	s.add(v)
}

func (s *Set) add(v *value) {
	name, letter, _ := strings.Cut(v.name, ",")
	v.name = name
	if words := s.words[name]; words != nil {
		v.rule.Enum = words
	}
	if v.set == nil {
		v.truth = v.field.Kind() == reflect.Bool
		v.list = v.field.Kind() == reflect.Slice
	}
	if text := v.tag.Get("default"); text != "" {
		if err := v.Set(text); err != nil {
			panic(fmt.Sprintf("flags: default of --%s: %v", name, err))
		}
		v.given = false
	}
	f := s.cmd.Flags().VarPF(v, name, letter, v.usage())
	f.Hidden = v.tag.Get("hidden") != ""
	if v.truth {
		f.NoOptDefVal = "true"
	}
	v.flag = f
	s.values = append(s.values, v)
	s.complete(v)
}

// complete tells the shell which values a flag takes.
func (s *Set) complete(v *value) {
	words := v.rule.Enum
	if more := v.tag.Get("words"); more != "" {
		words = append(words, strings.Split(more, "|")...)
	} else if v.tag.Get("arg") == "SPLIT" {
		words = []string{"train", "dev", "test", "testall"}
	}
	if key := v.tag.Get("key"); key != "" {
		for _, word := range config.Complete(key + "=") {
			words = append(words, strings.TrimPrefix(word, key+"="))
		}
	}
	var err error
	if len(words) > 0 {
		complete := cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)
		err = s.cmd.RegisterFlagCompletionFunc(v.name, complete)
	} else if v.tag.Get("arg") == "DIR" {
		err = s.cmd.MarkFlagDirname(v.name)
	}
	if err != nil {
		panic(err) // the flag was added
	}
}

// Check returns an error if flags that were given do not go together, or one is missing.
func (s *Set) Check() error {
	given := map[string]bool{}
	for _, v := range s.values {
		given[v.name] = v.flag.Changed && (!v.truth || v.String() != "false")
	}
	var missing []string
	for _, v := range s.values {
		if v.tag.Get("need") != "" && !given[v.name] {
			missing = append(missing, "--"+v.name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("expected %s, which is missing", strings.Join(missing, " and "))
	}
	for _, v := range s.values {
		if !given[v.name] {
			continue
		}
		for other := range strings.SplitSeq(v.tag.Get("not"), ",") {
			if given[other] {
				return fmt.Errorf("--%s and --%s cannot be used together; leave one out", v.name, other)
			}
		}
		if with := v.tag.Get("with"); with != "" {
			others := strings.Split(with, ",")
			if !slices.ContainsFunc(others, func(other string) bool { return given[other] }) {
				return fmt.Errorf("--%s belongs to --%s: add --%s or leave it out", v.name,
					strings.Join(others, " and --"), strings.Join(others, " or --"))
			}
		}
	}
	for _, check := range s.checks {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// Args stores the arguments of a command, or returns an error. none checks the arguments of a command that takes none.
func (s *Set) Args(none cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		name, optional := strings.CutPrefix(s.argsOf.Get("args"), "[")
		optional = optional || s.argsOf.Get("optional") != ""
		list := s.args.IsValid() && s.args.Kind() == reflect.Slice
		switch {
		case !s.args.IsValid():
			return none(c, args)
		case len(args) == 0 && optional:
		case len(args) == 0 && s.argsOf.Get("missing") != "":
			return errors.New(s.argsOf.Get("missing"))
		case len(args) == 0 && list:
			return fmt.Errorf("expected one argument or more, %s, found none", name)
		case list:
			s.args.Set(reflect.ValueOf(args))
		case len(args) != 1:
			return fmt.Errorf("expected one argument, %s, found %d", strings.TrimSuffix(name, "]"), len(args))
		default:
			s.args.SetString(args[0])
		}
		return nil
	}
}

// Explain rewrites an error of the flag library in the words of this program.
func Explain(err error) error {
	if wrong, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return fmt.Errorf("--%s: %w", wrong.GetFlag().Name, wrong.Unwrap())
	}
	return err
}
