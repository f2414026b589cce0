package cluster

import (
	"bytes"
	"errors"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// The part of an Indexed Job (batch/v1, Kubernetes 1.33 or newer for backoffLimitPerIndex without a gate) that jobs
// of this program need.
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
		Name      string  `yaml:"name"`
		Value     string  `yaml:"value,omitempty"`
		ValueFrom *source `yaml:"valueFrom,omitempty"`
	}
	source struct {
		SecretKeyRef secretKey `yaml:"secretKeyRef"`
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
		Name  string `yaml:"name"`
		Claim claim  `yaml:"persistentVolumeClaim"`
	}
	claim struct {
		ClaimName string `yaml:"claimName"`
	}
	secret struct {
		APIVersion string            `yaml:"apiVersion"`
		Kind       string            `yaml:"kind"`
		Metadata   metadata          `yaml:"metadata"`
		StringData map[string]string `yaml:"stringData"`
	}
	service struct {
		APIVersion string      `yaml:"apiVersion"`
		Kind       string      `yaml:"kind"`
		Metadata   metadata    `yaml:"metadata"`
		Spec       serviceSpec `yaml:"spec"`
	}
	serviceSpec struct {
		ClusterIP                string            `yaml:"clusterIP"`
		PublishNotReadyAddresses bool              `yaml:"publishNotReadyAddresses"`
		Selector                 map[string]string `yaml:"selector"`
	}
)

// containerName is the one container of a pod.
const containerName = "worker"

// Pods are the pods of an Indexed Job, which differ in their index alone.
type Pods struct {
	Dir                   string // of the run or sweep as its user names it, with slashes; the job is called after it
	Sweep                 bool
	Namespace             string
	Image, WorkingDir     string // WorkingDir is Mount where it is empty
	Args                  []string
	Indices               []string // flags that take the number of the pod
	CPU, Memory, GPUs     string   // quantities; GPUs may be empty
	Volume, Mount         string   // a PersistentVolumeClaim, which may be empty, and where pods see it
	ServiceAccount        string   // may be empty
	Tasks, Parallelism    int      // Parallelism is Tasks where it is 0
	Retries, GraceSeconds int
	Interrupted           int    // the exit code of a pod that is to be started again
	Together              bool   // one that fails ends all, and pods find each other by name
	Port                  int    // of pod 0, where they are together
	TokenVariable, Token  string // a secret of all, where they are together
}

// Manifest writes an Indexed Job. A pod that was interrupted or evicted is started again and counts no failure; work
// that failed (code 1) fails its index at once, or the job, because it would fail again; anything else is tried again
// up to that many times.
func (p Pods) Manifest() ([]byte, error) {
	if p.Tasks == 0 {
		return nil, errors.New("nothing is left to do")
	}
	if p.WorkingDir == "" && p.Volume != "" {
		p.WorkingDir = p.Mount
	}
	if err := plain(append(p.Args, p.Dir, p.Namespace, p.Image, p.WorkingDir, p.CPU, p.Memory, p.GPUs, p.Volume,
		p.Mount,
		p.ServiceAccount)...); err != nil {
		return nil, err
	}
	kind := ""
	if p.Sweep {
		kind = sweepKind
	}
	name := jobName(kind, p.Dir)
	var args []string
	for _, a := range p.Args {
		args = append(args, Literal(a))
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
		pod.Volumes = []volume{{"work", claim{p.Volume}}}
	}
	var documents []any
	fail := "FailIndex"
	if p.Together {
		fail, pod.Subdomain = "FailJob", name
		c.Env = []variable{{Name: "WORLD_SIZE", Value: fmt.Sprint(p.Tasks)},
			{Name: "MASTER_ADDR", Value: name + "-0." + name}, {Name: "MASTER_PORT", Value: fmt.Sprint(p.Port)},
			{Name: p.TokenVariable, ValueFrom: &source{secretKey{name, "token"}}}}
		documents = append(documents,
			secret{APIVersion: "v1", Kind: "Secret", Metadata: meta, StringData: map[string]string{"token": p.Token}},
			// pod 0 is never ready before the others have found it
			service{APIVersion: "v1", Kind: "Service", Metadata: meta, Spec: serviceSpec{ClusterIP: "None",
				PublishNotReadyAddresses: true, Selector: labels}})
	}
	pod.Containers = []container{c}
	j := job{APIVersion: "batch/v1", Kind: "Job", Metadata: meta,
		Spec: jobSpec{CompletionMode: "Indexed", Completions: p.Tasks, Parallelism: p.Tasks,
			BackoffLimitPerIndex: p.Retries, MaxFailedIndexes: p.Tasks,
			PodFailurePolicy: failurePolicy{Rules: []failureRule{
				{Action: "Ignore", OnPodConditions: []podCondition{{"DisruptionTarget", "True"}}},
				{Action: "Ignore", OnExitCodes: &exitCodes{containerName, "In", []int{p.Interrupted}}},
				{Action: fail, OnExitCodes: &exitCodes{containerName, "In", []int{1, 2}}},
			}},
			Template: podTemplate{metadata{Labels: labels}, pod}}}
	if p.Parallelism > 0 {
		j.Spec.Parallelism = min(p.Parallelism, p.Tasks)
	}
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	for _, d := range append(documents, j) {
		if err := enc.Encode(d); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), enc.Close()
}
