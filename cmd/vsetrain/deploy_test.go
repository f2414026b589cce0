package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"vsetrain/lab/try"
)

// The command lines of the unit and of the container are commands of this program, and systemd understands the unit.
func TestDeploy(t *testing.T) {
	file := func(name string) string {
		t.Helper()
		b := try.Get(os.ReadFile(filepath.Join("..", "..", name)))(t)
		return string(b)
	}
	dir := t.TempDir()
	try.Do(t, os.WriteFile(filepath.Join(dir, "token"), []byte("0123456789abcdef\n"), 0o600))
	unit := strings.ReplaceAll(file("deploy/vsetrain.service"), "\\\n", " ")
	start := regexp.MustCompile(`(?m)^ExecStart=/usr/local/bin/vsetrain (.*)$`).FindStringSubmatch(unit)
	if start == nil {
		t.Fatal("no ExecStart")
	}
	fields, failure := parse(strings.Fields(strings.NewReplacer("%d", dir, "%C", dir).Replace(start[1]))...)
	if failure != "" || fields["serveaddress.listen"] != "127.0.0.1:8430" {
		t.Errorf("ExecStart: %s, %v", failure, fields["serveaddress.listen"])
	}
	if hangup != nil && !strings.Contains(unit, "ExecReload=/bin/kill -HUP $MAINPID") {
		t.Error("a reload is no hangup")
	}
	container := file("Dockerfile.serve")
	var line []string
	for _, key := range []string{"ENTRYPOINT", "CMD"} {
		var words []string
		m := regexp.MustCompile(`(?m)^` + key + ` (\[.*\])$`).FindStringSubmatch(container)
		if m == nil || json.Unmarshal([]byte(m[1]), &words) != nil {
			t.Fatalf("%s: %v", key, m)
		}
		line = append(line, words...)
	}
	if fields, failure := parse(line[1:]...); failure != "" || fields["serveaddress.listen"] != "0.0.0.0:8430" ||
		!strings.Contains(container, "EXPOSE 8430") {
		t.Errorf("%v: %s", line, failure)
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("the unit is not verified: no systemd-analyze")
	}
	out, _ := exec.Command(analyze, "verify", filepath.Join("..", "..", "deploy", "vsetrain.service")).CombinedOutput()
	for said := range strings.Lines(string(out)) {
		if !strings.Contains(said, "/usr/local/bin/vsetrain is not executable") {
			t.Errorf("systemd-analyze: %s", said)
		}
	}
}
