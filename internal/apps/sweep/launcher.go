package sweep

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

func defaultLauncher() Launcher {
	return Launcher{Kind: Local,
		Slurm:      Slurm{CPUs: 1, SignalSeconds: 120, Requeues: 20},
		Kubernetes: Kubernetes{CPU: "1", Memory: "4Gi", Mount: "/shared", Retries: 6, GraceSeconds: 120}}
}

var (
	slurmTime = regexp.MustCompile(`^(\d+-)?\d{1,4}(:\d{1,2}){0,2}$`)
	dnsName   = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
	quantity  = regexp.MustCompile(`^\d+(\.\d+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?$`)
)

// launcher decodes the launcher section.
func (r *reader) launcher(path string, n *yaml.Node, l *Launcher) {
	common := []key{{"kind", r.text(&l.Kind, Local, OnSlurm, OnKubernetes)}, {"workers", r.whole(&l.Workers, 1, 4096)},
		{"threads", r.whole(&l.Threads, 1, 4096)}, {"procs_per_trial", r.whole(&l.ProcsPerTrial, 1, 1024)},
		{"gpus_per_trial", r.whole(&l.GPUsPerTrial, 1, 1024)}}
	l.At = r.at(n)
	s, k := &l.Slurm, &l.Kubernetes
	r.section(path, n, append(common,
		key{"gpus", r.integers(&l.GPUs, 0)},
		key{"slurm", func(path string, _, v *yaml.Node) {
			r.section(path, v,
				key{"partition", r.text(&s.Partition)}, key{"account", r.text(&s.Account)}, key{"qos", r.text(&s.QOS)},
				key{"time", r.matching(&s.Time, slurmTime, "minutes, hours:minutes:seconds or "+
					"days-hours:minutes:seconds")},
				key{"memory", r.text(&s.Memory)}, key{"gpus", r.text(&s.GPUs)},
				key{"constraint", r.text(&s.Constraint)},
				key{"cpus", r.whole(&s.CPUs, 1, 4096)}, key{"throttle", r.whole(&s.Throttle, 1, 100000)},
				key{"signal_seconds", r.whole(&s.SignalSeconds, 1, 65535)},
				key{"requeues", r.whole(&s.Requeues, 0, 100000)},
				key{"extra", r.texts(&s.Extra)}, key{"setup", r.texts(&s.Setup)})
		}},
		key{"kubernetes", func(path string, _, v *yaml.Node) {
			r.section(path, v,
				key{"image", r.text(&k.Image)}, key{"namespace",
					r.matching(&k.Namespace, dnsName, "a name of small letters, digits and hyphens")},
				key{"cpu", r.matching(&k.CPU, quantity, "a quantity such as 2 or 500m")},
				key{"memory", r.matching(&k.Memory, quantity, "a quantity such as 4Gi")},
				key{"gpus", r.matching(&k.GPUs, quantity, "a number")},
				key{"volume", r.matching(&k.Volume, dnsName, "the name of a PersistentVolumeClaim")},
				key{"mount", r.text(&k.Mount)}, key{"working_dir", r.text(&k.WorkingDir)},
				key{"service_account", r.matching(&k.ServiceAccount, dnsName, "a name of small letters, digits and "+
					"hyphens")},
				key{"parallelism", r.whole(&k.Parallelism, 1, 100000)}, key{"retries", r.whole(&k.Retries, 0, 1000)},
				key{"grace_seconds", r.whole(&k.GraceSeconds, 1, 86400)})
		}})...)
	if key, text := l.Check(); key != "" && len(r.list) == 0 {
		r.add(n, join(path, key), "%s", text)
	}
}

// ranks is how many ranks a trial has.
func (l *Launcher) ranks() int { return max(1, l.ProcsPerTrial, l.GPUsPerTrial) }

// Parallel is how many trials run at the same time on this machine.
func (l *Launcher) Parallel() int {
	if l.Workers > 0 {
		return l.Workers
	}
	return max(1, len(l.GPUs)/max(1, l.GPUsPerTrial))
}

// Check returns the key that contradicts the kind or other keys, and the message; "" if there is none.
func (l *Launcher) Check() (key, text string) {
	n, given := l.GPUsPerTrial, len(l.GPUs)
	switch {
	case n == 0:
		return "", ""
	case l.ProcsPerTrial > 0:
		return "gpus_per_trial", "cannot be used with procs_per_trial, which is for processors; leave one out"
	case l.Kind == Local && given == 0:
		return "gpus_per_trial", fmt.Sprintf("needs the numbers of the GPUs that trials share out: gpus: %s",
			listed(2*n))
	case l.Kind == Local && n > given:
		return "gpus_per_trial", fmt.Sprintf("expected at most %d, the number of gpus, found %d", given, n)
	case l.Kind == Local && given%n != 0:
		return "gpus_per_trial", fmt.Sprintf("expected a number that divides the %d GPUs of gpus, found %d", given, n)
	}
	for kind, gpus := range map[string]*string{OnSlurm: &l.Slurm.GPUs, OnKubernetes: &l.Kubernetes.GPUs} {
		count := (*gpus)[strings.LastIndexByte(*gpus, ':')+1:] // of a100:2
		if l.Kind == kind && *gpus != "" && count != strconv.Itoa(n) {
			return "gpus_per_trial", fmt.Sprintf("%d, but %s.gpus, what a task has, is %s; expected the same number", n,
				kind, *gpus)
		}
	}
	return "", ""
}

// listed writes the numbers from 0 to n-1 as a list.
func listed(n int) string {
	var all []string
	for i := range n {
		all = append(all, strconv.Itoa(i))
	}
	return "[" + strings.Join(all, ", ") + "]"
}

// taskGPUs returns the GPUs of a task of Slurm or Kubernetes: as given, or the number of a trial; "" is none.
func (l *Launcher) taskGPUs(given string) string {
	if given == "" && l.GPUsPerTrial > 0 {
		return strconv.Itoa(l.GPUsPerTrial)
	}
	return given
}

// matching decodes a string that matches form.
func (r *reader) matching(out *string, form *regexp.Regexp, what string) decoder {
	return func(path string, k, v *yaml.Node) {
		var s string
		r.text(&s)(path, k, v)
		if s != "" && !form.MatchString(s) {
			r.add(v, path, "expected %s, found %q", what, s)
			return
		}
		*out = s
	}
}
