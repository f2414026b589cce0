package launch

import (
	"fmt"
	"strings"
	"testing"
)

// env makes a lookup of NAME=value words.
func env(words string) func(string) string {
	return func(name string) string {
		for _, w := range strings.Fields(words) {
			if v, ok := strings.CutPrefix(w, name+"="); ok {
				return v
			}
		}
		return ""
	}
}

func TestEnvironment(t *testing.T) {
	for _, c := range []struct{ vars, want string }{
		{"", "0 of 1, 0 of 0, at , by ''"},
		{"RANK=3 WORLD_SIZE=4 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 MASTER_ADDR=h MASTER_PORT=7000",
			"3 of 4, 1 of 2, at h:7000, by 'torchrun'"},
		{"RANK=0 WORLD_SIZE=2 MASTER_ADDR=h", "0 of 2, 0 of 0, at h:29500, by 'torchrun'"},
		// torchrun listens on the port itself, and was started by Slurm, once for each node
		{"RANK=3 WORLD_SIZE=4 MASTER_ADDR=h MASTER_PORT=7000 TORCHELASTIC_RUN_ID=x TORCHELASTIC_USE_AGENT_STORE=True " +
			"SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2", "3 of 4, 0 of 0, at h:7001, by 'torchrun'"},
		{"SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=4 SLURM_STEP_NODELIST=gpu[07-09,12],z1 SLURM_JOB_ID=3 SLURM_STEP_ID=2",
			"1 of 4, 0 of 0, at gpu07:20053, by 'Slurm'"},
		{"SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=4 SLURM_JOB_NODELIST=a,b MASTER_PORT=99",
			"1 of 4, 0 of 0, at a:99, by 'Slurm'"},
		{"SLURM_PROCID=0 SLURM_NTASKS=4", "0 of 1, 0 of 0, at , by ''"}, // the script of a job
		{"SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1", "0 of 1, 0 of 0, at , by ''"},
		{"JOB_COMPLETION_INDEX=2 WORLD_SIZE=3 MASTER_ADDR=j-0.j", "2 of 3, 0 of 0, at j-0.j:29500, by 'Kubernetes'"},
		{"JOB_COMPLETION_INDEX=2", "0 of 1, 0 of 0, at , by ''"}, // of a sweep
		{"OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=5",
			"1 of 2, 0 of 0, at , by 'Open MPI's mpirun' with MPI"},
		{"PMI_RANK=1 PMI_SIZE=2", "1 of 2, 0 of 0, at , by 'MPICH's mpiexec' with MPI"},
		{"PMIX_RANK=1 SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2", "1 of 2, 0 of 0, at , by 'PMIx' with MPI"},
		{`VSETRAIN_LAUNCH_PLACE={"Rank":1,"Ranks":2,"Address":"h:1","Launcher":"x"} RANK=7 WORLD_SIZE=8`,
			"1 of 2, 0 of 0, at h:1, by 'x'"},

		{"RANK=0 WORLD_SIZE=2 MASTER_ADDR=h SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2", "torchrun says rank 0 of 2 " +
			"(RANK, WORLD_SIZE), but Slurm says rank 1 of 2 (SLURM_PROCID, SLURM_STEP_NUM_TASKS); unset the " +
			"variables of the one that did not start this process"},
		{"PMI_RANK=0 PMI_SIZE=2 RANK=0 WORLD_SIZE=3", "MPICH's mpiexec says rank 0 of 2 (PMI_RANK, PMI_SIZE), but " +
			"torchrun says rank 0 of 3 (RANK, WORLD_SIZE)"},
		{"RANK=one WORLD_SIZE=2", `RANK: expected a whole number, found "one"`},
		{"RANK=2 WORLD_SIZE=2", "RANK is 2 and WORLD_SIZE is 2: expected at least 0 and less than 2"},
		{"RANK=1 WORLD_SIZE=2", "RANK and WORLD_SIZE are set, but not MASTER_ADDR, the host of rank 0"},
		{"RANK=1 WORLD_SIZE=2 MASTER_ADDR=h MASTER_PORT=70000",
			`MASTER_PORT: expected a port in [1, 65534], found "70000"`},
		{"JOB_COMPLETION_INDEX=1 MASTER_ADDR=h", "MASTER_ADDR and a rank are set, but not WORLD_SIZE"},
		{"VSETRAIN_LAUNCH_PLACE=1", "VSETRAIN_LAUNCH_PLACE is set only by vsetrain"},
	} {
		p, err := Environment(env(c.vars))
		got := fmt.Sprintf("%d of %d, %d of %d, at %s, by '%s'", p.Rank, p.Ranks, p.Local, p.Locals, p.Address,
			p.Launcher)
		if p.StartsMPI {
			got += " with MPI"
		}
		if err != nil {
			got = err.Error()
		}
		if got != c.want && (err == nil || !strings.HasPrefix(got, c.want)) {
			t.Errorf("%s:\n got %s\nwant %s", c.vars, got, c.want)
		}
	}
}

func TestThreads(t *testing.T) {
	for _, c := range []struct {
		place Place
		all   int
		want  int
	}{{Place{}, 8, 8}, {Place{Local: 0, Locals: 3}, 8, 3}, {Place{Local: 2, Locals: 3}, 8, 2},
		{Place{Local: 1, Locals: 4}, 2, 1}, {Place{Local: 3, Locals: 4}, 2, 1}} {
		if got := c.place.Threads(c.all); got != c.want {
			t.Errorf("%+v of %d threads: %d, want %d", c.place, c.all, got, c.want)
		}
	}
	if p := (Place{Rank: 2, Ranks: 3}).Times(4); p.Rank != 8 || p.Ranks != 12 || p.Local != 0 || p.Locals != 4 {
		t.Errorf("%+v", p)
	}
}
