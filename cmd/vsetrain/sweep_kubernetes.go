package main

import (
	"context"
	"path/filepath"

	"vsetrain/internal/apps/sweep"
	"vsetrain/internal/files/atomicfile"
)

// manifest makes the Indexed Job. The paths of sweep file and folder stay as they were given, since the pods see them
// from their working directory. All trials of the plan have an index, also those that are done: their pods end at once.
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

func printManifest(a *app, plan *sweep.Plan, store *sweep.Store) error {
	b, err := manifest(plan, store)
	if err != nil {
		return err
	}
	a.Print(string(b))
	return nil
}

// kubernetes writes the manifest and, where asked, hands it to kubectl.
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
