package launch

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/rpc"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"vsetrain/internal/system/bind"
	"vsetrain/internal/system/libraries"
	"vsetrain/internal/system/mpi"
	"vsetrain/internal/system/process"
)

const (
	deadAfter = 10 * time.Second // a rank is dead after this time without a sign of life
	// grace is the time that a rank has to end by itself after another one failed. A rank that waits in an MPI
	// collective cannot.
	grace = time.Second
	// deviceGrace replaces grace if the devices communicate: their collectives can be aborted, but the abort may hang.
	deviceGrace = 5 * time.Second
	// parting is how long rank 0 waits for the connections and processes of ranks that have finished.
	parting = 5 * time.Second

	retry = 100 * time.Millisecond // between two attempts to reach rank 0
)

// Options describe how a process joins the other ranks.
type Options struct {
	Place Place
	// Procs is the number of ranks that this process stands for on this machine. It starts the others with Command and
	// Env ("NAME=value").
	Procs   int
	Command []string
	Env     []string
	MPI     libraries.Library // from mpi.Search
	Devices bool              // the devices communicate directly, without MPI
	Facts   []Fact            // settings that all ranks must agree on
	Wait    time.Duration     // how long to wait for all ranks; 0 waits without limit
	Notice  func(string)      // reports to the user what this process waits for
	Exit    func(*Failure)    // ends the process if the failure of another rank leaves it waiting
	Dead    time.Duration     // a rank is dead after this time without a sign of life; 0 means ten seconds
}

// Member is this process as one rank of a training. Devices that communicate directly reach the other ranks through it
// (device.Rendezvous).
type Member struct {
	World *mpi.World // nil if the devices communicate directly

	p        Place
	o        Options
	grace    time.Duration
	at       string // where rank 0 answered
	zero     *rpc.Client
	store    *store // of rank 0
	children children
	failure  *Failure

	stopped, failed chan struct{}
	leaving         chan struct{} // closed when this rank ends by itself
	leave           sync.Once
}

// Join connects to the other ranks, compares facts with them, and starts MPI on the calling goroutine. That goroutine
// is locked to its thread and must make all calls of World. The error is a *Failure if another rank is the cause.
func Join(ctx context.Context, o Options) (*Member, error) {
	o.Dead = cmp.Or(o.Dead, deadAfter)
	m := &Member{p: o.Place, o: o, grace: grace, stopped: make(chan struct{}), failed: make(chan struct{}),
		leaving: make(chan struct{})}
	if o.Devices {
		m.grace = deviceGrace
		m.p.StartsMPI = m.p.StartsMPI && m.p.Address == "" // which MPI tells
	}
	switch err := m.join(ctx); {
	case err == nil:
		return m, nil
	case ctx.Err() != nil:
		m.part(grace)
		return nil, ctx.Err()
	default:
		return nil, m.Fail(err)
	}
}

func (m *Member) join(ctx context.Context) (err error) {
	if m.o.Place.StartsMPI && m.o.Procs > 1 {
		return fmt.Errorf("%s started this process: give it the number of ranks, and leave --procs and --gpus out",
			m.p.Launcher)
	}
	if m.p.Child {
		go func() {
			io.Copy(io.Discard, os.Stdin)
			m.o.Exit(&Failure{Text: "the process that started this rank is gone", Lost: true})
		}()
	}
	if m.p.StartsMPI || !m.o.Devices {
		if err := m.load(); err != nil {
			return err
		}
	}
	addresses := []string{m.p.Address}
	if m.p.StartsMPI {
		if err = m.start(); err != nil {
			return err
		}
	}
	if m.p.Rank == 0 {
		if addresses, err = m.serve(); err != nil {
			return err
		}
	}
	if m.p.StartsMPI {
		if addresses, err = m.share(addresses); err != nil {
			return err
		}
	}
	if err = m.reach(ctx, addresses); err != nil {
		return err
	}
	if m.o.Procs > 1 && !m.p.Child {
		at := m.p
		at.Address = m.at
		if err = m.children.start(m.o.Command, m.o.Env, at, m.o.Procs, m.childEnded); err != nil {
			return err
		}
	}
	machines, err := m.begin(ctx)
	if err != nil || m.p.StartsMPI || m.o.Devices {
		return err
	}
	if err := mpi.Bootstrap(m.p.Rank, machines, m.exchange); err != nil {
		return err
	}
	return m.start()
}

// refusal is an error that a retry does not change.
type refusal struct{ error }

// reach connects to rank 0 at the first address that answers.
func (m *Member) reach(ctx context.Context, addresses []string) (err error) {
	for began, reminded := time.Now(), time.Now(); ; time.Sleep(retry) {
		for _, m.at = range addresses {
			if err = m.greet(ctx); err == nil || ctx.Err() != nil {
				return err
			}
			if no, ok := errors.AsType[refusal](err); ok {
				return no.error
			}
		}
		waited := time.Since(began)
		if m.o.Wait > 0 && waited > m.o.Wait+m.o.Dead { // the error of rank 0 is more specific, if it can be reached
			return fmt.Errorf("rank 0 did not answer at %s within %v: %w; see its output, or wait longer with --wait",
				strings.Join(addresses, ", "), m.o.Wait, err)
		}
		if time.Since(reminded) > reminder {
			reminded = time.Now()
			m.o.Notice(fmt.Sprintf("waiting for rank 0 at %s for %v: %v", m.at, waited.Round(time.Second), err))
		}
	}
}

// greet introduces this process to rank 0.
func (m *Member) greet(ctx context.Context) error {
	dialer := net.Dialer{Timeout: m.o.Dead}
	c, err := dialer.DialContext(ctx, "tcp", m.at)
	if err != nil {
		return err
	}
	l := &link{Conn: c, dead: m.o.Dead}
	if err := json.NewEncoder(l).Encode(m.hello()); err != nil {
		return err
	}
	line, err := l.line()
	why, ours := strings.CutPrefix(line, welcome)
	switch {
	case ours && why == "":
		m.zero = rpc.NewClient(l)
		go m.watch()
		return nil
	case ours:
		err = refusal{fmt.Errorf("rank 0 at %s refuses this process: %s", m.at, why)}
	case err == nil:
		err = refusal{fmt.Errorf("%s is not rank 0 of vsetrain: expected its welcome, found %.60q; set MASTER_ADDR "+
			"and MASTER_PORT to where it is", m.at, line)}
	}
	l.Close()
	return err
}

func (m *Member) hello() hello {
	host, _ := os.Hostname() // empty if the system does not know it
	return hello{m.p.Rank, m.p.Ranks, os.Getpid(), host, m.p.Token, m.o.Facts}
}

// begin waits until all ranks have connected and agree. It returns the machine of each rank: ranks on one machine share
// memory.
func (m *Member) begin(ctx context.Context) (machines []string, err error) {
	defer context.AfterFunc(ctx, func() {
		m.fail(m.p.Rank, "was interrupted before all ranks had come", true)
	})()
	if m.store != nil {
		came := make(chan struct{})
		defer close(came)
		go m.store.wait(came, m.o.Wait, m.o.Notice)
	}
	all, err := m.meet(begin, []byte(cmp.Or(process.Machine(), m.hello().Host)))
	for _, machine := range all {
		machines = append(machines, string(machine))
	}
	return machines, err
}

// meet waits until every rank has called it with this name, and returns the value that each rank gave.
func (m *Member) meet(name string, own []byte) (all [][]byte, err error) {
	call := m.zero.Go("Store.Meet", Gift{name, own}, &all, nil)
	select {
	case <-call.Done:
		if call.Error == nil {
			return all, nil
		}
		<-m.failed // watch is told too
	case <-m.failed:
	}
	return nil, m.failure
}

// exchange is meet under the name of all meetings but the first and the last.
func (m *Member) exchange(own []byte) ([][]byte, error) { return m.meet("", own) }

// load loads MPI.
func (m *Member) load() error {
	path, err := Pick(m.o.MPI, m.p)
	if err != nil {
		return err
	}
	if m.World, err = mpi.Load(path); err != nil {
		return err
	}
	m.o.Facts = append(slices.Clone(m.o.Facts), Fact{"MPI", strings.Join(strings.Fields(m.World.Version), " ") +
		fmt.Sprintf(" (%s)", m.World.Kind)})
	return nil
}

// Pick chooses a library that a process at this place can start. Join starts it if there is no launcher.
func Pick(lib libraries.Library, p Place) (path string, err error) {
	if lib.Path == "" {
		return "", fmt.Errorf("several ranks need MPI: %s", lib.Missing())
	}
	open := p.Launcher == mpirun
	for _, path := range lib.Paths() {
		kind, err := mpi.KindOf(path)
		if err != nil {
			return "", fmt.Errorf("%w; name another file in %s", err, lib.Setting)
		}
		if open == (kind == mpi.OpenMPI) || p.Launcher == pmix {
			return path, nil
		}
	}
	switch {
	case open:
		return "", fmt.Errorf("%s started this process, but %s is not Open MPI; name its libmpi.so.40 in %s, or start "+
			"the ranks with mpiexec.hydra or --procs", p.Launcher, lib.Path, lib.Setting)
	case p.StartsMPI:
		return "", fmt.Errorf("%s started this process, but %s is Open MPI; name the library of MPICH in %s, or start "+
			"the ranks with Open MPI's mpirun", p.Launcher, lib.Path, lib.Setting)
	}
	return "", fmt.Errorf("%s is Open MPI, which its own launcher must start: mpirun -n N vsetrain train …, without "+
		"--procs; or install MPICH, which needs none (apt install libmpich12, or pip install mpich)", lib.Path)
}

// start starts MPI and checks that it is the launcher's.
func (m *Member) start() error {
	w := m.World
	if err := w.Init(); err != nil {
		return err
	}
	if rank, ranks := w.Rank(); rank != m.p.Rank || ranks != m.p.Ranks {
		return fmt.Errorf("MPI (%s) started as rank %d of %d, but %s started rank %d of %d: this is not the "+
			"launcher's library; name that in VSETRAIN_MPI", w.Version, rank, ranks, m.p.Launcher, m.p.Rank, m.p.Ranks)
	}
	return nil
}

// serve opens the store. It returns the addresses at which other ranks may reach it, the one for this machine first.
func (m *Member) serve() (addresses []string, err error) {
	p, listen := m.p, net.JoinHostPort(bind.Local, "0")
	switch host, port, _ := net.SplitHostPort(p.Address); {
	case p.StartsMPI:
		listen = ":0"
	case host == "localhost" || net.ParseIP(host).IsLoopback():
		listen = p.Address
	case host != "": // a name that others know may be unknown here
		listen = ":" + port
	}
	l, err := bind.Listen(listen)
	if _, ok := errors.AsType[*bind.PortInUse](err); ok {
		return nil, fmt.Errorf("rank 0 cannot listen on %s: another program uses the port; set MASTER_PORT to one "+
			"that is free, the same for all ranks", listen)
	}
	if err != nil {
		return nil, err
	}
	if p.Address == "" { // children and MPI pass it on
		m.p.Token = rand.Text()
	}
	m.store = newStore(m.hello(), m.o.Dead)
	go m.store.accept(l)
	addresses = []string{bind.Here(l.Addr())}
	if !p.StartsMPI {
		return addresses, nil
	}
	all, err := net.InterfaceAddrs()
	for _, a := range all {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.To4() != nil && !ip.IP.IsLoopback() {
			addresses = append(addresses, netip.AddrPortFrom(netip.AddrFrom4([4]byte(ip.IP.To4())),
				uint16(l.Addr().(*net.TCPAddr).Port)).String())
		}
	}
	return addresses, err
}

// share sends the addresses and the token of the store to all ranks through MPI.
func (m *Member) share(addresses []string) ([]string, error) {
	text := make([]float32, 4096) // bytes
	for i, b := range []byte(strings.Join(append(addresses[:min(len(addresses), 99)], m.p.Token), " ")) {
		text[i] = float32(b)
	}
	if err := m.World.Broadcast(text, 0); err != nil {
		return nil, err
	}
	var all []byte
	for _, x := range text[:slices.Index(text, 0)] {
		all = append(all, byte(x))
	}
	words := strings.Fields(string(all))
	last := len(words) - 1
	m.p.Token = words[last]
	return words[:last], nil
}

// watch receives the news of other ranks, and ends this process by force if the end of another rank leaves it waiting.
func (m *Member) watch() {
	for stops := false; m.failure == nil; {
		var n News
		err := m.zero.Call("Store.Watch", stops, &n)
		if n.Stop {
			stops = true
			close(m.stopped)
		}
		if err != nil {
			n.Failure = &Failure{Text: fmt.Sprintf("rank 0 at %s is gone: %v", m.at, err), Lost: true}
		}
		select {
		case <-m.leaving:
			return
		default:
			m.failure = n.Failure
		}
	}
	close(m.failed)
	select {
	case <-m.leaving:
	case <-time.After(m.grace):
		m.o.Exit(m.failure)
	}
}

// childEnded reports a child that ended with an error.
func (m *Member) childEnded(rank int, err error) {
	exit, ok := errors.AsType[*exec.ExitError](err)
	m.fail(rank, fmt.Sprintf("its process ended: %v", err), ok && exit.ExitCode() < 0)
}

// fail tells all ranks that one of them failed.
func (m *Member) fail(rank int, why string, lost bool) {
	m.tell(News{Failure: &Failure{Rank: rank, Text: fmt.Sprintf("rank %d: %s", rank, why), Lost: lost}})
}

func (m *Member) tell(n News) {
	if m.zero != nil { // rank 0 can be reached
		m.zero.Call("Store.Tell", n, new(News))
	}
}

// Context returns a context that ends when ctx ends or any rank asks for a stop. When it ends, for whatever reason, all
// ranks are asked to stop. They learn it at different steps and must agree on one by a collective.
func (m *Member) Context(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	off := context.AfterFunc(ctx, func() { m.tell(News{Stop: true}) })
	go func() {
		select {
		case <-m.stopped:
		case <-ctx.Done():
		}
		cancel()
	}()
	return ctx, func() {
		off()
		cancel()
	}
}

// Leave ends this rank when its work is done. It waits until all others are done too, then ends MPI with them. The
// error is a *Failure if one of them failed.
func (m *Member) Leave() error {
	if _, err := m.meet(end, nil); err != nil {
		m.part(grace)
		return err
	}
	m.leave.Do(func() { close(m.leaving) })
	var err error
	if m.World != nil {
		err = m.World.Finalize()
	}
	m.part(parting)
	return err
}

// Fail ends this rank because of an error and tells the others, which end within two seconds. MPI is not finalised.
// Fail returns the cause: the *Failure of another rank if that came first or made a call of MPI fail here, otherwise
// err.
func (m *Member) Fail(err error) error {
	most := 10 * time.Millisecond
	if _, ok := errors.AsType[*mpi.CallError](err); ok && m.zero != nil {
		most = m.o.Dead + m.grace // the latest moment at which a rank can be found dead
	}
	select {
	case <-m.failed:
		err = m.failure
	case <-time.After(most):
	}
	if _, ok := errors.AsType[*Failure](err); !ok {
		m.fail(m.p.Rank, err.Error(), false)
	}
	m.part(grace)
	return err
}

// part closes the connection. Rank 0 and parents then wait for the others, at most the given time.
func (m *Member) part(most time.Duration) {
	m.leave.Do(func() { close(m.leaving) })
	if m.zero != nil {
		m.zero.Close()
	}
	if m.store != nil {
		m.store.drain(most)
	}
	m.children.end(most)
}

// Devices reports whether the devices of the ranks communicate directly, without MPI.
func (m *Member) Devices() bool { return m.o.Devices }

// Rank implements device.Job.
func (m *Member) Rank() (rank, ranks int) { return m.p.Rank, m.p.Ranks }

// Lost implements device.Rendezvous.
func (m *Member) Lost() <-chan struct{} { return m.failed }

// Broadcast implements device.Rendezvous.
func (m *Member) Broadcast(text []byte) ([]byte, error) {
	all, err := m.exchange(text)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// Wait implements device.Job.
func (m *Member) Wait() error {
	_, err := m.exchange(nil)
	return err
}
