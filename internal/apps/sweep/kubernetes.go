package sweep

import (
	"errors"
	"path"
	"strings"

	"vsetrain/internal/apps/cluster"
)

// Manifest writes an Indexed Job.
func (p *Plan) Manifest(at Location, tasks int) ([]byte, error) {
	k := p.Def.Launch.Kubernetes
	if k.Image == "" {
		return nil, errors.New("the launcher needs launcher.kubernetes.image, a container image with vsetrain")
	}
	args := []string{"sweep", "worker", "--config", at.File, "--dir", at.Dir, "--job", "$(JOB_COMPLETION_INDEX)"}
	if p.Indexed() {
		args = append(args, "--index", "$(JOB_COMPLETION_INDEX)")
	}
	return cluster.Pods{
		Name:           path.Base(strings.ReplaceAll(at.Dir, `\`, "/")),
		Namespace:      k.Namespace,
		Image:          k.Image,
		WorkingDir:     k.WorkingDir,
		Args:           args,
		CPU:            k.CPU,
		Memory:         k.Memory,
		GPUs:           p.Def.Launch.taskGPUs(k.GPUs),
		Volume:         k.Volume,
		Mount:          k.Mount,
		ServiceAccount: k.ServiceAccount,
		Tasks:          tasks,
		Parallelism:    k.Parallelism,
		Retries:        k.Retries,
		GraceSeconds:   k.GraceSeconds,
		Interrupted:    ExitInterrupted,
	}.Manifest()
}
