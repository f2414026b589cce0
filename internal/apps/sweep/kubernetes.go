package sweep

import (
	"errors"
	"strings"

	"vsetrain/internal/apps/cluster"
)

// Manifest returns an Indexed Job with that many tasks.
func (p *Plan) Manifest(at Location, tasks int) ([]byte, error) {
	k := p.Def.Launch.Kubernetes
	if k.Image == "" {
		return nil, errors.New("the launcher needs launcher.kubernetes.image, a container image with vsetrain")
	}
	indices := []string{"--job"}
	if p.Indexed() {
		indices = append(indices, "--index")
	}
	return cluster.Pods{
		Dir:            strings.ReplaceAll(at.Dir, `\`, "/"),
		Sweep:          true,
		Namespace:      k.Namespace,
		Image:          k.Image,
		WorkingDir:     k.WorkingDir,
		Args:           []string{"sweep", "worker", "--config", at.File, "--dir", at.Dir},
		Indices:        indices,
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
