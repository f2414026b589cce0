package launch

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"time"
)

// children are the ranks that this process started.
type children struct {
	mu    sync.Mutex
	cmds  []*exec.Cmd
	ended sync.WaitGroup
}

// startChildren starts the other ranks of this machine, with the command of this process. They end with it. ended hears
// of each that ends with an error.
func startChildren(command []string, env []string, p Place, procs int, ended func(rank int, err error)) (*children,
	error) {
	c := &children{}
	failed := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // a child counts the thread that started it as its parent: it lives as long as they
		failed <- c.start(command, env, p, procs, ended)
		c.ended.Wait()
	}()
	if err := <-failed; err != nil {
		c.end(0)
		return nil, fmt.Errorf("start rank %d: %w", p.Rank+len(c.cmds)+1, err)
	}
	return c, nil
}

func (c *children) start(command, env []string, p Place, procs int, ended func(int, error)) error {
	for range procs - 1 {
		p.Rank++
		p.Local++
		place, err := json.Marshal(p)
		if err != nil {
			return err
		}
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Env = append(env[:len(env):len(env)], placeVariable+"="+string(place))
		cmd.Stderr = os.Stderr // its panics; all else is rank 0's to tell
		dieWithParent(cmd)
		if err := cmd.Start(); err != nil {
			return err
		}
		c.mu.Lock()
		c.cmds = append(c.cmds, cmd)
		c.mu.Unlock()
		c.ended.Add(1)
		rank := p.Rank
		go func() {
			defer c.ended.Done()
			if err := cmd.Wait(); err != nil {
				ended(rank, err)
			}
		}()
	}
	return nil
}

// end waits for the children, for a time at most, and kills those that are left.
func (c *children) end(most time.Duration) {
	timer := time.AfterFunc(most, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, cmd := range c.cmds {
			cmd.Process.Kill()
		}
	})
	defer timer.Stop()
	c.ended.Wait()
}
