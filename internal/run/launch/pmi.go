package launch

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"sync"
)

// pmi serves PMI-1, by which the processes of MPICH and its relatives find each other: lines of name=value over TCP
// (MPICH, src/pmi/src/pmi_v1.c). A process says who it is by a number that only the ranks were told.
type pmi struct {
	ids []int // by rank

	mu      sync.Mutex
	values  map[string]string
	waiting []io.Writer // in the barrier
}

// mapping tells which ranks share a node, as PMI_process_mapping does: blocks of (first node, nodes, ranks of each).
func mapping(nodeOf []string) string {
	number := map[string]int{}
	type block struct{ node, nodes, ranks int }
	var blocks []block
	for i := 0; i < len(nodeOf); {
		n, known := number[nodeOf[i]]
		if !known {
			n = len(number)
			number[nodeOf[i]] = n
		}
		b := block{n, 1, 1}
		for i++; i < len(nodeOf) && nodeOf[i] == nodeOf[i-1]; i++ {
			b.ranks++
		}
		if k := len(blocks) - 1; k >= 0 && blocks[k].ranks == b.ranks && blocks[k].node+blocks[k].nodes == n {
			blocks[k].nodes++
		} else {
			blocks = append(blocks, b)
		}
	}
	text := "(vector"
	for _, b := range blocks {
		text += fmt.Sprintf(",(%d,%d,%d)", b.node, b.nodes, b.ranks)
	}
	return text + ")"
}

// begin makes the server ready for ranks on these nodes. The ids are secret.
func (s *pmi) begin(ids []int, nodeOf []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ids, s.values = ids, map[string]string{"PMI_process_mapping": mapping(nodeOf)}
}

// serve answers one process until it closes the connection.
func (s *pmi) serve(c io.ReadWriter, in *bufio.Reader) {
	known := false
	for lines := bufio.NewScanner(in); lines.Scan(); {
		given := map[string]string{}
		for _, f := range strings.Fields(lines.Text()) {
			name, value, _ := strings.Cut(f, "=")
			given[name] = value
		}
		s.mu.Lock()
		if given["cmd"] == "initack" {
			known = s.greet(c, given["pmiid"])
		} else if known {
			s.answer(c, given)
		}
		s.mu.Unlock()
		if !known {
			return
		}
	}
}

// greet tells a process its rank.
func (s *pmi) greet(c io.Writer, id string) bool {
	for rank, n := range s.ids {
		if fmt.Sprint(n) == id {
			fmt.Fprintf(c, "cmd=initack rc=0\ncmd=set size=%d\ncmd=set rank=%d\ncmd=set debug=0\n", len(s.ids), rank)
			return true
		}
	}
	return false
}

func (s *pmi) answer(c io.Writer, given map[string]string) {
	say := func(format string, args ...any) { fmt.Fprintf(c, "cmd="+format+"\n", args...) }
	switch given["cmd"] {
	case "init":
		say("response_to_init pmi_version=1 pmi_subversion=1 rc=0")
	case "get_maxes":
		say("maxes kvsname_max=256 keylen_max=64 vallen_max=1024")
	case "get_appnum":
		say("appnum rc=0 appnum=0")
	case "get_my_kvsname":
		say("my_kvsname rc=0 kvsname=vsetrain")
	case "get_universe_size":
		say("universe_size rc=0 size=%d", len(s.ids))
	case "put":
		s.values[given["key"]] = given["value"]
		say("put_result rc=0 msg=success")
	case "get":
		if v, ok := s.values[given["key"]]; ok {
			say("get_result rc=0 msg=success value=%s", v)
		} else {
			say("get_result rc=-1 msg=key_not_found value=unknown")
		}
	case "barrier_in":
		if s.waiting = append(s.waiting, c); len(s.waiting) == len(s.ids) {
			for _, w := range s.waiting {
				fmt.Fprintf(w, "cmd=barrier_out rc=0\n")
			}
			s.waiting = nil
		}
	case "finalize":
		say("finalize_ack rc=0")
	}
}
