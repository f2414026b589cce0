package cluster

import (
	"bytes"
	"errors"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// The parts of a Secret, a Service and an Indexed Job (batch/v1, Kubernetes 1.33 or newer for backoffLimitPerIndex
// without a gate) that this program needs. The keys of maps are written in alphabetical order.
type (
	object struct {
		APIVersion string            `yaml:"apiVersion"`
		Kind       string            `yaml:"kind"`
		Metadata   metadata          `yaml:"metadata"`
		Spec       any               `yaml:"spec,omitempty"`
		StringData map[string]string `yaml:"stringData,omitempty"`
	}
	metadata struct {
		Name      string            `yaml:"name,omitempty"`
		Namespace string            `yaml:"namespace,omitempty"`
		Labels    map[string]string `yaml:"labels,omitempty"`
	}
	jobSpec struct {
		CompletionMode       string                   `yaml:"completionMode"`
		Completions          int                      `yaml:"completions"`
		Parallelism          int                      `yaml:"parallelism"`
		BackoffLimitPerIndex int                      `yaml:"backoffLimitPerIndex"`
		MaxFailedIndexes     int                      `yaml:"maxFailedIndexes"`
		PodFailurePolicy     map[string][]failureRule `yaml:"podFailurePolicy"`
		Template             podTemplate              `yaml:"template"`
	}
	failureRule struct {
		Action          string         `yaml:"action"`
		OnExitCodes     map[string]any `yaml:"onExitCodes,omitempty"`
		OnPodConditions []podCondition `yaml:"onPodConditions,omitempty"`
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
		Subdomain                     string      `yaml:"subdomain,omitempty"`
		EnableServiceLinks            bool        `yaml:"enableServiceLinks"` // no variables of other services
		TerminationGracePeriodSeconds int         `yaml:"terminationGracePeriodSeconds"`
		Containers                    []container `yaml:"containers"`
		Volumes                       []volume    `yaml:"volumes,omitempty"`
	}
	container struct {
		Name         string     `yaml:"name"`
		Image        string     `yaml:"image"`
		Command      []string   `yaml:"command"`
		Args         []string   `yaml:"args"`
		Env          []variable `yaml:"env,omitempty"`
		WorkingDir   string     `yaml:"workingDir,omitempty"`
		Resources    resources  `yaml:"resources"`
		VolumeMounts []mount    `yaml:"volumeMounts,omitempty"`
	}
	variable struct {
		Name      string               `yaml:"name"`
		Value     string               `yaml:"value,omitempty"`
		ValueFrom map[string]secretKey `yaml:"valueFrom,omitempty"`
	}
	secretKey struct {
		Name string `yaml:"name"`
		Key  string `yaml:"key"`
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
		Name  string            `yaml:"name"`
		Claim map[string]string `yaml:"persistentVolumeClaim"`
	}
)

// containerName is the name of the only container of a pod.
const containerName = "worker"

// Pods are the pods of an Indexed Job, which differ only in their index.
type Pods struct {
	Dir                   string // of the run or sweep, as the user names it, with slashes; the job is named after it
	Sweep                 bool
	Namespace             string
	Image, WorkingDir     string // an empty WorkingDir is Mount
	Args                  []string
	Indices               []string // flags whose value is the index of the pod
	CPU, Memory, GPUs     string   // quantities; GPUs may be empty
	Volume, Mount         string   // a PersistentVolumeClaim, which may be empty, and where it is mounted
	ServiceAccount        string   // may be empty
	Tasks, Parallelism    int      // a Parallelism of 0 is Tasks
	Retries, GraceSeconds int
	Interrupted           int    // exit code of an interrupted pod, which is started again
	Together              bool   // a failing pod ends all, and pods find each other by name
	Port                  int    // of pod 0; for Together
	TokenVariable, Token  string // a secret of all pods; for Together
}

// Manifest returns an Indexed Job. A pod that was interrupted or evicted is started again without counting as a
// failure. Exit codes 1 and 2 would occur again, so they fail the index, or with Together the job, at once. Other
// failures are retried up to Retries times.
func (p Pods) Manifest() ([]byte, error) {
	if p.Tasks == 0 {
		return nil, errors.New("nothing is left to do")
	}
	if p.WorkingDir == "" && p.Volume != "" {
		p.WorkingDir = p.Mount
	}
	if err := plain(append(p.Args, p.Dir, p.Namespace, p.Image, p.WorkingDir, p.CPU, p.Memory, p.GPUs, p.Volume,
		p.Mount, p.ServiceAccount)...); err != nil {
		return nil, err
	}
	kind := ""
	if p.Sweep {
		kind = sweepKind
	}
	name := jobName(kind, p.Dir)
	var args []string
	for _, a := range p.Args {
		args = append(args, literal(a))
	}
	for _, flag := range p.Indices {
		args = append(args, flag, "$(JOB_COMPLETION_INDEX)")
	}
	labels := map[string]string{"app.kubernetes.io/name": "vsetrain", "app.kubernetes.io/instance": name}
	meta := metadata{Name: name, Namespace: p.Namespace, Labels: labels}
	c := container{Name: containerName, Image: p.Image, Command: []string{"vsetrain"}, Args: args,
		WorkingDir: p.WorkingDir,
		Resources: resources{Requests: map[string]string{"cpu": p.CPU, "memory": p.Memory},
			Limits: map[string]string{"memory": p.Memory}}}
	if p.GPUs != "" {
		c.Resources.Limits["nvidia.com/gpu"] = p.GPUs
	}
	pod := podSpec{RestartPolicy: "Never", ServiceAccountName: p.ServiceAccount,
		TerminationGracePeriodSeconds: p.GraceSeconds}
	if p.Volume != "" {
		c.VolumeMounts = []mount{{"work", p.Mount}}
		pod.Volumes = []volume{{"work", map[string]string{"claimName": p.Volume}}}
	}
	var documents []object
	fail := "FailIndex"
	if p.Together {
		fail, pod.Subdomain = "FailJob", name
		c.Env = []variable{{Name: "WORLD_SIZE", Value: fmt.Sprint(p.Tasks)},
			{Name: "MASTER_ADDR", Value: name + "-0." + name}, {Name: "MASTER_PORT", Value: fmt.Sprint(p.Port)},
			{Name: p.TokenVariable, ValueFrom: map[string]secretKey{"secretKeyRef": {name, "token"}}}}
		documents = append(documents,
			object{APIVersion: "v1", Kind: "Secret", Metadata: meta, StringData: map[string]string{"token": p.Token}},
			// pod 0 becomes ready only after the others have found it
			object{APIVersion: "v1", Kind: "Service", Metadata: meta, Spec: map[string]any{"clusterIP": "None",
				"publishNotReadyAddresses": true, "selector": labels}})
	}
	pod.Containers = []container{c}
	onCodes := func(codes ...int) map[string]any {
		return map[string]any{"containerName": containerName, "operator": "In", "values": codes}
	}
	spec := jobSpec{CompletionMode: "Indexed", Completions: p.Tasks, Parallelism: p.Tasks,
		BackoffLimitPerIndex: p.Retries, MaxFailedIndexes: p.Tasks,
		PodFailurePolicy: map[string][]failureRule{"rules": {
			{Action: "Ignore", OnPodConditions: []podCondition{{"DisruptionTarget", "True"}}},
			{Action: "Ignore", OnExitCodes: onCodes(p.Interrupted)},
			{Action: fail, OnExitCodes: onCodes(1, 2)},
		}},
		Template: podTemplate{metadata{Labels: labels}, pod}}
	if p.Parallelism > 0 {
		spec.Parallelism = min(p.Parallelism, p.Tasks)
	}
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	for _, d := range append(documents, object{APIVersion: "batch/v1", Kind: "Job", Metadata: meta, Spec: spec}) {
		if err := enc.Encode(d); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), enc.Close()
}
