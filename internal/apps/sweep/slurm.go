package sweep

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"

	"vsetrain/internal/apps/cluster"
)

// Location says where a program on another machine finds a sweep: absolute paths on a shared file system.
type Location struct {
	Program string
	File    string // the sweep file
	Dir     string // the folder of the sweep
	WorkDir string // base of relative paths in configurations
}

// Indices returns the tasks of an array: the remaining trials of a grid or random search. With tpe and asha the next
// trials depend on results, so it returns one task for each worker that may run at a time.
func (p *Plan) Indices(s *Store) (out []int, err error) {
	states, err := p.States(s)
	if err != nil {
		return nil, err
	}
	if !p.Indexed() {
		if p.finished(states) {
			return nil, nil
		}
		l := &p.Def.Launch
		n := cmp.Or(l.Workers, max(l.Slurm.Throttle, l.Kubernetes.Parallelism, 1))
		for i := range min(n, p.Points*len(p.Def.Seeds)) {
			out = append(out, i)
		}
		return out, nil
	}
	for i, st := range states {
		if st.Failed == nil && !st.done(st.Epochs) {
			out = append(out, i)
		}
	}
	return out, nil
}

// Indexed reports whether every task of an array has its own trial.
func (p *Plan) Indexed() bool { return p.Def.Method == Grid || p.Def.Method == Random }

func (p *Plan) finished(states []*State) bool {
	job, wait := p.Def.next(states)
	return job == nil && !wait && (p.Def.Method != TPE || len(groups(states)) == p.Points)
}

// ranges writes ascending numbers as Slurm does: 0-3,7.
func ranges(n []int) string {
	var parts []string
	for i := 0; i < len(n); {
		j := i
		for j+1 < len(n) && n[j+1] == n[j]+1 {
			j++
		}
		if j == i {
			parts = append(parts, fmt.Sprint(n[i]))
		} else {
			parts = append(parts, fmt.Sprintf("%d-%d", n[i], n[j]))
		}
		i = j + 1
	}
	return strings.Join(parts, ",")
}

// JobScript returns the script of a job array. The worker is a separate step. When the time of a task is nearly up,
// Slurm signals the script, and the worker saves its trial and exits with 75. The script then puts the task back into
// the queue, also if the step was killed. Slurm itself requeues the tasks of a failed node.
func (p *Plan) JobScript(at Location, indices []int) (string, error) {
	s := p.Def.Launch.Slurm
	s.GPUs = p.Def.Launch.taskGPUs(s.GPUs)
	array := ranges(indices)
	if s.Throttle > 0 {
		array += fmt.Sprintf("%%%d", s.Throttle)
	}
	var d cluster.Directives
	d.Add("job-name", "vsetrain-"+filepath.Base(at.Dir))
	d.Option("--array=" + array)
	d.Option("--requeue")
	d.Option("--open-mode=append")
	d.Output(filepath.Join(at.Dir, "slurm"), "%A_%a.log")
	d.Add("chdir", at.WorkDir)
	d.Option("--ntasks=1")
	d.Option(fmt.Sprintf("--cpus-per-task=%d", s.CPUs))
	d.Option(fmt.Sprintf("--signal=B:USR1@%d", s.SignalSeconds))
	s.options(&d)
	lines, err := d.Lines()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	add := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	add("#!/bin/bash")
	add("# A worker of the sweep %s for each task; written by vsetrain sweep run.",
		cluster.Comment(filepath.Base(at.File)))
	b.WriteString(lines)
	add("set -u")
	for _, line := range s.Setup {
		add("%s", line)
	}
	worker := []string{cluster.Shell(at.Program), "sweep worker --config", cluster.Shell(at.File), "--dir",
		cluster.Shell(at.Dir), fmt.Sprintf("--threads %d", s.CPUs), `--job "$task"`}
	if p.Indexed() {
		worker = append(worker, `--index "$SLURM_ARRAY_TASK_ID"`)
	}
	add(`task="${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}"`)
	add(`srun --mpi=none --ntasks=1 --cpus-per-task=%d %s &`, s.CPUs, strings.Join(worker, " "))
	b.WriteString(cluster.Requeue("$task", s.Requeues))
	return b.String(), nil
}

func (s *Slurm) options(d *cluster.Directives) {
	d.Add("partition", s.Partition)
	d.Add("account", s.Account)
	d.Add("qos", s.QOS)
	d.Add("time", s.Time)
	d.Add("mem", s.Memory)
	d.Add("gpus-per-task", s.GPUs)
	d.Add("constraint", s.Constraint)
	for _, o := range s.Extra {
		d.Option(o)
	}
}

// CollectScript returns the script of the job that collects the results after the array.
func (p *Plan) CollectScript(at Location) (string, error) {
	s := p.Def.Launch.Slurm
	s.GPUs, s.Memory, s.Time = "", "", ""
	var d cluster.Directives
	d.Add("job-name", "vsetrain-collect-"+filepath.Base(at.Dir))
	d.Output(filepath.Join(at.Dir, "slurm"), "collect.log")
	d.Add("chdir", at.WorkDir)
	d.Option("--ntasks=1")
	s.options(&d)
	lines, err := d.Lines()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("#!/bin/bash\n# Tables and plots of the sweep; written by vsetrain sweep run.\n%s%sexec %s "+
		"sweep collect --config %s --dir %s\n", lines, strings.Join(append(s.Setup, ""), "\n"),
		cluster.Shell(at.Program), cluster.Shell(at.File), cluster.Shell(at.Dir)), nil
}
