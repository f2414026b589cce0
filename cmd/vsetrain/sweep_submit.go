package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"vsetrain/internal/apps/sweep"
	"vsetrain/internal/files/atomicfile"
)

// slurmProgram returns programPath for the scripts of Slurm.
func slurmProgram() (string, error) {
	if runtime.GOOS == "windows" {
		return "", errors.New("the launcher slurm is not supported on Windows, whose paths do not exist on the " +
			"machines of Slurm; run this command on one of them (docs/install.md)")
	}
	return programPath()
}

// locate returns the absolute paths of the sweep, for machines that share the file system, and its unfinished trials.
func locate(plan *sweep.Plan, store *sweep.Store) (at sweep.Location, indices []int, err error) {
	if at.Program, err = slurmProgram(); err != nil {
		return at, nil, err
	}
	at.File = plan.Def.File
	if _, err := os.Stat(at.File); err == nil { // else it is the name of a built-in sweep
		if at.File, err = filepath.Abs(at.File); err != nil {
			return at, nil, err
		}
	}
	if at.Dir, err = filepath.Abs(plan.Def.Dir); err != nil {
		return at, nil, err
	}
	if at.WorkDir, err = os.Getwd(); err != nil {
		return at, nil, err
	}
	indices, err = plan.Indices(store)
	return at, indices, err
}

// programPath returns the path of this program, of a link if it was started through one.
func programPath() (string, error) {
	exe, err := os.Executable()
	if err != nil {
		return "", err
	}
	named, err := exec.LookPath(os.Args[0])
	if err != nil {
		return exe, nil
	}
	a, errA := os.Stat(named)
	b, errB := os.Stat(exe)
	if errA != nil || errB != nil || !os.SameFile(a, b) {
		return exe, nil
	}
	return filepath.Abs(named)
}

// arrayScript makes the script of the job array.
func arrayScript(plan *sweep.Plan, store *sweep.Store) ([]byte, error) {
	at, indices, err := locate(plan, store)
	if err != nil {
		return nil, err
	}
	if len(indices) == 0 {
		return nil, fmt.Errorf("%s: nothing is left to do", at.Dir)
	}
	script, err := plan.JobScript(at, indices)
	return []byte(script), err
}

// slurm writes the scripts, and submits the array and a job that collects after it.
func (o *sweepRunOptions) slurm(ctx context.Context, a *app, plan *sweep.Plan, store *sweep.Store) error {
	at, indices, err := locate(plan, store)
	if err != nil {
		return err
	}
	if len(indices) == 0 {
		return summary(a, plan, store, -1, 0)
	}
	array, err := plan.JobScript(at, indices)
	if err != nil {
		return err
	}
	after, err := plan.CollectScript(at)
	if err != nil {
		return err
	}
	folder := filepath.Join(at.Dir, "slurm")
	if err := atomicfile.MkdirAll(folder); err != nil {
		return err
	}
	job, collect := filepath.Join(folder, "job.sh"), filepath.Join(folder, "collect.sh")
	for path, text := range map[string]string{job: array, collect: after} {
		if err := atomicfile.WriteFile(path, atomicfile.Bytes([]byte(text))); err != nil {
			return err
		}
	}
	a.Printf("wrote %s and %s\n", job, collect)
	if o.DryRun {
		return nil
	}
	id, err := submit(ctx, a, job)
	if err != nil {
		return err
	}
	collector, err := submit(ctx, a, "--dependency=afterany:"+id, collect)
	if err != nil {
		return err
	}
	a.Printf("job array %s of %d tasks, and job %s that collects after it; logs in %s\nnext: vsetrain sweep status "+
		"--config %s\n", id, len(indices), collector, folder, plan.Def.File)
	return nil
}

// submit calls sbatch and returns the number of the job.
func submit(ctx context.Context, a *app, args ...string) (string, error) {
	var out bytes.Buffer
	if err := a.submit(ctx, "", &out, "sbatch", append([]string{"--parsable"}, args...)...); err != nil {
		return "", err
	}
	id, _, _ := strings.Cut(strings.TrimSpace(out.String()), ";") // the name of the cluster may follow
	return id, nil
}

// manifest makes the Indexed Job. The paths of the sweep file and folder stay as given: the pods resolve them in their
// working directory. Trials that are done have an index too; their pods end at once.
func manifest(plan *sweep.Plan, store *sweep.Store) ([]byte, error) {
	tasks := len(plan.Trials)
	if !plan.Indexed() {
		indices, err := plan.Indices(store)
		if err != nil {
			return nil, err
		}
		tasks = len(indices)
	}
	return plan.Manifest(sweep.Location{File: filepath.ToSlash(plan.Def.File), Dir: filepath.ToSlash(plan.Def.Dir)},
		tasks)
}

// kubernetes writes the manifest and, with --apply, passes it to kubectl.
func (o *sweepRunOptions) kubernetes(ctx context.Context, a *app, plan *sweep.Plan, store *sweep.Store) error {
	b, err := manifest(plan, store)
	if err != nil {
		return err
	}
	folder := filepath.Join(plan.Def.Dir, "kubernetes")
	if err := atomicfile.MkdirAll(folder); err != nil {
		return err
	}
	path := filepath.Join(folder, "job.yaml")
	if err := atomicfile.WriteFile(path, atomicfile.Bytes(b)); err != nil {
		return err
	}
	a.Printf("wrote %s\n", path)
	if !o.Apply || o.DryRun {
		a.Printf("next: kubectl apply -f %s\n", path)
		return nil
	}
	return a.submit(ctx, "", a.Raw(), "kubectl", "apply", "-f", path)
}
