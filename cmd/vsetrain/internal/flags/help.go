package flags

import (
	"cmp"
	"strings"

	"github.com/spf13/pflag"
)

// Describe returns the name of a flag's value, "" if it takes none, and what the flag does.
func Describe(f *pflag.Flag) (arg, usage string) {
	if v, ok := f.Value.(*value); ok {
		return v.arg(), f.Usage
	}
	return pflag.UnquoteUsage(f)
}

// shown is a flag as the help lists it: with the name of its value, and a bool without [=true|false].
type shown struct {
	pflag.Value
	arg string
}

// Type implements pflag.Value.
func (s shown) Type() string { return cmp.Or(s.arg, "boolfunc") }

// Usages is the help of flags in the order of their declaration: flags without a group, then each group below its
// heading.
func Usages(flags *pflag.FlagSet, columns int) string {
	groups := []string{""}
	sets := map[string]*pflag.FlagSet{}
	flags.VisitAll(func(f *pflag.Flag) {
		group := ""
		if v, ok := f.Value.(*value); ok {
			group = v.group
		}
		if sets[group] == nil {
			if group != "" {
				groups = append(groups, group)
			}
			sets[group] = pflag.NewFlagSet("", pflag.ContinueOnError)
			sets[group].SortFlags = false
		}
		copied := *f
		arg, usage := Describe(f)
		copied.Value, copied.Usage = shown{f.Value, arg}, usage
		sets[group].AddFlag(&copied)
	})
	var b strings.Builder
	for _, group := range groups {
		if group != "" {
			b.WriteString("\n" + group + ":\n")
		}
		if set := sets[group]; set != nil {
			b.WriteString(set.FlagUsagesWrapped(columns))
		}
	}
	return b.String()
}
