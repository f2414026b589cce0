package cluster

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"path"
	"strings"
	"unicode/utf8"
)

// Shell quotes a word for sh.
func Shell(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// Comment replaces control characters, so that a text stays on the line of a comment.
func Comment(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' {
			return '?'
		}
		return r
	}, s)
}

// Directives are the #SBATCH lines of a script. sbatch reads a value between double quotes, in which a backslash
// escapes a backslash; % begins a pattern only in names of outputs. A value that would end the quotes or the line is an
// error.
type Directives struct {
	lines []string
	err   error
}

// Add adds an option, unless the value is empty.
func (d *Directives) Add(option, value string) {
	if value == "" {
		return
	}
	if i := strings.IndexFunc(value, func(r rune) bool { return r == '"' || r < ' ' || r == 0x7f }); i >= 0 {
		d.refuse(option, value, fmt.Sprintf("%q, which ends the quotes or the line of sbatch", value[i]))
		return
	}
	d.lines = append(d.lines, "--"+option+`="`+strings.ReplaceAll(value, `\`, `\\`)+`"`)
}

// Output adds the file for the output of the job: a pattern of sbatch, such as slurm-%j.log, in a folder.
func (d *Directives) Output(dir, pattern string) {
	if strings.Contains(dir, `\`) {
		d.refuse("output", dir, "a backslash, after which sbatch replaces no patterns")
		return
	}
	d.Add("output", path.Join(strings.ReplaceAll(dir, "%", "%%"), pattern))
}

// Option adds an option as the user writes it, such as --partition=gpu.
func (d *Directives) Option(text string) {
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		d.refuse("sbatch", text, "the end of a line")
		return
	}
	name, value, ok := strings.Cut(text, "=")
	if ok && strings.ContainsAny(value, " #") && !strings.ContainsAny(text, `'"\`) {
		text = name + `="` + value + `"`
	}
	d.lines = append(d.lines, text)
}

func (d *Directives) refuse(option, value, found string) {
	if d.err == nil {
		d.err = fmt.Errorf("%q cannot be the value of --%s in a Slurm script: found %s; use another name", value,
			option, found)
	}
}

// Lines returns the lines, or the error of the first value that was refused.
func (d *Directives) Lines() (string, error) {
	var b strings.Builder
	for _, l := range d.lines {
		fmt.Fprintf(&b, "#SBATCH %s\n", l)
	}
	return b.String(), d.err
}

// literal escapes a word of a command, in which Kubernetes replaces $(NAME) and $$.
func literal(s string) string { return strings.ReplaceAll(s, "$", "$$") }

// jobName returns the name of a job for the folder of its run: a DNS label of at most 50 characters, to which
// Kubernetes adds the index of a pod. Different folders have different names: if letters are folded or cut, or parent
// folders are left out, eight letters of a hash follow.
func jobName(kind, dir string) string {
	base := path.Base(dir)
	name := "vsetrain-" + kind + strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(base))
	const most, letters = 50, 8
	whole := strings.Trim(name, "-")
	usual := map[string]string{"": "runs", sweepKind: "sweeps"}[kind] // parent of the folders of a kind
	if whole == "vsetrain-"+kind+base && len(whole) <= most && dir == path.Join(usual, base) &&
		!(kind == "" && strings.HasPrefix(base, sweepKind)) {
		return whole
	}
	sum := sha256.Sum256([]byte(dir))
	hash := "-" + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))[:letters]
	return strings.TrimRight(whole[:min(len(whole), most-len(hash))], "-") + hash
}

// sweepKind begins the names of the jobs of sweeps.
const sweepKind = "sweep-"

func plain(words ...string) error {
	for _, w := range words {
		if !utf8.ValidString(w) {
			return fmt.Errorf("%q cannot be in a Kubernetes manifest: expected text in UTF-8", w)
		}
	}
	return nil
}
