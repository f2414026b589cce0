package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"vsetrain/lab/selftest"
)

// selftestEvent is a message of a selftest process to the process that started it.
type selftestEvent struct {
	Opened *selftest.Device `json:"opened,omitempty"`
	Begin  string           `json:"begin,omitempty"` // the family that is tested next
	Result *selftest.Result `json:"result,omitempty"`
	Error  string           `json:"error,omitempty"` // nothing can be tested
}

// report tests in this process and prints events.
func (o *selftestOptions) report(ctx context.Context, a *app) error {
	enc := json.NewEncoder(a.Raw())
	var failed error
	send := func(e selftestEvent) {
		if err := enc.Encode(e); failed == nil {
			failed = err
		}
	}
	err := selftest.Run(ctx, o.request(),
		func(d selftest.Device) { send(selftestEvent{Opened: &d}) },
		func(family string) { send(selftestEvent{Begin: family}) },
		func(x selftest.Result) { send(selftestEvent{Result: &x}) })
	if err != nil && !errors.Is(err, selftest.ErrFaulted) {
		send(selftestEvent{Error: err.Error()})
	}
	return failed
}

// inProcesses tests each variant in its own process. If a process ends before it has tested all families, another one
// continues with the next family.
func (r *selftestReport) inProcesses(ctx context.Context) error {
	wanted, request := r.options.Variants, r.options.request()
	if len(wanted) == 0 {
		wanted = selftest.Variants(r.options.Kind)
	}
	for _, variant := range wanted {
		families := request.Tested(variant)
		for len(families) > 0 {
			p := selftestProcess{report: r}
			ended, err := p.run(ctx, variant, families)
			if err != nil {
				return err
			}
			if p.skipped {
				break
			}
			if p.done == 0 || p.done < len(families) && !p.faulted { // it died in the next family
				r.each(selftest.Result{Variant: variant, Family: families[p.done],
					Failures: []string{"the process that tested it ended: " + ended}})
				p.done++
			}
			families = families[p.done:]
		}
	}
	return ctx.Err()
}

// selftestProcess is the progress of one process.
type selftestProcess struct {
	report           *selftestReport
	done             int  // the number of families that were tested
	faulted, skipped bool // the last result was a failure; there is nothing to test
}

// run starts the process and reports its events. ended describes how it ended; an error means that nothing can be
// tested.
func (p *selftestProcess) run(ctx context.Context, variant string, families []string) (ended string, err error) {
	exe, err := os.Executable()
	if err != nil {
		return "", err
	}
	var said bytes.Buffer
	c := exec.CommandContext(ctx, exe, "selftest", "--events", "--in-process", "--variant", variant, "--family",
		strings.Join(families, ","))
	c.Args[0], c.Stderr = os.Args[0], &said
	out, err := c.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := c.Start(); err != nil {
		return "", fmt.Errorf("start a process of selftest: %w", err)
	}
	var impossible error
	for dec := json.NewDecoder(out); ; {
		var e selftestEvent
		if dec.Decode(&e) != nil {
			break
		}
		switch {
		case e.Opened != nil:
			p.report.opened(*e.Opened)
			p.skipped = e.Opened.Skipped != ""
		case e.Begin != "":
			p.report.begin(e.Begin)
		case e.Result != nil:
			p.done++
			p.faulted = len(e.Result.Failures) > 0
			p.report.each(*e.Result)
		case e.Error != "":
			impossible = errors.New(e.Error)
		}
	}
	io.Copy(io.Discard, out)
	err = c.Wait()
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if impossible != nil {
		return "", impossible
	}
	if err == nil {
		return "without a failure", nil
	}
	last := strings.TrimSpace(said.String())
	last = last[strings.LastIndexByte(last, '\n')+1:]
	return strings.TrimSpace(err.Error() + ": " + last), nil
}
