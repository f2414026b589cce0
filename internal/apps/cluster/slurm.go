package cluster

import (
	"fmt"
	"strings"
)

// Requeue returns the end of a script that started its step in the background. It waits for the step, and puts the
// task, a job id as a word of sh, back into the queue if the step was interrupted (75) or killed, at most that many
// times.
func Requeue(task string, most int) string {
	return fmt.Sprintf(`step=$!
trap 'kill -USR1 "$step" 2>/dev/null' USR1 TERM # which saves its work
while :; do
  wait "$step"
  code=$?
  kill -0 "$step" 2>/dev/null || break # else a signal ended the waiting, not the step
done
# 75: saved; above 128: killed. A job that was cancelled is not queued again.
if [ "$code" -eq 75 ] || [ "$code" -gt 128 ]; then
  if [ "${SLURM_RESTART_COUNT:-0}" -lt %[2]d ] && scontrol show job "%[1]s" | grep -q JobState=RUNNING; then
    echo "task %[1]s ended with $code and is queued again"
    scontrol requeue "%[1]s" && sleep 60 # until Slurm ends this script
  fi
fi
exit "$code"
`, task, most)
}

// Steps are the processes of a training on Slurm: PerNode on each of Nodes.
type Steps struct {
	Name, WorkDir  string
	Program        string
	Args           []string // of train
	Nodes, PerNode int
	CPUs           int      // of each process
	GPUs           int      // of each node
	Time           string   // may be empty
	Options        []string // of sbatch, such as --partition=gpu
	Setup          []string // lines of shell before the program
	Requeues       int
	TokenVariable  string
}

// Script returns the script of the job. When the time is nearly up, or Slurm needs a node, it signals the processes.
// They save the run and exit with 75, and the job returns to the queue. A process that fails ends all. A name that
// sbatch cannot read is an error.
func (s Steps) Script() (string, error) {
	var d Directives
	d.Add("job-name", "vsetrain-"+s.Name)
	d.Option(fmt.Sprintf("--nodes=%d", s.Nodes))
	d.Option(fmt.Sprintf("--ntasks-per-node=%d", s.PerNode))
	d.Option(fmt.Sprintf("--cpus-per-task=%d", s.CPUs))
	gpus := ""
	if s.GPUs > 0 {
		d.Option(fmt.Sprintf("--gpus-per-node=%d", s.GPUs))
		gpus = " --gpu-bind=none" // a process that sees one GPU alone cannot copy to the others
	}
	d.Add("time", s.Time)
	d.Option("--requeue")
	d.Option("--open-mode=append")
	d.Output(s.WorkDir, "slurm-%j.log")
	d.Add("chdir", s.WorkDir)
	d.Option("--signal=USR1@120")
	for _, o := range s.Options {
		d.Option(o)
	}
	lines, err := d.Lines()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	add := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	add("#!/bin/bash")
	add("# A training on %d x %d processes; written by vsetrain launch slurm.", s.Nodes, s.PerNode)
	b.WriteString(lines)
	add("set -u")
	for _, line := range s.Setup {
		add("%s", line)
	}
	words := []string{Shell(s.Program)}
	for _, w := range s.Args {
		words = append(words, Shell(w))
	}
	add(`export %s=$(head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n')`, s.TokenVariable)
	// Use the processors of the job, even if it is submitted with another number of them. GOMAXPROCS and
	// device.threads, which overrides it, take precedence.
	add(`cpus="${SLURM_CPUS_PER_TASK:-%d}"`, s.CPUs)
	add(`export GOMAXPROCS="${GOMAXPROCS:-$cpus}"`)
	add(`srun --mpi=none --kill-on-bad-exit=1%s --cpus-per-task="$cpus" %s &`, gpus, strings.Join(words, " "))
	b.WriteString(Requeue("$SLURM_JOB_ID", s.Requeues))
	return b.String(), nil
}
