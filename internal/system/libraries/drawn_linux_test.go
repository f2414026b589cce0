package libraries

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"vsetrain/lab/try"
)

// A file is refused exactly where the system lets somebody else change it or its way, in drawn trees of owners, groups,
// modes and links: a shell of that user says what it may write.
func TestTrustedIsWhatTheSystemAllows(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give files to others")
	}
	const other, user, interpreter = 3000, 2000, 1000
	root := t.TempDir()
	try.Do(t, os.Chmod(filepath.Dir(root), 0o755))
	draw := rand.New(rand.NewPCG(51, 5))
	one := func(of ...uint32) uint32 { return of[draw.IntN(len(of))] }
	type tree struct {
		file string
		way  []string // what must not change
		err  error
	}
	var trees []tree
	for n := range 300 {
		base := fmt.Sprintf("/%d", n)
		dirs := []string{base, base + "/a", base + "/a/b"}
		target := base + "/a/b/lib.so"
		way := append([]string{}, dirs...)
		try.Do(t, os.MkdirAll(filepath.Join(root, dirs[2]), 0o755))
		file := target
		if draw.IntN(3) == 0 { // through a link in another folder
			way = append(way, base+"/links")
			try.Do(t, os.Mkdir(filepath.Join(root, base+"/links"), 0o755))
			file = base + "/links/lib.so"
			to := target
			if draw.IntN(2) == 0 {
				to = "../a/b/lib.so"
			}
			try.Do(t, os.Symlink(to, filepath.Join(root, file)))
		}
		try.Do(t, os.WriteFile(filepath.Join(root, target), nil, 0o644))
		for _, path := range append(way, target) {
			if draw.IntN(2) == 0 {
				continue // root's, 0755 or 0644
			}
			try.Do(t, os.Chown(filepath.Join(root, path), int(one(0, user, interpreter, interpreter)),
				int(one(0, user, interpreter, 100))))
			mode := fs.FileMode(one(0o755, 0o755, 0o775, 0o777)) | fs.FileMode(one(0, 0, 0, 1))*fs.ModeSticky
			try.Do(t, os.Chmod(filepath.Join(root, path), mode))
		}
		if draw.IntN(6) == 0 {
			path := way[draw.IntN(len(way))]
			try.Do(t, os.Lchown(filepath.Join(root, path), other, other))
		}
		o := owners{user: user, outside: -1}
		if draw.IntN(2) == 0 {
			o.python = []uint32{interpreter}
		}
		seen := append(way, target)
		if file != target {
			seen = append(seen, file)
		}
		trees = append(trees, tree{file, seen, trusted(root, file, o)})
		if o.python == nil { // then that user is another one, too
			for _, path := range seen {
				info := try.Get(os.Lstat(filepath.Join(root, path)))(t)
				if st := info.Sys().(*syscall.Stat_t); st.Uid == interpreter || st.Gid == interpreter &&
					info.Mode()&0o020 != 0 && info.Mode()&fs.ModeSymlink == 0 &&
					!(info.IsDir() && info.Mode()&fs.ModeSticky != 0) {
					if trees[n].err == nil {
						t.Errorf("tree %d: %s of user %d is taken", n, path, interpreter)
					}
					trees[n].way = nil // and it is known why
				}
			}
		}
	}
	// What the other user, who is in the group 100, may write.
	c := exec.Command("sh", "-c", `while read p; do if [ -w "$p" ]; then echo w; else echo -; fi; done`)
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: other, Gid: other, Groups: []uint32{100}}}
	var asked bytes.Buffer
	for _, x := range trees {
		for _, path := range x.way {
			fmt.Fprintln(&asked, filepath.Join(root, path))
		}
	}
	c.Stdin = &asked
	answers := strings.Fields(string(try.Get(c.Output())(t)))
	refused := 0
	for n, x := range trees {
		changes := ""
		for _, path := range x.way {
			writes := answers[0] == "w"
			answers = answers[1:]
			info := try.Get(os.Lstat(filepath.Join(root, path)))(t)
			owner := info.Sys().(*syscall.Stat_t).Uid == other
			link, sticky := info.Mode()&fs.ModeSymlink != 0, info.IsDir() && info.Mode()&fs.ModeSticky != 0
			if owner || writes && !link && !sticky {
				changes = path
			}
		}
		if x.err != nil {
			refused++
		}
		if x.way != nil && (changes != "") != (x.err != nil) {
			t.Errorf("tree %d: the other user can change %q, and the library is refused for %v", n, changes, x.err)
		}
	}
	if refused < 50 || refused > 280 {
		t.Errorf("%d of %d trees are refused, which shows little", refused, len(trees))
	}
}

// In a container with users of its own, as rootless ones are, files of the machine's root belong to nobody who is
// there: they are taken in folders of the system, and in none that a variable names.
func TestTrustedInAContainer(t *testing.T) {
	const inside = "VSETRAIN_TEST_INSIDE"
	if root := os.Getenv(inside); root != "" {
		f := NewFolders("/", os.Getenv)
		for _, named := range []bool{false, true} {
			fmt.Println(outside(), trusted(root, "/lib/x.so", f.owners(folder{named: named})))
		}
		return
	}
	if os.Getuid() != 0 {
		t.Skip("only root can make the container of another user")
	}
	root := t.TempDir()
	for _, dir := range []string{root, filepath.Dir(root)} {
		try.Do(t, os.Chmod(dir, 0o755))
	}
	try.Do(t, os.Mkdir(filepath.Join(root, "lib"), 0o755))
	try.Do(t, os.WriteFile(filepath.Join(root, "lib/x.so"), nil, 0o644))
	c := exec.Command("/proc/self/exe", "-test.run", "^TestTrustedInAContainer$")
	c.Env, c.Dir = append(os.Environ(), inside+"="+root), "/"
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, Credential: &syscall.Credential{},
		UidMappings: []syscall.SysProcIDMap{{HostID: 3000, Size: 1000}},
		GidMappings: []syscall.SysProcIDMap{{HostID: 3000, Size: 1000}}}
	out, err := c.CombinedOutput()
	if err != nil {
		t.Skipf("this machine makes no containers: %v: %s", err, out)
	}
	lines := strings.Split(string(out), "\n")
	if lines[0] != "65534 <nil>" || !strings.Contains(lines[1], "/lib belongs to user 65534, expected root") {
		t.Errorf("%s", out)
	}
}
