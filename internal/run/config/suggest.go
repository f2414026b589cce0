package config

import (
	"regexp"
	"slices"
	"strings"

	"vsetrain/internal/system/options"
)

// unknownKey says what to write instead of an unknown key of a section, which was to have a value; section is of the
// tree of another file where that is read.
func unknownKey(tree, section *field, key, value string) string {
	if section == tree && strings.Contains(key, ".") && tree.find(key) != nil {
		return "unknown key; write " + strings.ReplaceAll(key, ".", ": {") + ": ..." +
			strings.Repeat("}", strings.Count(key, "."))
	}
	text := instead(tree, join(section.path, key), value)
	if section != tree { // as it is written in that section
		text = strings.ReplaceAll(text, " "+section.path+".", " ")
	}
	return "unknown key; " + text
}

// instead says what may be meant by a path that is not a key: the keys that come closest to its last word, in the
// section that it names before all others; where none comes close, it lists the keys of that section.
func instead(tree *field, path, value string) string {
	section, word := tree, path
	if i := strings.LastIndexByte(path, '.'); i >= 0 {
		word = path[i+1:]
		if s := tree.section(path[:i]); s != nil {
			section = s
		}
	}
	if near := alike(tree, section, word, value); near != nil {
		if n := len(near) - 1; n > 0 {
			near = []string{strings.Join(near[:n], ", ") + " or " + near[n]}
		}
		return "did you mean " + near[0] + "?"
	}
	where := section.path
	switch {
	case where == "" && tree != root:
		where = "the file"
	case where == "":
		where = "the top level"
	}
	return where + " has " + strings.Join(section.keys(), ", ")
}

// maxAlike bounds the keys that a message proposes.
const maxAlike = 5

// alike returns the paths of the keys that come closest to a word that is none, which was to have a value; nil where
// none comes close. That is a key of the section that is spelt nearly so; the only key of that name that can have the
// value; then keys of the section, before those elsewhere, that have the word in common, take the value, or are
// explained by the word. A word of two letters has to be the key.
func alike(tree, section *field, word, value string) []string {
	if near := options.Nearest(word, section.keys()); near != "" {
		return []string{join(section.path, near)}
	}
	words, long := wordsOf(strings.ToLower(word)), len(word) > 2
	same := func(f *field) bool { return f.key == word }
	shares := func(f *field) bool {
		key := wordsOf(f.key)
		return long && f.key != word && (within(words, key) || within(key, words) ||
			options.Nearest(word, []string{f.key}) != "")
	}
	takes := func(f *field) bool { return options.Nearest(value, f.rule.Enum) != "" }
	fits := func(f *field) bool { return same(f) && (f.rule.Enum == nil || takes(f)) }
	begins := func(f *field) bool {
		return long && section != tree && strings.HasPrefix(f.doc, strings.Join(words, " "))
	}
	tells := func(f *field) bool { return long && section != tree && within(words, wordsOf(f.doc)) }
	several := 1 // keys elsewhere: the section knows better than many of them
	if section == tree {
		several = maxAlike
	}
	for _, rule := range []struct {
		in   *field
		is   func(*field) bool
		most int
	}{{section, same, maxAlike}, {tree, fits, several}, {section, shares, maxAlike}, {section, takes, maxAlike},
		{section, begins, maxAlike}, {section, tells, maxAlike}, {tree, shares, maxAlike}, {tree, takes, several}} {
		if found := rule.in.paths(rule.is); len(found) > 0 && len(found) <= rule.most {
			return found
		}
	}
	return nil
}

// section returns the section that a path names, or nearly so; nil is none.
func (f *field) section(path string) *field {
	for key := range strings.SplitSeq(path, ".") {
		next := f.child(key)
		if next == nil {
			next = f.child(options.Nearest(key, f.keys()))
		}
		if f = next; f == nil || !f.isSection() {
			return nil
		}
	}
	return f
}

var wordPattern = regexp.MustCompile(`[\pL\pN]+`)

func wordsOf(text string) []string {
	return wordPattern.FindAllString(strings.ReplaceAll(text, "_", " "), -1)
}

// within reports whether all words are among others.
func within(words, others []string) bool {
	return !slices.ContainsFunc(words, func(w string) bool { return !slices.Contains(others, w) })
}

// paths are the paths of the leaves below f that are so.
func (f *field) paths(is func(*field) bool) (paths []string) {
	f.leaves(func(l *field) {
		if is(l) {
			paths = append(paths, l.path)
		}
	})
	return paths
}
