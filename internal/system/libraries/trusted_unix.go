//go:build unix

package libraries

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// maxLinks is how many symbolic links a path may have, as in Linux.
const maxLinks = 40

// owners are the users, except root, whose files are loaded from a folder: their code runs here anyway.
type owners struct {
	user   uint32   // who runs the program
	python []uint32 // who can change the python3 whose packages these are, which the user runs
	// outside is the number of all users of the machine who do not exist in this container, or -1. In folders that the
	// system names, which may hold the driver libraries of the machine, they are root of the machine.
	outside int64
}

// owners returns the owners of a folder.
func (f *Folders) owners(of folder) owners {
	o := owners{user: uint32(os.Getuid()), outside: -1}
	if of.packages {
		o.python = f.python.owners
	}
	if !of.named {
		o.outside = outside()
	}
	return o
}

func (o *owners) has(user uint32) bool {
	return user == 0 || user == o.user || slices.Contains(o.python, user)
}

func (o *owners) String() string {
	s := fmt.Sprintf("root or yourself (user %d)", o.user)
	for _, user := range o.python {
		if user != 0 && user != o.user {
			s += fmt.Sprintf(" or the owner of your python3 (user %d)", user)
		}
	}
	return s
}

// trusted returns an error with the remedy if anybody but the owners could replace name, which is below root. It checks
// the file, and every folder and link on the way to it.
func trusted(root, name string, o owners) error {
	rest, at := strings.Split(strings.Trim(name, "/"), "/"), "/"
	for links := 0; len(rest) > 0; {
		at, rest = filepath.Join(at, rest[0]), rest[1:]
		path := filepath.Join(root, at)
		info, err := os.Lstat(path)
		if err != nil {
			return err
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			if err := o.check(at, info.Mode(), st.Uid, st.Gid, func() bool { return listed(path) }); err != nil {
				return err
			}
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			continue
		}
		if links++; links > maxLinks {
			return fmt.Errorf("%s goes through more than %d links; remove them", name, maxLinks)
		}
		to, err := os.Readlink(path)
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

// check checks one file, folder or link of a path: it must belong to one of the owners, and nobody else may write it. A
// group counts as others, unless it is root's or an owner's own, which has the number of the owner by the convention of
// Linux. A folder that everybody may write, such as /tmp, is safe if it has the sticky bit: then nobody can rename the
// files of others. listed reports whether an access control list lets more users write.
func (o *owners) check(path string, mode fs.FileMode, owner, group uint32, listed func() bool) error {
	if !o.has(owner) && int64(owner) != o.outside {
		return fmt.Errorf("%s belongs to user %d, expected %v: install a copy of your own", path, owner, o)
	}
	others := mode.Perm() & 0o002
	if !o.has(group) {
		others = mode.Perm() & 0o022
	}
	switch {
	case mode&fs.ModeSymlink != 0 || mode.IsDir() && mode&fs.ModeSticky != 0:
	case others != 0:
		return fmt.Errorf("others may write %s (mode %04o, group %d): have its owner run 'chmod go-w %[1]s'", path,
			mode.Perm(), group)
	case mode.Perm()&0o020 != 0 && listed(): // in a file with a list these bits are the maximum for anybody
		return fmt.Errorf("the access control list of %s lets others write it: have its owner run 'setfacl -b %[1]s'",
			path)
	}
	return nil
}

// ownerOf returns the number of the user to whom a file belongs.
func ownerOf(info fs.FileInfo) (user uint32, known bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return st.Uid, true
}

// ownersOf returns the users, besides root and the user, who can put another python3 into a folder of PATH; nil if
// everybody can, as in /tmp.
func ownersOf(root, bin string) []uint32 {
	all := []uint32{}
	for dir := bin; ; dir = filepath.Dir(dir) {
		info, err := os.Stat(filepath.Join(root, dir))
		if err != nil {
			return nil
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		sticky := dir != bin && info.Mode()&fs.ModeSticky != 0
		group := st != nil && (st.Gid == 0 || st.Gid == st.Uid || st.Gid == uint32(os.Getuid()))
		if !ok || !sticky && (info.Mode().Perm()&0o002 != 0 || !group && info.Mode().Perm()&0o020 != 0) {
			return nil
		}
		if !slices.Contains(all, st.Uid) {
			all = append(all, st.Uid)
		}
		if dir == "/" {
			return all
		}
	}
}
