package cluster

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"vsetrain/lab/try"
)

// drawWord is a word of letters that mean something somewhere.
func drawWord(rng *rand.Rand, letters string) string {
	from := []rune(letters)
	word := make([]rune, 1+rng.IntN(12))
	for i := range word {
		word[i] = from[rng.IntN(len(from))]
	}
	return string(word)
}

const meaningful = "ab 1.%jA$(){}'`\"\\#&|;<>*?[]~!=+@\t\n-ü日"

// sh reads every word as it was.
func TestShellReads(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip(err)
	}
	rng := rand.New(rand.NewPCG(7, 1))
	var words []string
	script := "printf '%s\\0'"
	for range 2000 {
		w := drawWord(rng, meaningful)
		words, script = append(words, w), script+" "+Shell(w)
	}
	out := try.Get(exec.Command(sh, "-c", script).Output())(t)
	if got := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"); strings.Join(got, "\x00") !=
		strings.Join(words, "\x00") {
		t.Errorf("sh reads %d words otherwise than the %d that were written", len(got), len(words))
	}
}

// found is a line of sbatch -vvv about an argument of a script; argument the form of one with a value.
var found = regexp.MustCompile(`(?s)Found in script, argument "(.*)"$`)

// sbatch reads every value as it was, but for what a pattern of --output stands for, or the writer refuses it.
func TestSbatchReads(t *testing.T) {
	sbatch, err := exec.LookPath("sbatch")
	if err != nil {
		t.Skip("needs Slurm (scripts/slurm-testcluster.sh install)")
	}
	dir := t.TempDir()
	conf := filepath.Join(dir, "slurm.conf")
	try.Do(t, os.WriteFile(conf, []byte("ClusterName=t\nSlurmctldHost=localhost\nAuthType=auth/none\n"+
		"CredType=cred/none\nNodeName=localhost CPUs=1\nPartitionName=p Nodes=localhost Default=YES\n"), 0o666))
	rng := rand.New(rand.NewPCG(7, 2))
	var want []string
	script, refused := "#!/bin/bash\n", 0
	for range 300 {
		w := drawWord(rng, meaningful)
		var d Directives
		switch rng.IntN(3) {
		case 0:
			d.Add("job-name", w)
			w = "--job-name=" + w
		case 1:
			d.Add("chdir", "/"+w)
			w = "--chdir=/" + w
		default:
			d.Output("/"+w, "slurm-%j.log")
			w = filepath.Clean("--output=/"+strings.ReplaceAll(w, "%", "%%")) + "/slurm-%j.log"
		}
		lines, err := d.Lines()
		if bad := strings.ContainsAny(w, "\"\n\t") || strings.HasPrefix(w, "--output") && strings.Contains(w,
			`\`); bad {
			if refused++; err == nil {
				t.Errorf("%q was not refused: %s", w, lines)
			}
			continue
		}
		try.Do(t, err)
		script, want = script+lines, append(want, w)
	}
	if refused < 20 || len(want) < 50 {
		t.Fatalf("drew %d values, %d of them refused", len(want), refused)
	}
	file := filepath.Join(dir, "job.sh")
	try.Do(t, os.WriteFile(file, []byte(script), 0o666))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, sbatch, "-vvv", file)
	cmd.Env = []string{"SLURM_CONF=" + conf}
	out := try.Get(cmd.StderrPipe())(t)
	try.Do(t, cmd.Start())
	var got []string
	for lines := bufio.NewScanner(out); lines.Scan() && !strings.HasSuffix(lines.Text(), "defined options"); {
		if m := found.FindStringSubmatch(lines.Text()); m != nil {
			got = append(got, m[1])
		}
	}
	cancel()
	_ = cmd.Wait() // it looks for the controller until it is killed
	if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
		t.Errorf("sbatch reads\n%q\nwant\n%q", got, want)
	}
}

// expand is what Kubernetes makes of a word of a command (k8s.io/kubernetes/third_party/forked/golang/expansion):
// $(NAME) is replaced, $$ is $, and all else stays.
func expand(word string, value func(string) string) string {
	var b strings.Builder
	for i := 0; i < len(word); i++ {
		rest := word[i:]
		switch end := strings.IndexByte(rest, ')'); {
		case strings.HasPrefix(rest, "$$"):
			b.WriteByte('$')
			i++
		case strings.HasPrefix(rest, "$(") && end > 0:
			b.WriteString(value(rest[2:end]))
			i += end
		default:
			b.WriteByte(word[i])
		}
	}
	return b.String()
}

// Kubernetes takes every word as it was written, and the numbers of pods alone from its variables.
func TestLiteral(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 3))
	for range 20000 {
		w := drawWord(rng, "$()$(A)$$bJ")
		if got := expand(literal(w), func(string) string { return "REPLACED" }); got != w {
			t.Fatalf("%q becomes %q", w, got)
		}
	}
	b := try.Get(Pods{Dir: "runs/x", Args: []string{"$(WORLD_SIZE)"}, Indices: []string{"--job"},
		Tasks: 1}.Manifest())(t)
	for _, want := range []string{"- $$(WORLD_SIZE)\n", "- --job\n", "- $(JOB_COMPLETION_INDEX)\n",
		"enableServiceLinks: false"} {
		if !strings.Contains(string(b), want) {
			t.Errorf("no %q in\n%s", want, b)
		}
	}
	if _, err := (Pods{Dir: "runs/x", Args: []string{"caf\xe9"}, Tasks: 1}).Manifest(); err == nil {
		t.Error("a word that is not UTF-8 was written")
	}
}

var dnsLabel = regexp.MustCompile(`^[a-z]([-a-z0-9]*[a-z0-9])?$`)

// Other folders give other names, each a DNS label; one folder has one.
func TestJobNames(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 4))
	dirs, names := map[string]bool{}, map[string]string{}
	for _, prefix := range []string{"runs/", "sweeps/", "a/runs/", "/runs/", ""} {
		for range 4000 {
			name := drawWord(rng, "aAbB1-_. é日")
			if rng.IntN(4) == 0 {
				name = "flickr30k-vseinf-lseh-margin0-185-lambda0-025-warmup1-" + name
			}
			dirs[prefix+name] = true
		}
	}
	dirs["runs/sweep-x"], dirs["sweeps/x"], dirs["runs/x"] = true, true, true
	for dir := range dirs {
		for _, kind := range []string{"", sweepKind} {
			name := jobName(kind, dir)
			if !dnsLabel.MatchString(name) || len(name) > 50 {
				t.Errorf("%q: no DNS label of at most 50 letters: %s", dir, name)
			}
			if other, ok := names[name]; ok {
				t.Errorf("%q and %q are both %s", kind+dir, other, name)
			}
			names[name] = kind + dir
		}
	}
	if n := jobName("", "runs/demo"); n != "vsetrain-demo" {
		t.Errorf("a plain name became %s", n)
	}
}
