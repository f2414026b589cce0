package main

import (
	"strings"

	"vsetrain/models"
)

// pairScorers and embedders list networks for help texts, by their names in the configuration.
func pairScorers() string { return inWords("and", func(t models.Traits) bool { return !t.Embeds }) }
func embedders() string   { return inWords("or", func(t models.Traits) bool { return t.Embeds }) }

// inWords joins names as in a sentence: "saf, sgr and gsmn".
func inWords(join string, is func(models.Traits) bool) string {
	names := models.NamesWhere(is)
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " " + join + " " + names[last]
}
