package data

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"vsetrain/internal/files/journal"
	"vsetrain/internal/files/runfs"
)

// Amend adds images to a gallery and removes others. It returns when the change is on disk; after an error nothing has
// changed. write writes, for each added image, its features in the type of the feature file (FeatureDType), and its
// boxes in pixels if the gallery has boxes. Processes that amend a gallery at the same time wait for each other, until
// ctx ends. Amend ignores the removal of an id that was removed earlier. The work under the lock is linear in the
// number of images, changes and ids.
func Amend(ctx context.Context, dir, split string, c Change, write func(io.Writer) error) (err error) {
	if _, err := os.Lstat(filepath.Join(dir, split+"_caps.txt")); err == nil {
		return refuse(nil, "split %s of %s has captions; only a gallery, a split without captions, can be amended",
			split, dir)
	}
	path := ChangesFile(dir, split)
	lock, err := lockChanges(ctx, filepath.Join(dir, "."+split+"_changes"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	s, err := Open(dir, split, OpenOptions{Partial: true})
	if err != nil {
		return err
	}
	defer s.Close()
	if err := changeable(s); err != nil {
		return err
	}
	m, err := membersOf(s)
	if err != nil {
		return err
	}
	head := headOf(s)
	headBytes, err := json.Marshal(head)
	if err != nil {
		return err
	}
	if now, ok := s.images.(*changes); ok {
		if head, headBytes = now.changesHead, now.head; len(c.Removed) > 0 {
			c.Removed = slices.DeleteFunc(slices.Clone(c.Removed), func(id string) bool {
				_, there := m.at[id]
				return !there && now.gone[id]
			})
		}
	}
	for _, n := range c.Added {
		if err := checkID(n.ID); err != nil {
			return err
		}
	}
	if err := m.apply(c, 0, 0); err != nil {
		return fmt.Errorf("split %s of %s: %w", split, dir, err)
	}
	if len(c.Added)+len(c.Removed) == 0 {
		return nil
	}
	note, err := json.Marshal(c)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	features, boxes := head.sizes()
	return journal.Append(path, headBytes, note, func(w io.Writer) error {
		if len(c.Added) == 0 {
			return nil
		}
		n := &counter{w: w}
		if err := write(n); err != nil {
			return err
		}
		if want := int64(len(c.Added)) * (features + boxes); n.n != want {
			return fmt.Errorf("%d bytes of %d images; expected %d", n.n, len(c.Added), want)
		}
		return nil
	})
}

type counter struct {
	w io.Writer
	n int64
}

// Write implements io.Writer.
func (c *counter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}

// lockWait is how long a change waits for other processes.
const lockWait = 30 * time.Second

// lockChanges locks a journal. It waits for other processes that change it.
func lockChanges(ctx context.Context, path string) (io.Closer, error) {
	for until := time.Now().Add(lockWait); ; {
		lock, err := runfs.Lock(path, "try again when the other process is done")
		if err == nil || !errors.Is(err, runfs.ErrLocked) || time.Now().After(until) {
			return lock, err
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
