package pickle

import (
	"errors"
	"fmt"
	"path"
)

// Standard allows the names of Python's standard library that plain data needs: ordered dicts, other dicts of module
// collections (as dicts), sets, bytes, paths and decimal numbers (as str), times (as objects without attributes) and
// the helpers that protocols 0 to 2 build objects with.
func Standard() Globals {
	t := Globals{
		"collections.OrderedDict": {Call: orderedDict},
		"collections.defaultdict": {Call: func(Tuple) (any, error) { return &Dict{}, nil }}, // of a factory
		"collections.Counter":     {Call: counter},
		"decimal.Decimal":         {Call: newPath}, // of its digits
		"_codecs.encode":          {Call: encodeLatin1},
		"copy_reg._reconstructor": {Call: reconstructor},
		"copyreg._reconstructor":  {Call: reconstructor},
	}
	for _, name := range []string{"datetime", "date", "time", "timedelta", "timezone"} {
		t["datetime."+name] = Class{Call: func(Tuple) (any, error) { return &Object{Class: "datetime." + name}, nil }}
	}
	for _, flavour := range []string{"PosixPath", "WindowsPath", "PurePosixPath", "PureWindowsPath"} {
		t["pathlib."+flavour], t["pathlib._local."+flavour] = Class{Call: newPath}, Class{Call: newPath}
	}
	for _, builtins := range []string{"__builtin__.", "builtins."} {
		for _, mentioned := range []string{"object", "dict", "list", "int", "float", "str"} { // also factories
			t[builtins+mentioned] = Class{}
		}
		t[builtins+"set"] = Class{Call: newSet}
		t[builtins+"frozenset"] = Class{Call: newSet}
		t[builtins+"bytes"] = Class{Call: emptyBytes}
	}
	return t
}

// orderedDict makes a dict from nothing, or from a list of pairs as Python 2 writes them.
func orderedDict(args Tuple) (any, error) {
	d := &Dict{Ordered: true}
	if len(args) == 0 {
		return d, nil
	}
	pairs, ok := args[0].(*List)
	if !ok || len(args) > 1 {
		return nil, fmt.Errorf("expected no argument or a list of pairs, found a %s", TypeName(args[0]))
	}
	for _, p := range pairs.Items {
		kv, ok := Items(p)
		if !ok || len(kv) != 2 {
			return nil, fmt.Errorf("expected a list of pairs, found a %s in it", TypeName(p))
		}
		d.Set(kv[0], kv[1])
	}
	return d, nil
}

// counter makes a dict from nothing or from a dict of counts.
func counter(args Tuple) (any, error) {
	d := &Dict{}
	if len(args) == 0 {
		return d, nil
	}
	counts, ok := args[0].(*Dict)
	if !ok {
		return nil, fmt.Errorf("expected a dict, found a %s", TypeName(args[0]))
	}
	d.add(counts)
	return d, nil
}

// newPath joins the parts of a path.
func newPath(args Tuple) (any, error) {
	var parts []string
	for _, a := range args {
		s, ok := Text(a)
		if !ok {
			return nil, fmt.Errorf("expected parts of a path, found a %s", TypeName(a))
		}
		parts = append(parts, s)
	}
	return path.Join(parts...), nil
}

// Items returns the elements of a list or tuple.
func Items(v any) ([]any, bool) {
	switch s := v.(type) {
	case Tuple:
		return s, true
	case *List:
		return s.Items, true
	}
	return nil, false
}

func newSet(args Tuple) (any, error) {
	if len(args) == 0 {
		return &Set{}, nil
	}
	items, ok := Items(args[0])
	if !ok || len(args) > 1 {
		return nil, fmt.Errorf("expected a list, found a %s", TypeName(args[0]))
	}
	return &Set{Items: append([]any(nil), items...)}, nil
}

// emptyBytes is how protocol 2 writes empty bytes; other bytes come through _codecs.encode.
func emptyBytes(args Tuple) (any, error) {
	if len(args) > 0 {
		return nil, fmt.Errorf("expected no argument")
	}
	return Bytes{}, nil
}

// encodeLatin1 is how protocol 2 of Python 3 writes bytes: as the str of the same code points.
func encodeLatin1(args Tuple) (any, error) {
	if len(args) != 2 || args[1] != "latin1" {
		return nil, fmt.Errorf("expected a str and 'latin1'")
	}
	s, ok := args[0].(string)
	if !ok {
		return nil, fmt.Errorf("expected a str, found a %s", TypeName(args[0]))
	}
	b := make(Bytes, 0, len(s))
	for _, r := range s {
		if r > 0xff {
			return nil, fmt.Errorf("character %q is not Latin-1", r)
		}
		b = append(b, byte(r))
	}
	return b, nil
}

// reconstructor is how protocols 0 and 1 make an instance of a class derived from object or from dict.
func reconstructor(args Tuple) (any, error) {
	const expected = "only classes derived from object or dict are rebuilt"
	if len(args) != 3 {
		return nil, errors.New(expected)
	}
	c, ok := args[0].(*Class)
	base, ok2 := args[1].(*Class)
	if !ok || !ok2 {
		return nil, errors.New(expected)
	}
	items, isDict := args[2].(*Dict)
	switch base.Name {
	case "__builtin__.object", "builtins.object":
	case "__builtin__.dict", "builtins.dict":
		ok = isDict
	default:
		ok = false
	}
	if !ok {
		return nil, errors.New(expected)
	}
	if c.New == nil {
		return nil, fmt.Errorf("%s may not be instantiated; nothing was executed", c.Name)
	}
	v, err := c.New(Tuple{})
	if o, ok := v.(*Object); ok && isDict {
		o.Attrs.add(items)
	}
	return v, err
}
