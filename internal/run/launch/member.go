package launch

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"vsetrain/internal/system/bind"
	"vsetrain/internal/system/libraries"
	"vsetrain/internal/system/mpi"
)

const (
	deadAfter = 10 * time.Second // without a beat a rank is dead
	// grace is how long a rank has to end by itself when another failed. One that waits in a collective of MPI cannot.
	grace = time.Second
	// deviceGrace is grace where devices send values: collectives that wait can be aborted, which may hang too.
	deviceGrace = 5 * time.Second
	// parting is how long rank 0 waits for the connections and processes of ranks that have done their work.
	parting = 5 * time.Second
	// ahead is how many messages this rank may be behind with: whoever reads what rank 0 says must hear of a failure.
	ahead = 256
)

// Member is this process among the ranks of a training.
type Member struct {
	Place
	World *mpi.World // nil where devices send values

	o        Options
	link     *link
	hub      *hub // of rank 0
	children *children
	failure  *Failure
	grace    time.Duration
	shared   chan string // what rank 0 shares
	passed   chan int    // the number of a wait in which all ranks are
	waits    int         // how often this rank has waited

	stopped, failed, ended chan struct{}
	leaving                chan struct{} // closed when this rank ends by itself
	leave                  sync.Once
}

// Join meets the other ranks, compares facts with them, and starts MPI on the calling goroutine, which is locked to its
// thread and makes all calls of the world. The error is a *Failure where another rank is the cause.
func Join(ctx context.Context, o Options) (*Member, error) {
	o.Dead = cmp.Or(o.Dead, deadAfter)
	m := &Member{Place: o.Place, o: o, grace: grace, shared: make(chan string, ahead), passed: make(chan int, ahead),
		stopped: make(chan struct{}), failed: make(chan struct{}), ended: make(chan struct{}),
		leaving: make(chan struct{})}
	if o.Devices {
		m.grace = deviceGrace
		m.StartsMPI = m.StartsMPI && m.Address == "" // which MPI tells
	}
	if err := m.join(ctx); err != nil {
		return nil, m.Fail(err)
	}
	return m, nil
}

func (m *Member) join(ctx context.Context) (err error) {
	p := m.Place
	if m.o.Place.StartsMPI && m.o.Procs > 1 {
		return fmt.Errorf("%s started this process: give it the number of ranks, and leave --procs and --gpus out",
			p.Launcher)
	}
	if p.StartsMPI || !m.o.Devices {
		if err := m.load(); err != nil {
			return err
		}
	}
	addresses := []string{p.Address}
	if p.StartsMPI {
		if err = m.start(); err != nil {
			return err
		}
	}
	if p.Rank == 0 {
		if addresses, err = m.serve(); err != nil {
			return err
		}
	}
	if p.StartsMPI {
		if addresses, err = m.share(addresses); err != nil {
			return err
		}
	}
	if m.o.Procs > 1 && !p.Child {
		at := m.Place
		at.Address = addresses[0]
		if m.children, err = startChildren(m.o.Command, m.o.Env, at, m.o.Procs, m.childEnded); err != nil {
			return err
		}
	}
	met, at, err := m.o.meet(ctx, m.Place, addresses)
	if err != nil {
		return err
	}
	m.link = met.link
	go m.watch()
	if p.StartsMPI || m.o.Devices {
		return nil
	}
	if err := errors.Join(os.Setenv("PMI_PORT", at), os.Setenv("PMI_ID", strconv.Itoa(met.id))); err != nil {
		return err
	}
	return m.start()
}

// load loads MPI.
func (m *Member) load() error {
	path, err := Pick(m.o.MPI, m.Place)
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

// Pick chooses a library that can be started as a process at this place is. Without a launcher Join starts it.
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
		return "", fmt.Errorf("%s started this process, but %s is no Open MPI; name its libmpi.so.40 in %s, or start "+
			"the ranks with mpiexec.hydra or --procs", p.Launcher, lib.Path, lib.Setting)
	case p.StartsMPI:
		return "", fmt.Errorf("%s started this process, but %s is Open MPI; name the library of MPICH in %s, or start "+
			"the ranks with Open MPI's mpirun", p.Launcher, lib.Path, lib.Setting)
	}
	return "", fmt.Errorf("%s is Open MPI, which its own launcher must start: mpirun -n N vsetrain train …, without "+
		"--procs; or install MPICH, which needs none (apt install libmpich12, or pip install mpich)", lib.Path)
}

// start starts MPI, and checks that it is the launcher's.
func (m *Member) start() error {
	w := m.World
	if err := w.Init(); err != nil {
		return err
	}
	if w.Rank != m.Rank || w.Ranks != m.Ranks {
		return fmt.Errorf("MPI (%s) started as rank %d of %d, but %s started rank %d of %d: the library is not that "+
			"of the launcher; name it in VSETRAIN_MPI", w.Version, w.Rank, w.Ranks, m.Launcher, m.Rank, m.Ranks)
	}
	return nil
}

// serve opens the meeting point and returns its addresses as other ranks may see them, that for this machine first.
func (m *Member) serve() (addresses []string, err error) {
	p, listen := m.Place, net.JoinHostPort(bind.Local, "0")
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
		m.Token = rand.Text()
	}
	m.hub = newHub(p.Ranks, m.Token, m.o.Dead)
	go m.hub.accept(l)
	go m.hub.wait(m.o.Wait, m.o.Notice)
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

// share tells all ranks the addresses of the meeting point and its token, through MPI.
func (m *Member) share(addresses []string) ([]string, error) {
	var text [4096]float32 // bytes
	addresses = addresses[:min(len(addresses), 99)]
	for i, b := range []byte(strings.Join(append(addresses, m.Token), " ")) {
		text[i] = float32(b)
	}
	if err := mpi.Broadcast(m.World, text[:], 0); err != nil {
		return nil, err
	}
	var all []byte
	for _, x := range text {
		if x != 0 {
			all = append(all, byte(x))
		}
	}
	words := strings.Fields(string(all))
	last := len(words) - 1
	m.Token = words[last]
	return words[:last], nil
}

// watch handles what rank 0 says, and ends this process by force where another rank's end leaves it waiting.
func (m *Member) watch() {
	for asked := false; ; {
		r, err := m.link.receive()
		switch {
		case err != nil:
			select {
			case <-m.ended:
			case <-m.leaving:
			default:
				m.lose(&Failure{Text: fmt.Sprintf("rank 0 at %s is gone: %v", m.link.RemoteAddr(), err), Lost: true})
			}
			return
		case r.Kind == stop && !asked:
			asked = true
			close(m.stopped)
		case r.Kind == share:
			m.shared <- r.Text
		case r.Kind == wait:
			m.passed <- r.Number
		case r.Kind == end:
			close(m.ended)
		case r.Kind == failed:
			m.lose(&Failure{Rank: r.Rank, Text: r.Text, Lost: r.Lost})
			return
		}
	}
}

func (m *Member) lose(f *Failure) {
	m.failure = f
	close(m.failed)
	select {
	case <-m.leaving:
	case <-time.After(m.grace):
		m.o.Exit(f)
	}
}

// childEnded reports that a process that this one started ended with an error.
func (m *Member) childEnded(rank int, err error) {
	var exit *exec.ExitError
	m.report(message{Kind: failed, Rank: rank, Text: fmt.Sprintf("its process ended: %v", err),
		Lost: errors.As(err, &exit) && exit.ExitCode() < 0})
}

// report tells rank 0 of a failure.
func (m *Member) report(r message) {
	if m.hub != nil {
		m.hub.handle(nil, r)
	} else if m.link != nil {
		m.link.send(r)
	}
}

// Context returns a context that ends when ctx does or any rank asks for a stop; and that it ends, for whatever reason,
// asks all ranks. The ranks learn it at different steps: they must agree on one by a collective.
func (m *Member) Context(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	off := context.AfterFunc(ctx, func() { m.link.send(message{Kind: stop, Rank: m.Rank}) })
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

// Leave ends this rank when its work is done: it waits until all others are done too, then ends MPI with them. The
// error is a *Failure where one of them failed.
func (m *Member) Leave() error {
	m.link.send(message{Kind: done, Rank: m.Rank})
	select {
	case <-m.ended:
	case <-m.failed:
		m.part(grace)
		return m.failure
	}
	var err error
	if m.World != nil {
		err = m.World.Finalize()
	}
	m.part(parting)
	return err
}

// Fail ends this rank because of an error, and tells the others, which end within two seconds. MPI is left as it is. It
// returns the cause: the *Failure of another rank where that is it, also where a call of MPI failed without that rank,
// or else the error.
func (m *Member) Fail(err error) error {
	var other *Failure
	var call *mpi.CallError
	most := time.Duration(0)
	if errors.As(err, &call) && m.link != nil {
		most = m.o.Dead + m.grace // the last moment at which a rank may be found dead
	}
	if m.told(most) {
		err = m.failure
	}
	if !errors.As(err, &other) {
		m.report(message{Kind: failed, Rank: m.Rank, Text: err.Error()})
	}
	m.part(grace)
	return err
}

// told reports whether a rank is known to have failed, or is so within a time.
func (m *Member) told(most time.Duration) bool {
	select {
	case <-m.failed:
		return true
	default:
	}
	select {
	case <-m.failed:
		return true
	case <-time.After(most):
		return false
	}
}

// part closes the connection, and as rank 0 and as a parent waits for the others, for a time at most.
func (m *Member) part(most time.Duration) {
	m.leave.Do(func() { close(m.leaving) })
	if m.link != nil {
		m.link.close()
	}
	if m.hub != nil {
		m.hub.drain(most)
	}
	if m.children != nil {
		m.children.end(most)
	}
}
