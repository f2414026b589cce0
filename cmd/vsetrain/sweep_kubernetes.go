package main

import (
	"context"
	"path/filepath"

	"vsetrain/internal/apps/sweep"
	"vsetrain/internal/files/atomicfile"
)

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
