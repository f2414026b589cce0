package sweep

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
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

// The manifest is decoded by the types of Kubernetes itself; a key or a value that they do not have is an error.
func TestManifest(t *testing.T) {
	p, _ := planOf(t, kubernetesSweep)
	b, err := p.Manifest(Location{File: "s.yaml", Dir: p.Def.Dir}, len(p.Trials))
	if err != nil {
		t.Fatal(err)
	}
	var j batchv1.Job
	if err := yaml.UnmarshalStrict(b, &j); err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	s, pod := j.Spec, j.Spec.Template.Spec
	if j.APIVersion != "batch/v1" || j.Kind != "Job" || j.Name != "vsetrain-my-sweep-x" || j.Namespace != "team-a" {
		t.Errorf("%s %s %s/%s", j.APIVersion, j.Kind, j.Namespace, j.Name)
	}
	if *s.CompletionMode != batchv1.IndexedCompletion || *s.Completions != 6 || *s.Parallelism != 4 ||
		*s.BackoffLimitPerIndex != 3 {
		t.Errorf("%v, %d completions, %d at a time, %d retries", *s.CompletionMode, *s.Completions, *s.Parallelism,
			*s.BackoffLimitPerIndex)
	}
	if pod.RestartPolicy != corev1.RestartPolicyNever || *pod.TerminationGracePeriodSeconds != 90 ||
		pod.ServiceAccountName != "trainer" {
		t.Errorf("pod %+v", pod)
	}
	actions := map[int32]batchv1.PodFailurePolicyAction{}
	for _, r := range s.PodFailurePolicy.Rules {
		if r.OnExitCodes != nil && r.OnExitCodes.Operator == batchv1.PodFailurePolicyOnExitCodesOpIn &&
			*r.OnExitCodes.ContainerName == pod.Containers[0].Name {
			for _, code := range r.OnExitCodes.Values {
				actions[code] = r.Action
			}
		}
	}
	if actions[ExitInterrupted] != batchv1.PodFailurePolicyActionIgnore ||
		actions[1] != batchv1.PodFailurePolicyActionFailIndex || len(actions) != 3 {
		t.Errorf("exit codes: %v", actions)
	}
	if r := s.PodFailurePolicy.Rules[0]; r.OnPodConditions[0].Type != corev1.DisruptionTarget ||
		r.Action != batchv1.PodFailurePolicyActionIgnore {
		t.Errorf("evicted pods: %+v", r)
	}
	c := pod.Containers[0]
	gpus := c.Resources.Limits["nvidia.com/gpu"]
	if c.Resources.Requests.Cpu().Value() != 2 || c.Resources.Limits.Memory().Value() != 8<<30 || gpus.Value() != 1 {
		t.Errorf("resources %v", c.Resources)
	}
	want := []string{"sweep", "worker", "--config", "s.yaml", "--dir", "sweeps/My_Sweep.x", "--job",
		"$(JOB_COMPLETION_INDEX)", "--index", "$(JOB_COMPLETION_INDEX)"}
	if len(c.Args) != len(want) || c.WorkingDir != "/shared" || c.VolumeMounts[0].MountPath != "/shared" ||
		pod.Volumes[0].PersistentVolumeClaim.ClaimName != "shared" {
		t.Errorf("%q in %s, %v of %v", c.Args, c.WorkingDir, c.VolumeMounts, pod.Volumes)
	}
	for i := range min(len(want), len(c.Args)) {
		if c.Args[i] != want[i] {
			t.Errorf("argument %d is %q, want %q", i, c.Args[i], want[i])
		}
	}
}

func TestManifestNeedsAnImage(t *testing.T) {
	p, _ := planOf(t, "axes: [{param: optim.lr, values: [1e-4]}]\n")
	if _, err := p.Manifest(Location{}, 1); err == nil {
		t.Error("a manifest without an image")
	}
}
