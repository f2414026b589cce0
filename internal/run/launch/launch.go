// Package launch makes processes the ranks of one training. It reads the rank of a process from the environment, or
// starts the ranks of a machine itself. All ranks connect to one TCP port of rank 0, where they compare their settings
// and MPICH gets its addresses (PMI-1). Each rank learns within seconds that another one failed, was lost or asked for
// a stop, and all of them end together (docs/distributed.md).
package launch

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"strings"
	"vsetrain/internal/system/options"
)

// TokenVariable names the environment variable of a secret that all ranks of a training share. Rank 0 refuses a process
// with another secret.
const TokenVariable = "VSETRAIN_LAUNCH_TOKEN"

// placeVariable holds the Place of a process that Join started.
const placeVariable = "VSETRAIN_LAUNCH_PLACE"

// DefaultPort is the port of rank 0 if only MASTER_ADDR is set. torchrun uses the same.
const DefaultPort = 29500

// Place is the place of a process among the ranks.
type Place struct {
	Rank, Ranks int
	// Locals is the number of ranks that share the processors that this process sees, and Local its number among them.
	Local, Locals int
	Device        int    // GPU of the machine that the launcher assigns
	Address       string // HOST:PORT of rank 0; "" if this process chooses it or MPI distributes it
	Launcher      string // the program that started the ranks; "" if none did
	StartsMPI     bool   // the launcher starts MPI, the ranks do not
	Child         bool   // Join started this process
	Token         string // a secret of all ranks, or text that tells trainings apart
}

// Threads is this rank's share of all threads; the first ranks take the remainder.
func (p Place) Threads(all int) int {
	n := max(1, p.Locals)
	return max(1, (all+n-1-p.Local)/n)
}

// Times makes this process the first of procs ranks, and every other process of the launcher likewise.
func (p Place) Times(procs int) Place {
	p.Rank, p.Ranks = p.Rank*procs, p.Ranks*procs
	p.Local, p.Locals = p.Local*procs, max(1, p.Locals)*procs
	return p
}

// launcher is a program that starts processes, with the variables that describe their places.
type launcher struct {
	name, rank, ranks, local, locals string

	device string // number on the machine, if local is not set
	mpi    bool   // the launcher also starts MPI
	outer  bool   // it may start another launcher, whose processes its variables then describe
}

// The launchers that others have to be told apart from.
const (
	mpirun = "Open MPI's mpirun"
	pmix   = "PMIx"
	slurm  = "Slurm"
)

var launchers = []launcher{
	{name: mpirun, rank: "OMPI_COMM_WORLD_RANK", ranks: "OMPI_COMM_WORLD_SIZE",
		device: "OMPI_COMM_WORLD_LOCAL_RANK", mpi: true},
	{name: "MPICH's mpiexec", rank: "PMI_RANK", ranks: "PMI_SIZE", device: "MPI_LOCALRANKID",
		mpi: true},
	{name: pmix, rank: "PMIX_RANK", ranks: "SLURM_STEP_NUM_TASKS", device: "SLURM_LOCALID",
		mpi: true},
	{name: "torchrun", rank: "RANK", ranks: "WORLD_SIZE", local: "LOCAL_RANK", locals: "LOCAL_WORLD_SIZE"},
	{name: "Kubernetes", rank: "JOB_COMPLETION_INDEX", ranks: "WORLD_SIZE", outer: true},
	{name: slurm, rank: "SLURM_PROCID", ranks: "SLURM_STEP_NUM_TASKS", device: "SLURM_LOCALID", outer: true},
}

// Environment reads the place of this process from the variables of its launcher. Variables that contradict each other
// are an error that names both. A single process has one rank and no launcher.
func Environment(getenv func(string) string) (Place, error) {
	p := Place{Ranks: 1}
	if text := getenv(placeVariable); text != "" {
		if err := json.Unmarshal([]byte(text), &p); err != nil {
			return p, fmt.Errorf("%s is set only by vsetrain, found %q", placeVariable, text)
		}
		p.Child = true
		return p, nil
	}
	elastic := getenv("TORCHELASTIC_RUN_ID") // of torchrun itself, and not of a script that sets its variables
	var by launcher
	for _, l := range launchers {
		if getenv(l.rank) == "" || getenv(l.ranks) == "" || l.outer && (p.StartsMPI || elastic != "") {
			continue
		}
		rank, ranks, err := pair(getenv, l.rank, l.ranks)
		if err != nil {
			return p, err
		}
		if ranks == 1 && l.name == slurm { // srun with one process, which may start ranks itself
			continue
		}
		if by.name == "" {
			by, p.Rank, p.Ranks = l, rank, ranks
		} else if rank != p.Rank || ranks != p.Ranks {
			return p, fmt.Errorf("%s says rank %d of %d (%s, %s), but %s says rank %d of %d (%s, %s); unset the "+
				"variables of the one that did not start this process", by.name, p.Rank, p.Ranks, by.rank, by.ranks,
				l.name, rank, ranks, l.rank, l.ranks)
		}
		p.StartsMPI = p.StartsMPI || l.mpi
	}
	if by.name == "" {
		if getenv("RANK") != "" && getenv("MASTER_ADDR") != "" ||
			getenv("JOB_COMPLETION_INDEX") != "" && getenv("MASTER_ADDR") != "" {
			return p, fmt.Errorf("MASTER_ADDR and a rank are set, but not WORLD_SIZE, the number of ranks")
		}
		return p, nil
	}
	p.Launcher = by.name
	p.Token = cmp.Or(getenv(TokenVariable), elastic, getenv("SLURM_JOB_ID")+"."+getenv("SLURM_STEP_ID"))
	if by.local != "" && getenv(by.local) != "" && getenv(by.locals) != "" {
		var err error
		if p.Local, p.Locals, err = pair(getenv, by.local, by.locals); err != nil {
			return p, err
		}
		p.Device = p.Local
	} else if n, err := options.ParseInt(getenv(by.device)); err == nil && n >= 0 {
		p.Device = n
	}
	return p, p.address(getenv, by)
}

// pair reads a number and its upper limit.
func pair(getenv func(string) string, name, of string) (n, all int, err error) {
	for variable, to := range map[string]*int{name: &n, of: &all} {
		if *to, err = options.ParseInt(getenv(variable)); err != nil {
			return 0, 0, fmt.Errorf("%s: %w", variable, err)
		}
	}
	if n < 0 || n >= all {
		return 0, 0, fmt.Errorf("%s is %d and %s is %d: expected at least 0 and less than %[4]d", name, n, of, all)
	}
	return n, all, nil
}

// address finds the address of rank 0.
func (p *Place) address(getenv func(string) string, by launcher) error {
	host, port := getenv("MASTER_ADDR"), getenv("MASTER_PORT")
	if by.name == slurm {
		if host == "" {
			host = firstHost(cmp.Or(getenv("SLURM_STEP_NODELIST"), getenv("SLURM_JOB_NODELIST")))
		}
		if port == "" { // each step has its own
			job, _ := strconv.Atoi(getenv("SLURM_JOB_ID"))
			step, _ := strconv.Atoi(getenv("SLURM_STEP_ID"))
			port = strconv.Itoa(20000 + (17*job+step)%10000)
		}
	}
	if host == "" {
		if p.StartsMPI {
			return nil
		}
		return fmt.Errorf("%s and %s are set, but not MASTER_ADDR, the host of rank 0", by.rank, by.ranks)
	}
	n, err := options.ParseInt(cmp.Or(port, strconv.Itoa(DefaultPort)))
	if err != nil || n < 1 || n > 65534 {
		return fmt.Errorf("MASTER_PORT: expected a port in [1, 65534], found %q", port)
	}
	if getenv("TORCHELASTIC_USE_AGENT_STORE") == "True" { // torchrun listens on the port itself
		n++
	}
	p.Address = net.JoinHostPort(host, strconv.Itoa(n))
	return nil
}

// firstHost is the first name of a Slurm node list, such as n[01-04,7],m1.
func firstHost(list string) string {
	head, rest, grouped := strings.Cut(list, "[")
	if name, _, several := strings.Cut(head, ","); several || !grouped {
		return name
	}
	inside, _, _ := strings.Cut(rest, "]")
	return head + inside[:strings.IndexAny(inside+",", ",-")]
}
