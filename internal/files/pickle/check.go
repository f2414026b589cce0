package pickle

// checkTree refuses values that contain themselves, are nested too deep, or would be huge if written out without
// sharing (a few bytes can describe 2^64 references), so that callers may walk a value by plain recursion.
func checkTree(v any) error {
	c := checker{seen: map[any]subtree{}}
	return catch(func() { c.visit(v, 0) })
}

type subtree struct {
	height, size int
	open         bool // being visited: meeting it again is a cycle
}

type checker struct{ seen map[any]subtree }

// expansion is how many times maxValues a value may hold when it is written out without sharing.
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
	if depth+s.height > maxDepth {
		failf("nested more than %d deep", maxDepth)
	}
	if ok {
		return s
	}
	c.seen[key] = subtree{open: true}
	s = subtree{size: 1}
	if o, ok := v.(*Object); ok {
		c.cut(&o.Attrs)
	}
	for _, child := range children() {
		t := c.visit(child, depth+1)
		s.height = max(s.height, t.height+1)
		if s.size += t.size; s.size > expansion*maxValues {
			failf("more than %d values when written out", expansion*maxValues)
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

// parts returns the identity of a container and its children; a nil key means a leaf.
func parts(v any) (key any, children func() []any) {
	switch o := v.(type) {
	case Tuple:
		if len(o) > 0 {
			return &o[0], func() []any { return o }
		}
	case *List:
		return o, func() []any { return o.Items }
	case *Set:
		return o, func() []any { return o.Items }
	case *Dict:
		return o, o.parts
	case *Object:
		return o, func() []any { return append(o.Attrs.parts(), o.Args...) }
	case *Array:
		return o, func() []any { return o.Objects }
	}
	return nil, nil
}

// parts returns keys, values and attributes.
func (d *Dict) parts() (all []any) {
	for k, v := range d.All() {
		all = append(all, k, v)
	}
	if d.Attrs != nil {
		all = append(all, d.Attrs)
	}
	return all
}
