package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"vsetrain/internal/apps/cluster"
	"vsetrain/internal/run/launch"
)

// launchOptions are those of both batch systems.
type launchOptions struct {
	Nodes, Procs, GPUs int
	Submit             bool
	Train              []string // the words from train on
}

func newCmdLaunch(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "launch",
		Short: "Write or submit a training on several machines, for Slurm or Kubernetes",
		Long: `Write the job of a training on several machines, for Slurm or Kubernetes, or submit it with --submit.
The command line of train follows --; it gets --auto-resume, so that a job which is started again continues.
docs/distributed.md describes both.`,
		Example: `  vsetrain launch slurm --nodes 2 --procs 4 -- train --config vsepp/f30k-lseh --run runs/big > big.sh
  vsetrain launch kubernetes --nodes 4 --image registry.example/vsetrain:1 --volume shared -- train --config demo`,
	}
	return group(c, newCmdLaunchSlurm(a), newCmdLaunchKubernetes(a))
}

func (o *launchOptions) define(c *cobra.Command) *pflag.FlagSet {
	f := c.Flags()
	f.IntVar(&o.Nodes, "nodes", 1, "`N` machines")
	f.IntVar(&o.Procs, "procs", 1, "`N` processes on each machine")
	f.IntVar(&o.GPUs, "gpus", 0, "`N` GPUs on each machine")
	f.BoolVar(&o.Submit, "submit", false, "submit the job instead of printing it")
	c.Args = func(_ *cobra.Command, args []string) error {
		o.Train = args
		if len(args) == 0 || args[0] != "train" {
			return usagef("expected the command line of train behind --, such as -- train --config demo, found %q",
				args)
		}
		return nil
	}
	return f
}

// job checks the options, and returns the command line of train and the run directory.
func (o *launchOptions) job(a *app) (args []string, dir string, err error) {
	for _, n := range []struct {
		flag         string
		value, least int
	}{{"nodes", o.Nodes, 1}, {"procs", o.Procs, 1}, {"gpus", o.GPUs, 0}} {
		if n.value < n.least || n.value > 10000 {
			return nil, "", usagef("--%s: expected a whole number in [%d, 10000], found %d", n.flag, n.least, n.value)
		}
	}
	if o.GPUs > 0 && o.Procs > 1 {
		return nil, "", usagef("--gpus and --procs exclude each other; leave all but one out")
	}
	t := &trainOptions{}
	c := newCmdTrain(&app{Streams: a.Streams, Environ: a.Environ, runF: func(o command) error {
		t = o.(*trainOptions)
		return nil
	}})
	a.addVerbosity(c.Flags())
	c.SetArgs(o.Train[1:])
	c.SilenceErrors, c.SilenceUsage = true, true
	if err := c.Execute(); err != nil {
		return nil, "", usagef("%s: %v", strings.Join(o.Train, " "), err)
	}
	if t.Procs > 1 || t.GPUs != "" || t.Seeds != "" || t.DryRun || t.Resume {
		return nil, "", usagef("--procs and --gpus belong before --, and a job takes no --seeds, --dry-run or " +
			"--resume: it continues by itself")
	}
	args = o.Train
	if !t.AutoResume {
		args = append(args, "--auto-resume")
	}
	if dir = t.Run; dir == "" {
		cfg, err := t.load(a)
		if err != nil {
			return nil, "", err
		}
		dir = cfg.RunDir(t.File)
		if ranks := o.Nodes * max(o.Procs, o.GPUs); ranks > cfg.Train.Batch {
			return nil, "", usagef("%d ranks, but train.batch is %d: each rank needs at least one caption; start fewer",
				ranks, cfg.Train.Batch)
		}
	}
	return args, dir, nil
}

// submit hands a job to a program on its standard input, whose output goes to out.
func (a *app) submit(ctx context.Context, job string, out io.Writer, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, program, args...)
	var errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Env = strings.NewReader(job), out, &errs, a.Environ
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, bytes.TrimSpace(errs.Bytes()))
	}
	return nil
}

type launchSlurmOptions struct {
	launchOptions
	CPUs     int
	Time     string
	Sbatch   []string
	Setup    []string
	Requeues int
}

func newCmdLaunchSlurm(a *app) *cobra.Command {
	o := &launchSlurmOptions{}
	c := &cobra.Command{
		Use:   "slurm -- train …",
		Short: "Print or submit a job of Slurm",
		Long: `Print the script of a job that trains on several nodes, or submit it. srun starts the processes; they
find each other by its variables, with --mpi=none, so that no plug-in for MPI is needed. Two minutes before its time
is up, and when a process was killed, the job is put back into the queue, where it continues from its checkpoint.`,
		Example: `  vsetrain launch slurm --nodes 2 --procs 4 --cpus 8 -- train --config vsepp/f30k-lseh --run runs/big
  vsetrain launch slurm --nodes 4 --time 8:00:00 --sbatch=--partition=cpu --submit -- train --config demo`,
		RunE: a.runs(o),
	}
	f := o.define(c)
	f.IntVar(&o.CPUs, "cpus", 1, "`N` processors for each process, and its threads unless device.threads is set")
	f.StringVar(&o.Time, "time", "", "limit of the job, as sbatch takes it")
	f.StringArrayVar(&o.Sbatch, "sbatch", nil, "another `OPTION` of sbatch, such as --sbatch=--partition=gpu; may be "+
		"repeated")
	f.StringArrayVar(&o.Setup, "setup", nil, "`LINE` of shell before the program, such as a module load; may be "+
		"repeated")
	f.IntVar(&o.Requeues, "requeues", 20, "how often the job is put back into the queue at most")
	return c
}

func (o *launchSlurmOptions) run(ctx context.Context, a *app) error {
	if o.CPUs < 1 {
		return usagef("--cpus: expected a whole number of at least 1, found %d", o.CPUs)
	}
	args, dir, err := o.job(a)
	if err != nil {
		return err
	}
	s := cluster.Steps{Name: filepath.Base(dir), Args: args,
		Nodes: o.Nodes, PerNode: max(o.Procs, o.GPUs), CPUs: o.CPUs, GPUs: o.GPUs, Time: o.Time, Options: o.Sbatch,
		Setup: o.Setup, Requeues: o.Requeues, TokenVariable: launch.TokenVariable}
	if o.GPUs > 0 { // with a process for each, which Slurm starts; what the user sets counts
		s.Args = slices.Insert(slices.Clone(args), 1, "--set", "device.kind=cuda")
	}
	if s.Program, err = slurmProgram(); err != nil {
		return err
	}
	if s.WorkDir, err = os.Getwd(); err != nil {
		return err
	}
	script, err := s.Script()
	if err != nil {
		return err
	}
	if !o.Submit {
		a.Print(script)
		return nil
	}
	return a.submit(ctx, script, a.Raw(), "sbatch")
}

type launchKubernetesOptions struct {
	launchOptions
	Pods cluster.Pods
}

func newCmdLaunchKubernetes(a *app) *cobra.Command {
	o := &launchKubernetesOptions{}
	p := &o.Pods
	c := &cobra.Command{
		Use:   "kubernetes -- train …",
		Short: "Print or submit an Indexed Job of Kubernetes",
		Long: `Print the manifest of an Indexed Job that trains on several pods, or hand it to kubectl apply. A headless
service gives pod 0 the name by which the others find it, and a secret holds what all of them share. A pod that was
evicted or killed ends the others with code 75; all are started again and continue from the checkpoint, which the
volume keeps.`,
		Example: `  vsetrain launch kubernetes --nodes 4 --image registry.example/vsetrain:1 --volume w -- train demo
  vsetrain launch kubernetes --nodes 2 --procs 4 --cpu 4 --image registry.example/vsetrain:1 --submit -- train demo`,
		RunE: a.runs(o),
	}
	f := o.define(c)
	f.StringVar(&p.Image, "image", "", "container `IMAGE` with vsetrain and MPICH")
	f.StringVar(&p.Namespace, "namespace", "", "`NAME` of the namespace")
	f.StringVar(&p.CPU, "cpu", "1", "processors of a pod, such as 4 or 500m")
	f.StringVar(&p.Memory, "memory", "4Gi", "memory of a pod")
	f.StringVar(&p.Volume, "volume", "", "`NAME` of a PersistentVolumeClaim with data and runs, which all pods can "+
		"write")
	f.StringVar(&p.Mount, "mount", "/shared", "where pods see the volume, and work")
	f.IntVar(&p.Retries, "retries", 6, "how often a pod that was killed is started again")
	must(c.MarkFlagRequired("image"))
	return c
}

func (o *launchKubernetesOptions) run(ctx context.Context, a *app) error {
	args, dir, err := o.job(a)
	if err != nil {
		return err
	}
	p := o.Pods
	if o.Procs > 1 {
		args = append(args, "--procs", fmt.Sprint(o.Procs))
	}
	if o.GPUs > 0 {
		p.GPUs = fmt.Sprint(o.GPUs)
		args = append(args, "--gpus", p.GPUs)
	}
	if wd, err := os.Getwd(); err == nil && filepath.IsAbs(dir) { // a run has one name
		if rel, err := filepath.Rel(wd, dir); err == nil && filepath.IsLocal(rel) {
			dir = rel
		}
	}
	p.Dir, p.Args, p.Tasks = filepath.ToSlash(filepath.Clean(dir)), args, o.Nodes
	p.Together, p.Port, p.Interrupted, p.GraceSeconds = true, launch.DefaultPort, exitInterrupted, 120
	p.TokenVariable, p.Token = launch.TokenVariable, rand.Text()
	b, err := p.Manifest()
	if err != nil {
		return err
	}
	if !o.Submit {
		a.Print(string(b))
		return nil
	}
	return a.submit(ctx, string(b), a.Raw(), "kubectl", "apply", "-f", "-")
}
