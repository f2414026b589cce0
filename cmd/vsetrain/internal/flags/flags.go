// Package flags makes flags and arguments of the tags of an options struct, so that each is declared in one place. A
// field carries
//
//	flag:"config,c"      the name of its flag, and a letter
//	usage:"..."          what it does, for the help, the man page and the shell
//	arg:"FILE"           what its value is called there; a DIR and a SPLIT are completed
//	empty:"..."          what an empty text stands for; without it one is refused
//	enum:"a|b" min:"1"   what is accepted, as in package options; in a list, of each item
//	words:"a|b"          what the shell proposes where other texts are accepted too
//	key:"loss.name"      the key of the configuration whose values the shell proposes
//	list:","             the items of a list stand between commas; otherwise the flag may be repeated
//	need:"yes"           the flag must be given
//	not:"a,b"            flags that it excludes
//	with:"a,b"           flags of which it needs one
//	hidden:"yes"         the help leaves it out
//	default:"20"         the value that it starts with; otherwise that which the field has
//	once:"yes"           no item of a list may be there twice
//	args:"DIR"           the field takes the argument of the command, or of a list all of them; missing:"..." is what
//	                     the error of none says, optional:"yes" takes none too
//
// and a field that is a struct
//
//	group:"Device"       the heading of its flags
//	flags:"gpu=index"    flags that are fields of a struct of package options, by their keys; type, check and help are
//	                     those of the field
//	alias:"seed=seed"    flags that are keys of the configuration, for the field Aliases of the struct
package flags

import (
	"cmp"
	"encoding"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"vsetrain/internal/run/config"
	"vsetrain/internal/system/options"
)

// Words are the words that flags accept, by their names, where tags cannot tell.
type Words map[string][]string

// Set is the flags and arguments of a command.
type Set struct {
	cmd    *cobra.Command
	of     any // the options struct of the command
	words  Words
	values []*value
	checks []func() error // of structs of options
	args   reflect.Value  // what takes the arguments; zero takes none
	argsOf reflect.StructTag
}

// Defaulter is an options struct whose fields start with values that a function returns.
type Defaulter interface{ Defaults() }

// Add adds the flags of the struct that o points to.
func Add(c *cobra.Command, o any, words ...Words) *Set {
	s := &Set{cmd: c, of: o, words: Words{}}
	for _, w := range words {
		maps.Copy(s.words, w)
	}
	if d, ok := o.(Defaulter); ok {
		d.Defaults()
	}
	c.Flags().SortFlags = false
	s.walk(reflect.ValueOf(o).Elem(), "")
	if e, ok := o.(interface{ More() []any }); ok { // structs of flags that are known at run time
		for _, more := range e.More() {
			s.walk(reflect.ValueOf(more).Elem(), "")
		}
	}
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

// pairs takes a list of NAME=KEY apart; NAME alone is the key too.
func pairs(list string) func(func(name, key string) bool) {
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
						f.Tag = x.FixedTags(key) + " " + f.Tag // of two the first counts
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

// fixed are options with other tags where nothing is left to choose, device.Options, or a command with its own tags for
// them.
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

// complete tells the shell what a flag takes.
func (s *Set) complete(v *value) {
	words := v.rule.Enum
	if more := v.tag.Get("words"); more != "" {
		words = append(words, strings.Split(more, "|")...)
	}
	if key := v.tag.Get("key"); key != "" {
		for _, word := range config.Complete(key + "=") {
			words = append(words, strings.TrimPrefix(word, key+"="))
		}
	}
	var err error
	switch {
	case len(words) > 0:
	case v.tag.Get("arg") == "SPLIT":
		words = []string{"train", "dev", "test", "testall"}
	case v.tag.Get("arg") == "DIR":
		err = s.cmd.MarkFlagDirname(v.name)
	}
	if len(words) > 0 {
		complete := cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)
		err = s.cmd.RegisterFlagCompletionFunc(v.name, complete)
	}
	if err != nil {
		panic(err) // the flag was added
	}
}

// Check returns what is wrong with the flags that were given, together.
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
			has := false
			for _, other := range others {
				has = has || given[other]
			}
			if !has {
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

// Args stores the arguments of a command, or returns what is wrong with them. none is called where it takes none.
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

// Explain returns the error of the flag library in the words of this program.
func Explain(err error) error {
	if wrong, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return fmt.Errorf("--%s: %w", wrong.GetFlag().Name, wrong.Unwrap())
	}
	return err
}

// textType are types that read themselves.
var textType = reflect.TypeFor[encoding.TextUnmarshaler]()
