//go:build linux && (amd64 || arm64) && !nodl

package mpi

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
)

// Bootstrap lets Init start MPI in processes that no launcher of MPI started. It serves PMI-1 (MPICH,
// src/pmi/src/pmi_v1.c: lines of name=value), by which processes of MPICH and compatible libraries find each other, to
// the library in this process. machines are the machines of the ranks: processes on one machine share memory. exchange
// sends a value to all ranks and returns the value of each; all ranks must call it.
func Bootstrap(rank int, machines []string, exchange func([]byte) ([][]byte, error)) error {
	ends, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("start MPI: %w", os.NewSyscallError("socketpair", err))
	}
	go servePMI(os.NewFile(uintptr(ends[1]), "PMI"), machines, exchange)
	for name, value := range map[string]int{"PMI_FD": ends[0], "PMI_RANK": rank, "PMI_SIZE": len(machines)} {
		err = errors.Join(err, os.Setenv(name, fmt.Sprint(value)))
	}
	return err
}

// servePMI answers a process until it closes the connection. If the ranks can no longer exchange values it does not
// answer the barrier: MPI would abort the process before it can report its error.
func servePMI(c io.ReadWriter, machines []string, exchange func([]byte) ([][]byte, error)) {
	values, puts := map[string]string{"PMI_process_mapping": mapping(machines)}, ""
	for lines := bufio.NewScanner(c); lines.Scan(); {
		given, answer := fields(lines.Text(), " "), ""
		switch given["cmd"] {
		case "init":
			answer = "response_to_init pmi_version=1 pmi_subversion=1 rc=0"
		case "get_maxes":
			answer = "maxes kvsname_max=256 keylen_max=64 vallen_max=1024"
		case "get_appnum":
			answer = "appnum rc=0 appnum=0"
		case "get_my_kvsname":
			answer = "my_kvsname rc=0 kvsname=vsetrain"
		case "get_universe_size":
			answer = fmt.Sprintf("universe_size rc=0 size=%d", len(machines))
		case "put":
			puts += given["key"] + "=" + given["value"] + "\n"
			answer = "put_result rc=0 msg=success"
		case "get":
			answer = "get_result rc=-1 msg=key_not_found value=unknown"
			if v, ok := values[given["key"]]; ok {
				answer = "get_result rc=0 msg=success value=" + v
			}
		case "barrier_in":
			all, err := exchange([]byte(puts))
			if err != nil {
				continue
			}
			for _, text := range all {
				for key, value := range fields(string(text), "\n") {
					values[key] = value
				}
			}
			puts, answer = "", "barrier_out rc=0"
		case "finalize":
			answer = "finalize_ack rc=0"
		}
		fmt.Fprintf(c, "cmd=%s\n", answer)
	}
}

// fields reads pairs name=value.
func fields(text, separator string) map[string]string {
	all := map[string]string{}
	for f := range strings.SplitSeq(text, separator) {
		name, value, _ := strings.Cut(f, "=")
		all[name] = value
	}
	return all
}

// mapping says which ranks share a machine, in the form of PMI_process_mapping: blocks of (first machine, number of
// machines, ranks on each), here with one machine each.
func mapping(machines []string) string {
	var known []string
	text := "(vector"
	for i, n := 0, 0; i < len(machines); i += n {
		for n = 1; i+n < len(machines) && machines[i+n] == machines[i]; n++ {
		}
		at := slices.Index(known, machines[i])
		if at < 0 {
			at = len(known)
			known = append(known, machines[i])
		}
		text += fmt.Sprintf(",(%d,1,%d)", at, n)
	}
	return text + ")"
}
