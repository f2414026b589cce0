package config

import (
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"vsetrain/internal/system/options"
)

// Int reads a number of a YAML file as options.ParseInt does. A string is none, and a whole number has neither a point
// nor an exponent.
func Int(n *yaml.Node) (int, error) { return read(n, options.ParseInt, "!!int") }

// Uint is the same for numbers that are never negative.
func Uint(n *yaml.Node) (uint64, error) { return read(n, options.ParseUint, "!!int") }

// Float is the same for any number.
func Float(n *yaml.Node) (float64, error) { return read(n, options.ParseFloat, "!!int", "!!float") }

func read[T any](n *yaml.Node, parse func(string) (T, error), tags ...string) (x T, err error) {
	for _, tag := range tags {
		if n.Kind == yaml.ScalarNode && n.Tag == tag {
			return parse(n.Value)
		}
	}
	return x, fmt.Errorf("expected a number, found %s", Describe(n))
}

// Describe names a node as a user sees it: "a section", "[1, 2]", a quoted string.
func Describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a section"
	case yaml.SequenceNode:
		items := make([]string, min(len(n.Content), 4))
		for i := range items {
			items[i] = Describe(n.Content[i])
		}
		if len(n.Content) > len(items) {
			items = append(items, "...")
		}
		return "[" + strings.Join(items, ", ") + "]"
	case yaml.AliasNode:
		return "an alias"
	}
	switch n.Tag {
	case "!!null":
		return "nothing; leave the key out to keep its default"
	case "!!str":
		return strconv.Quote(n.Value)
	}
	return n.Value
}

// Doubt says, for the end of a message, how to write a number with a leading zero that a node has; "" where it has
// none.
func Doubt(n *yaml.Node) string {
	if zero := options.LeadingZero(n.Value); zero != "" {
		return "; " + zero
	}
	for _, item := range n.Content {
		if says := Doubt(item); says != "" {
			return says
		}
	}
	return ""
}
