package pickle

// checkTree refuses values that contain themselves, are nested too deep, or would be huge if written out without
// sharing (a few bytes can describe 2^64 references), so that callers may walk a value by plain recursion.
func checkTree(v any, l Limits) error {
	c := checker{limits: l, seen: map[any]subtree{}}
	return catch(func() { c.visit(v, 0) })
}

type subtree struct {
	height, size int
	open         bool // being visited: meeting it again is a cycle
}

type checker struct {
	limits Limits
	seen   map[any]subtree
}

// expansion is how many times larger than Limits.Values a value may be when sharing is written out.
const expansion = 16

func (c *checker) visit(v any, depth int) subtree {
	key, children := parts(v)
	if key == nil {
		return subtree{size: 1}
	}
	s, ok := c.seen[key]
	if s.open {
		failf("a %s contains itself", TypeName(v))
	}
	if depth+s.height > c.limits.Depth {
		failf("nested more than %d deep", c.limits.Depth)
	}
	if ok {
		return s
	}
	c.seen[key] = subtree{open: true}
	s = subtree{size: 1}
	if o, ok := v.(*Object); ok {
		c.cut(&o.Attrs)
	}
	for _, group := range children {
		for i := range group.len() {
			t := c.visit(group.at(i), depth+1)
			s.height = max(s.height, t.height+1)
			if s.size += t.size; s.size > expansion*c.limits.Values {
				failf("more than %d values when written out", expansion*c.limits.Values)
			}
		}
	}
	c.seen[key] = s
	return s
}

// cut leaves out attributes that lead back to what holds them, such as the parent of a node.
func (c *checker) cut(attrs *Dict) {
	for i, e := range attrs.entries {
		if key, _ := parts(e.value); key != nil && c.seen[key].open {
			attrs.entries[i].value = nil
		}
	}
}

// group is a list of children.
type group struct {
	items   []any
	entries []entry // keys and values, when items is nil
}

func (g group) len() int { return len(g.items) + 2*len(g.entries) }

func (g group) at(i int) any {
	if g.items != nil {
		return g.items[i]
	}
	if i%2 == 0 {
		return g.entries[i/2].key
	}
	return g.entries[i/2].value
}

// parts returns the identity of a container and its children; a nil key means a leaf.
func parts(v any) (key any, children []group) {
	switch o := v.(type) {
	case Tuple:
		if len(o) > 0 {
			return &o[0], []group{{items: o}}
		}
	case *List:
		return o, []group{{items: o.Items}}
	case *Set:
		return o, []group{{items: o.Items}}
	case *Dict:
		g := []group{{entries: o.entries}}
		if o.Attrs != nil {
			g = append(g, group{items: []any{o.Attrs}})
		}
		return o, g
	case *Object:
		return o, []group{{items: o.Args}, {entries: o.Attrs.entries}}
	case *Array:
		return o, []group{{items: o.Objects}}
	}
	return nil, nil
}
