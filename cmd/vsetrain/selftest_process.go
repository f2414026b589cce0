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

// selftestEvent is what a process of selftest tells the one that started it.
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

// inProcesses tests each variant in its own process. Where one ends before its families do, another continues with the
// next.
func (o *selftestOptions) inProcesses(ctx context.Context, opened func(selftest.Device),
	begin func(family string), each func(selftest.Result)) error {
	wanted, request := o.Variants, o.request()
	if len(wanted) == 0 {
		wanted = selftest.Variants(o.Kind)
	}
	for _, variant := range wanted {
		families := request.Tested(variant)
		for len(families) > 0 {
			p := selftestProcess{variant: variant, families: families, opened: opened, begin: begin, each: each}
			ended, err := p.run(ctx)
			if err != nil {
				return err
			}
			if p.skipped {
				break
			}
			if p.done == 0 || p.done < len(families) && !p.faulted { // it died in the next family
				each(selftest.Result{Variant: variant, Family: families[p.done],
					Failures: []string{"the process that tested it ended: " + ended}})
				p.done++
			}
			families = families[p.done:]
		}
	}
	return ctx.Err()
}

// selftestProcess is one process and what it has told.
type selftestProcess struct {
	variant  string
	families []string
	opened   func(selftest.Device)
	begin    func(family string)
	each     func(selftest.Result)

	done             int  // families, the first ones
	faulted, skipped bool // the last result was a failure; there is nothing to test
}

// run starts the process and passes on what it tells. ended says how it ended; an error is that nothing can be tested
// at all.
func (p *selftestProcess) run(ctx context.Context) (ended string, err error) {
	exe, err := os.Executable()
	if err != nil {
		return "", err
	}
	var said bytes.Buffer
	c := exec.CommandContext(ctx, exe, "selftest", "--events", "--in-process", "--variant", p.variant, "--family",
		strings.Join(p.families, ","))
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
			p.opened(*e.Opened)
			p.skipped = e.Opened.Skipped != ""
		case e.Begin != "":
			p.begin(e.Begin)
		case e.Result != nil:
			p.done++
			p.faulted = len(e.Result.Failures) > 0
			p.each(*e.Result)
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
	return strings.TrimSpace(err.Error() + ": " + lastLine(said.String())), nil
}

// lastLine is the last line of a text that holds something.
func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}
