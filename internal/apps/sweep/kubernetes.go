package sweep

import (
	"bytes"
	"errors"
	"path"
	"strings"

	"go.yaml.in/yaml/v3"
)

// The part of an Indexed Job (batch/v1, Kubernetes 1.33 or newer for backoffLimitPerIndex without a gate) that a sweep
// needs.
type (
	job struct {
		APIVersion string   `yaml:"apiVersion"`
		Kind       string   `yaml:"kind"`
		Metadata   metadata `yaml:"metadata"`
		Spec       jobSpec  `yaml:"spec"`
	}
	metadata struct {
		Name      string            `yaml:"name,omitempty"`
		Namespace string            `yaml:"namespace,omitempty"`
		Labels    map[string]string `yaml:"labels,omitempty"`
	}
	jobSpec struct {
		CompletionMode       string        `yaml:"completionMode"`
		Completions          int           `yaml:"completions"`
		Parallelism          int           `yaml:"parallelism"`
		BackoffLimitPerIndex int           `yaml:"backoffLimitPerIndex"`
		MaxFailedIndexes     int           `yaml:"maxFailedIndexes"`
		PodFailurePolicy     failurePolicy `yaml:"podFailurePolicy"`
		Template             podTemplate   `yaml:"template"`
	}
	failurePolicy struct {
		Rules []failureRule `yaml:"rules"`
	}
	failureRule struct {
		Action          string         `yaml:"action"`
		OnExitCodes     *exitCodes     `yaml:"onExitCodes,omitempty"`
		OnPodConditions []podCondition `yaml:"onPodConditions,omitempty"`
	}
	exitCodes struct {
		ContainerName string `yaml:"containerName"`
		Operator      string `yaml:"operator"`
		Values        []int  `yaml:"values"`
	}
	podCondition struct {
		Type   string `yaml:"type"`
		Status string `yaml:"status"`
	}
	podTemplate struct {
		Metadata metadata `yaml:"metadata"`
		Spec     podSpec  `yaml:"spec"`
	}
	podSpec struct {
		RestartPolicy                 string      `yaml:"restartPolicy"`
		ServiceAccountName            string      `yaml:"serviceAccountName,omitempty"`
		TerminationGracePeriodSeconds int         `yaml:"terminationGracePeriodSeconds"`
		Containers                    []container `yaml:"containers"`
		Volumes                       []volume    `yaml:"volumes,omitempty"`
	}
	container struct {
		Name         string    `yaml:"name"`
		Image        string    `yaml:"image"`
		Command      []string  `yaml:"command"`
		Args         []string  `yaml:"args"`
		WorkingDir   string    `yaml:"workingDir,omitempty"`
		Resources    resources `yaml:"resources"`
		VolumeMounts []mount   `yaml:"volumeMounts,omitempty"`
	}
	resources struct {
		Requests map[string]string `yaml:"requests"`
		Limits   map[string]string `yaml:"limits"`
	}
	mount struct {
		Name      string `yaml:"name"`
		MountPath string `yaml:"mountPath"`
	}
	volume struct {
		Name  string `yaml:"name"`
		Claim claim  `yaml:"persistentVolumeClaim"`
	}
	claim struct {
		ClaimName string `yaml:"claimName"`
	}
)

// containerName is the one container of a pod.
const containerName = "worker"

// Manifest writes an Indexed Job. A pod that was interrupted (code 75) or evicted is started again and counts no
// failure; a trial that failed (code 1) fails its index at once, because it would fail again; anything else is tried
// again up to retries times.
func (p *Plan) Manifest(at Location, tasks int) ([]byte, error) {
	k := p.Def.Launch.Kubernetes
	if k.Image == "" {
		return nil, errors.New("the launcher needs launcher.kubernetes.image, a container image with vsetrain")
	}
	if tasks == 0 {
		return nil, errors.New("nothing is left to do")
	}
	work := k.WorkingDir
	if work == "" && k.Volume != "" {
		work = k.Mount
	}
	args := []string{"sweep", "worker", "--config", at.File, "--dir", at.Dir, "--job", "$(JOB_COMPLETION_INDEX)"}
	if p.Indexed() {
		args = append(args, "--index", "$(JOB_COMPLETION_INDEX)")
	}
	name := label("vsetrain-" + path.Base(strings.ReplaceAll(at.Dir, `\`, "/")))
	labels := map[string]string{"app.kubernetes.io/name": "vsetrain", "app.kubernetes.io/instance": name}
	c := container{Name: containerName, Image: k.Image, Command: []string{"vsetrain"}, Args: args, WorkingDir: work,
		Resources: resources{Requests: map[string]string{"cpu": k.CPU, "memory": k.Memory},
			Limits: map[string]string{"memory": k.Memory}}}
	if k.GPUs != "" {
		c.Resources.Limits["nvidia.com/gpu"] = k.GPUs
	}
	pod := podSpec{RestartPolicy: "Never", ServiceAccountName: k.ServiceAccount,
		TerminationGracePeriodSeconds: k.GraceSeconds}
	if k.Volume != "" {
		c.VolumeMounts = []mount{{"work", k.Mount}}
		pod.Volumes = []volume{{"work", claim{k.Volume}}}
	}
	pod.Containers = []container{c}
	j := job{APIVersion: "batch/v1", Kind: "Job", Metadata: metadata{Name: name, Namespace: k.Namespace,
		Labels: labels},
		Spec: jobSpec{CompletionMode: "Indexed", Completions: tasks, Parallelism: tasks,
			BackoffLimitPerIndex: k.Retries, MaxFailedIndexes: tasks,
			PodFailurePolicy: failurePolicy{Rules: []failureRule{
				{Action: "Ignore", OnPodConditions: []podCondition{{"DisruptionTarget", "True"}}},
				{Action: "Ignore", OnExitCodes: &exitCodes{containerName, "In", []int{ExitInterrupted}}},
				{Action: "FailIndex", OnExitCodes: &exitCodes{containerName, "In", []int{1, 2}}},
			}},
			Template: podTemplate{metadata{Labels: labels}, pod}}}
	if k.Parallelism > 0 {
		j.Spec.Parallelism = min(k.Parallelism, tasks)
	}
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(j); err != nil {
		return nil, err
	}
	return b.Bytes(), enc.Close()
}

// label makes a name of small letters, digits and hyphens, at most 50 characters.
func label(s string) string {
	s = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(s))
	return strings.Trim(s[:min(len(s), 50)], "-")
}
