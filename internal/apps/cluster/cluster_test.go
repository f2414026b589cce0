package cluster

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"vsetrain/lab/try"
)

// The types of Kubernetes 1.34 (k8s.io/api v0.34.1: Job, Service, Secret) take the file in testdata, strictly decoded.
// Decode it so again, or hand it to `kubectl apply --dry-run=server --validate=strict`, where it has to change.
func TestManifest(t *testing.T) {
	got := try.Get(Pods{
		Dir:           "runs/My_Run.x",
		Namespace:     "team-a",
		Image:         "registry.example/vsetrain:1",
		Args:          []string{"train", "--config", "demo"},
		CPU:           "2",
		Memory:        "8Gi",
		GPUs:          "1",
		Volume:        "shared",
		Mount:         "/shared",
		Tasks:         3,
		Retries:       6,
		GraceSeconds:  120,
		Interrupted:   75,
		Together:      true,
		Port:          29500,
		TokenVariable: "TOKEN",
		Token:         "secret",
	}.Manifest())(t)
	want := try.Get(os.ReadFile("testdata/train.yaml"))(t)
	if string(got) != string(want) {
		t.Errorf("the manifest is not that of testdata/train.yaml:\n%s", got)
	}
}

// A script is one that bash reads, and each line for sbatch is an option of it.
func TestScript(t *testing.T) {
	s := try.Get(Steps{Name: "a%b", WorkDir: "/w o", Program: "/bin/vse train", Args: []string{"train", "it's"},
		Nodes:   2,
		PerNode: 4, CPUs: 3, GPUs: 4, Time: "1:00:00", Options: []string{"--partition=gpu"},
		Setup:    []string{"module load mpich"},
		Requeues: 5, TokenVariable: "TOKEN"}.Script())(t)
	for _, want := range []string{`--job-name="vsetrain-a%b"`, "--nodes=2", "--ntasks-per-node=4", "--cpus-per-task=3",
		"--gpus-per-node=4", `--time="1:00:00"`, "--requeue", "--signal=USR1@120", "--partition=gpu",
		`--output="/w o/slurm-%j.log"`} {
		if !strings.Contains(s, "\n#SBATCH "+want+"\n") {
			t.Errorf("no %s in\n%s", want, s)
		}
	}
	for _, want := range []string{"\nmodule load mpich\n", "-lt 5 ]",
		"\ncpus=\"${SLURM_CPUS_PER_TASK:-3}\"\n", "\nsrun --mpi=none --kill-on-bad-exit=1 " +
			`--gpu-bind=none --cpus-per-task="$cpus" '/bin/vse train' 'train' 'it'\''s' &` + "\n"} {
		if !strings.Contains(s, want) {
			t.Errorf("no %q in\n%s", want, s)
		}
	}
	if bash, err := exec.LookPath("bash"); err == nil {
		c := exec.Command(bash, "-n")
		c.Stdin = strings.NewReader(s)
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		for _, c := range []struct{ env, want string }{{"", "3 --mpi=none --cpus-per-task=3"},
			{"SLURM_CPUS_PER_TASK=8", "8 --mpi=none --cpus-per-task=8"},
			{"SLURM_CPUS_PER_TASK=8 GOMAXPROCS=2", "2 --mpi=none --cpus-per-task=8"}} {
			job := exec.Command(bash)
			job.Env = append([]string{"PATH=" + os.Getenv("PATH")}, strings.Fields(c.env)...)
			job.Stdin = strings.NewReader(`module() { :; }; srun() { echo "$GOMAXPROCS" "$1" "$4"; };` + "\n" + s)
			if out, err := job.Output(); err != nil || strings.TrimSpace(string(out)) != c.want {
				t.Errorf("%s: %q (%v), want %q", c.env, out, err, c.want)
			}
		}
	}
}
