package launch

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"
	"vsetrain/internal/system/libraries"
	"vsetrain/internal/system/process"
)

// retry is the time between two attempts to reach rank 0.
const retry = 100 * time.Millisecond

// Options say how a process joins the others.
type Options struct {
	Place Place
	// Procs is how many ranks of this machine this process is: it starts the others with Command and Env, "NAME=value".
	Procs   int
	Command []string
	Env     []string
	MPI     libraries.Library // what mpi.Search found
	Devices bool              // the devices send values to each other (Meeting), and MPI is not needed
	Facts   []Fact            // what all ranks must agree on
	Wait    time.Duration     // how long to wait for all ranks; 0 is for ever
	Notice  func(string)      // tells a person what this process waits for
	Exit    func(*Failure)    // ends the process by force, which another rank's failure leaves waiting; after a second
	Dead    time.Duration     // after how long without a sign of life a rank is dead; 0 is ten seconds
}

// welcomed is what rank 0 gives to a rank when all have come: a link, and the id under which the rank starts MPI.
type welcomed struct {
	link *link
	id   int
}

// meet connects to rank 0, at the first address that answers, and waits until all ranks have come and agree.
func (o *Options) meet(ctx context.Context, p Place, addresses []string) (w welcomed, at string, err error) {
	began, reminded := time.Now(), time.Now()
	for {
		for _, at = range addresses {
			if w, err = o.greet(ctx, p, at); err == nil {
				return w, at, nil
			}
			var stays *final
			switch {
			case ctx.Err() != nil:
				return w, at, ctx.Err()
			case errors.As(err, &stays):
				return w, at, stays.error
			case o.Wait > 0 && time.Since(began) > o.Wait+o.Dead: // rank 0 says more where it can
				return w, at, fmt.Errorf("rank 0 did not answer at %s within %v: %w; see its output, or wait "+
					"longer with --wait", strings.Join(addresses, ", "), o.Wait, err)
			case time.Since(reminded) > reminder:
				reminded = time.Now()
				o.Notice(fmt.Sprintf("waiting for rank 0 at %s for %v: %v", at,
					time.Since(began).Round(time.Second), err))
			}
		}
		time.Sleep(retry)
	}
}

// final is an error that trying again does not change.
type final struct{ error }

// greet says hello to rank 0 and waits for its welcome.
func (o *Options) greet(ctx context.Context, p Place, at string) (welcomed, error) {
	dialer := net.Dialer{Timeout: o.Dead}
	c, err := dialer.DialContext(ctx, "tcp", at)
	if err != nil {
		return welcomed{}, err
	}
	l := newLink(c, bufio.NewReader(c), o.Dead)
	go l.beats()
	host, _ := os.Hostname() // empty if the system does not tell
	l.send(message{Kind: hello, Rank: p.Rank, Ranks: p.Ranks, Token: p.Token, PID: os.Getpid(), Host: host,
		Machine: cmp.Or(process.Machine(), host), Facts: o.Facts})
	interrupted := context.AfterFunc(ctx, func() {
		l.send(message{Kind: failed, Rank: p.Rank, Text: "was interrupted before all ranks had come", Lost: true})
		l.close()
	})
	defer interrupted()
	for {
		r, err := l.receive()
		switch {
		case errors.Is(err, errNotOurs):
			l.close()
			return welcomed{}, &final{fmt.Errorf("%s is not rank 0 of vsetrain: %w; set MASTER_ADDR and "+
				"MASTER_PORT to where it is", at, err)}
		case err != nil:
			l.close()
			return welcomed{}, err
		case r.Kind == welcome:
			return welcomed{l, r.PMIID}, nil
		case r.Kind == refused:
			l.close()
			return welcomed{}, &final{fmt.Errorf("rank 0 at %s refuses this process: %s", at, r.Text)}
		case r.Kind == failed:
			l.close()
			return welcomed{}, &final{&Failure{Rank: r.Rank, Text: r.Text, Lost: r.Lost}}
		}
	}
}
