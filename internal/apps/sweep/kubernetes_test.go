package sweep

import (
	"os"
	"strings"
	"testing"

	"vsetrain/lab/try"
)

const kubernetesSweep = `axes: [{param: optim.lr, values: [1e-4, 1e-3, 1e-2]}]
seeds: [7, 8]
set: {data.dir: data/x}
launcher:
  kind: kubernetes
  kubernetes: {image: "registry.example/vsetrain:1", namespace: team-a, cpu: "2", memory: 8Gi, gpus: "1",
    volume: shared, mount: /shared, parallelism: 4, retries: 3, grace_seconds: 90, service_account: trainer}
dir: sweeps/My_Sweep.x
`

// The types of Kubernetes 1.34 (batch/v1, k8s.io/api v0.34.1) take the file in testdata, strictly decoded. Decode it so
// again, or hand it to `kubectl apply --dry-run=server --validate=strict`, where it has to change.
func TestManifest(t *testing.T) {
	p, _ := planOf(t, kubernetesSweep)
	got := try.Get(p.Manifest(Location{File: "s.yaml", Dir: p.Def.Dir}, len(p.Trials)))(t)
	want := try.Get(os.ReadFile("testdata/job.yaml"))(t)
	if string(got) != string(want) {
		t.Errorf("the manifest is not that of testdata/job.yaml:\n%s", got)
	}
}

// A task has as many GPUs as a trial.
func TestGPUsOfTasks(t *testing.T) {
	p, _ := planOf(t, "seeds: [7, 8]\nlauncher: {kind: slurm, gpus_per_trial: 2, kubernetes: {image: i}}\n")
	b, err := p.Manifest(Location{File: "s.yaml", Dir: "sw"}, 2)
	if err != nil || !strings.Contains(string(b), "nvidia.com/gpu: \"2\"") {
		t.Errorf("%v\n%s", err, b)
	}
	const option = "#SBATCH --gpus-per-task=\"2\"\n"
	if script := try.Get(p.JobScript(Location{}, []int{0, 1}))(t); !strings.Contains(script, option) {
		t.Errorf("no %s in\n%s", option, script)
	}
	p.Def.Launch.Kubernetes.Image = ""
	try.Refuses(p.Manifest(Location{}, 1))(t, "launcher.kubernetes.image")
}
