//go:build unix

package libraries

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// maxLinks is how many symbolic links a path may go through, as in Linux.
const maxLinks = 40

// trusted returns an error that names what to change where others than root and the user could put another file in
// place of name, which lies below root: the file, every folder and every link on the way to it.
func trusted(root, name string) error {
	rest, at := strings.Split(strings.Trim(name, "/"), "/"), "/"
	for links := 0; len(rest) > 0; {
		at, rest = filepath.Join(at, rest[0]), rest[1:]
		info, err := os.Lstat(filepath.Join(root, at))
		if err != nil {
			return err
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			if err := trustedEntry(at, info.Mode(), st.Uid, st.Gid, uint32(os.Getuid())); err != nil {
				return err
			}
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			continue
		}
		if links++; links > maxLinks {
			return fmt.Errorf("%s goes through more than %d links; remove them", name, maxLinks)
		}
		to, err := os.Readlink(filepath.Join(root, at))
		if err != nil {
			return err
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(at), to)
		}
		rest, at = append(strings.Split(strings.Trim(filepath.Clean(to), "/"), "/"), rest...), "/"
	}
	return nil
}

// trustedEntry checks one file, folder or link of a path. A group counts as others unless it is root's or, by the
// convention of Linux, the user's own: its number is the user's. What lies in a folder that everybody may write, such
// as /tmp, is safe where the folder lets nobody rename what is not theirs (the sticky bit).
func trustedEntry(path string, mode fs.FileMode, owner, group, user uint32) error {
	if owner != 0 && owner != user {
		return fmt.Errorf("%s belongs to user %d, expected root or yourself (user %d): install a copy of your own",
			path, owner, user)
	}
	others := mode.Perm() & 0o002
	if group != 0 && group != user {
		others = mode.Perm() & 0o022
	}
	if others == 0 || mode&fs.ModeSymlink != 0 || mode.IsDir() && mode&fs.ModeSticky != 0 {
		return nil
	}
	return fmt.Errorf("others may write %s (mode %04o, group %d): run 'chmod go-w %[1]s'", path, mode.Perm(), group)
}
