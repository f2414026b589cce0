package build

import (
	"os/exec"
	"runtime/debug"
	"strings"
	"testing"
)

func TestDescribe(t *testing.T) {
	stamped := []debug.BuildSetting{{Key: "vcs.revision", Value: "fedcba9876543210"},
		{Key: "vcs.modified", Value: "true"}}
	for _, c := range []struct {
		commit  string
		stamped []debug.BuildSetting
		want    string
	}{
		{"", nil, "1.2.0"},
		{"", stamped, "1.2.0 (fedcba987654+changes)"},
		{"0123456789ab", stamped, "1.2.0 (0123456789ab)"},
		{"0123456789ab+changes", nil, "1.2.0 (0123456789ab+changes)"},
	} {
		if got := describe("1.2.0", c.commit, c.stamped).String(); got != c.want {
			t.Errorf("commit %q, %v: %q, want %q", c.commit, c.stamped, got, c.want)
		}
	}
}

// The Makefile sets the variables of this package; the linker ignores a name that does not exist.
func TestMakefileSetsVersionAndCommit(t *testing.T) {
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("needs make")
	}
	cmd := exec.Command("make", "-n", "build", "VERSION=v1.2.3", "COMMIT=0123456789ab+changes")
	cmd.Dir = "../../.."
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("make: %v\n%s", err, out)
	}
	for _, value := range []string{"version=1.2.3", "commit=0123456789ab+changes"} {
		if want := "-X vsetrain/internal/system/build." + value; !strings.Contains(string(out), want) {
			t.Errorf("make build runs %s, want %s", out, want)
		}
	}
}
