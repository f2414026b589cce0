package config

import (
	"os"
	"path/filepath"
	"strings"
)

// pathKeys are the settings that name a file or a folder.
var pathKeys = []string{"data.dir", "data.vocab", "data.semantics", "data.noise_index", "data.mined",
	"model.bert.dir", "model.word_init", "loss.crcl.labels", "train.init_from", "run.dir"}

// ExpandHome replaces ~ at the beginning of a path by the home directory, as a shell does. It returns the path as it is
// where it does not begin with ~/, or where there is no home directory.
func ExpandHome(path string) string {
	if !strings.HasPrefix(path, "~/") {
		return path
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return path
	}
	return filepath.Join(home, path[1:])
}
