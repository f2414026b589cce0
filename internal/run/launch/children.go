package launch

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"time"
)

// children are the ranks that this process started.
type children struct {
	cmds  []*exec.Cmd
	ended sync.WaitGroup
}

// start starts procs - 1 more ranks on this machine, numbered after p, with the command of this process. A child ends
// when its standard input is closed, and therefore with this process. ended is called for each child that ends with an
// error.
func (c *children) start(command, env []string, p Place, procs int, ended func(rank int, err error)) error {
	for range procs - 1 {
		p.Rank++
		p.Local++
		place, err := json.Marshal(p)
		if err != nil {
			return err
		}
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Env = append(env[:len(env):len(env)], placeVariable+"="+string(place))
		cmd.Stderr = os.Stderr // for panics; only rank 0 reports anything else
		if _, err = cmd.StdinPipe(); err == nil {
			err = cmd.Start()
		}
		if err != nil {
			c.end(0)
			return fmt.Errorf("start rank %d: %w", p.Rank, err)
		}
		c.cmds = append(c.cmds, cmd)
		rank := p.Rank
		c.ended.Go(func() {
			if err := cmd.Wait(); err != nil {
				ended(rank, err)
			}
		})
	}
	return nil
}

// end waits at most the given time for the children to end, then kills the remaining ones.
func (c *children) end(most time.Duration) {
	timer := time.AfterFunc(most, func() {
		for _, cmd := range c.cmds {
			cmd.Process.Kill()
		}
	})
	defer timer.Stop()
	c.ended.Wait()
}
