package sweep

import (
	"regexp"

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

// launcher decodes the launcher section: kind, and the keys of that kind.
func (r *reader) launcher(path string, n *yaml.Node, l *Launcher) {
	common := []key{{"kind", r.text(&l.Kind, Local, OnSlurm, OnKubernetes)}, {"workers", r.whole(&l.Workers, 1, 4096)},
		{"threads", r.whole(&l.Threads, 1, 4096)}}
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
}

// matching decodes a string of a form.
func (r *reader) matching(out *string, form *regexp.Regexp, what string) func(string, *yaml.Node, *yaml.Node) {
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
