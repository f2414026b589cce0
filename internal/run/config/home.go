package config

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// pathKeys are the settings that name a file or a folder.
var pathKeys = []string{"data.dir", "data.vocab", "data.semantics", "data.noise_index", "data.mined",
	"model.bert.dir", "model.word_init", "loss.crcl.labels", "train.init_from", "run.dir"}

// shellVariable is what a shell would replace by the value of a variable: $NAME at the beginning of a name, ${NAME}
// anywhere.
var shellVariable = regexp.MustCompile(`\$\{\w+\}|(?:^|/)\$[A-Za-z_]\w*`)

// checkPath returns an error for a path that was written for a shell, and would name a folder called ${HOME} or ~bob.
func checkPath(path string) error {
	if found := shellVariable.FindString(path); found != "" {
		return fmt.Errorf("variables such as %s are not read in settings; write the path itself, ~/ for the home "+
			"directory, or name it with --set, where the shell reads them", strings.TrimPrefix(found, "/"))
	}
	if name, _, _ := strings.Cut(path, "/"); len(name) > 1 && name[0] == '~' {
		return fmt.Errorf("%s, the home directory of another user, is not read; write its path, or ./%s for a folder "+
			"of "+
			"that name", name, path)
	}
	return nil
}

// ExpandHome replaces ~ at the beginning of a path, alone or before /, by the home directory, as a shell does: the
// value of HOME, or where it is not set, as for a service, from the user database. Without either it is an error.
func ExpandHome(path string) (string, error) {
	if path != "~" && !strings.HasPrefix(path, "~/") {
		return path, nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		u, err := user.LookupId(strconv.Itoa(os.Getuid()))
		if err != nil || u.HomeDir == "" {
			return "", fmt.Errorf("%s: HOME is not set, and the user database has no home directory; set HOME, or "+
				"write "+
				"the path itself", path)
		}
		home = u.HomeDir
	}
	return filepath.Join(home, path[1:]), nil
}
