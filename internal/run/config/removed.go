package config

// removed lists keys of earlier versions, with the value by which they did nothing; empty is any.
var removed = map[string]string{"train.verify": "false", "train.verify_every": ""}

// removedKey reports whether a key was removed from the configuration. A value that had no effect is ignored, so that
// configurations of earlier versions can be read; any other value is a mistake.
func removedKey(path, value string, at Source, p *problems) bool {
	off, ok := removed[path]
	if ok && off != "" && value != off {
		p.add(at, path, "expected no such key, or %s, found %s; this version no longer has it: remove it", off,
			value)
	}
	return ok
}
