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

	"vsetrain/cmd/vsetrain/internal/flags"
	"vsetrain/internal/apps/cluster"
	"vsetrain/internal/run/launch"
)

// launchOptions are options for both batch systems.
type launchOptions struct {
	Train  []string `args:"COMMAND" optional:"yes"` // the words from train on
	Nodes  int      `flag:"nodes" default:"1" min:"1" max:"10000" usage:"number of machines"`
	Procs  int      `flag:"procs" default:"1" min:"1" max:"10000" not:"gpus" usage:"processes on each machine"`
	GPUs   int      `flag:"gpus" min:"0" max:"10000" usage:"GPUs on each machine"`
	Submit bool     `flag:"submit" usage:"submit the job instead of printing it"`
}

func newCmdLaunch(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "launch",
		Short: "Train on several machines with Slurm or Kubernetes",
		Long: `Write the job of a training on several machines, for Slurm or Kubernetes, or
submit it with --submit. The command line of train follows --.

The command line gets --auto-resume, so that a restarted job continues.`,
		Example: `  vsetrain launch slurm --nodes 2 --procs 4 -- train --config vsepp/f30k-lseh --run runs/big > big.sh
  vsetrain launch kubernetes --nodes 4 --image registry.example/vsetrain:1 --volume shared -- train --config demo`,
	}
	return group(c, newCmdLaunchSlurm(a), newCmdLaunchKubernetes(a))
}

func (o *launchOptions) check(*app) error {
	if len(o.Train) == 0 || o.Train[0] != "train" {
		return usagef("expected the command line of train after --, such as -- train --config demo, found %q", o.Train)
	}
	return nil
}

// job checks the options, and returns the command line of train and the run directory.
func (o *launchOptions) job(a *app) (args []string, dir string, err error) {
	t := &trainOptions{}
	c := newCmdTrain(&app{Streams: a.Streams, Environ: a.Environ, runF: func(o command) error {
		t = o.(*trainOptions)
		return nil
	}})
	a.addVerbosity(c.Flags())
	c.SetArgs(o.Train[1:])
	c.SilenceErrors, c.SilenceUsage = true, true
	if err := c.Execute(); err != nil {
		return nil, "", usagef("%s: %v", strings.Join(o.Train, " "), flags.Explain(err))
	}
	if t.Procs > 1 || t.GPUs != "" || t.Seeds != nil || t.DryRun || t.Resume {
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

// submit runs a program with the job as its standard input, and copies its output to out.
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
	CPUs     int      `flag:"cpus" default:"1" min:"1" usage:"processors per process, and its threads unless device.threads is set"`
	Time     string   `flag:"time" usage:"time limit of the job, as sbatch takes it"`
	Sbatch   []string `flag:"sbatch" arg:"OPTION" usage:"another OPTION of sbatch, such as --sbatch=--partition=gpu"`
	Setup    []string `flag:"setup" arg:"LINE" usage:"shell LINE to run before the program, such as a module load"`
	Requeues int      `flag:"requeues" default:"20" min:"0" usage:"how often the job may be requeued"`
}

func newCmdLaunchSlurm(a *app) *cobra.Command {
	return a.command(&launchSlurmOptions{}, &cobra.Command{
		Use:   "slurm -- train ...",
		Short: "Print or submit a job of Slurm",
		Long: `Print the script of a Slurm job that trains on several nodes, or submit it. srun
starts the processes; no MPI plug-in is needed.`,
		Example: `  vsetrain launch slurm --nodes 2 --procs 4 --cpus 8 -- train --config vsepp/f30k-lseh --run runs/big
  vsetrain launch slurm --nodes 4 --time 8:00:00 --sbatch=--partition=cpu --submit -- train --config demo`,
	})
}

func (o *launchSlurmOptions) run(ctx context.Context, a *app) error {
	args, dir, err := o.job(a)
	if err != nil {
		return err
	}
	s := cluster.Steps{Name: filepath.Base(dir), Args: args,
		Nodes: o.Nodes, PerNode: max(o.Procs, o.GPUs), CPUs: o.CPUs, GPUs: o.GPUs, Time: o.Time, Options: o.Sbatch,
		Setup: o.Setup, Requeues: o.Requeues, TokenVariable: launch.TokenVariable}
	if o.GPUs > 0 { // Slurm starts a process for each; settings of the user come later and override this one
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
	Image     string `flag:"image" arg:"IMAGE" need:"yes" usage:"container IMAGE with vsetrain and MPICH"`
	Namespace string `flag:"namespace" arg:"NAME" usage:"NAME of the namespace"`
	CPU       string `flag:"cpu" arg:"N" default:"1" usage:"processors of a pod, such as 4 or 500m"`
	Memory    string `flag:"memory" arg:"SIZE" default:"4Gi" usage:"memory of a pod"`
	Volume    string `flag:"volume" arg:"NAME" usage:"NAME of a PersistentVolumeClaim with data and runs, which all pods can write"`
	Mount     string `flag:"mount" arg:"PATH" default:"/shared" usage:"where pods mount the volume, and work"`
	Retries   int    `flag:"retries" default:"6" min:"0" usage:"how often a killed pod may be restarted"`
}

func newCmdLaunchKubernetes(a *app) *cobra.Command {
	return a.command(&launchKubernetesOptions{}, &cobra.Command{
		Use:   "kubernetes -- train ...",
		Short: "Print or submit an Indexed Job of Kubernetes",
		Long: `Print the manifest of an Indexed Job that trains on several pods, or hand it to
kubectl apply.`,
		Example: `  vsetrain launch kubernetes --nodes 4 --image registry.example/vsetrain:1 --volume w -- train demo
  vsetrain launch kubernetes --nodes 2 --procs 4 --cpu 4 --image registry.example/vsetrain:1 --submit -- train demo`,
	})
}

func (o *launchKubernetesOptions) run(ctx context.Context, a *app) error {
	args, dir, err := o.job(a)
	if err != nil {
		return err
	}
	p := cluster.Pods{Image: o.Image, Namespace: o.Namespace, CPU: o.CPU, Memory: o.Memory, Volume: o.Volume,
		Mount: o.Mount, Retries: o.Retries}
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
