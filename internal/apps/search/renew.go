package search

import (
	"context"
	"errors"
	"slices"
	"sync"

	"vsetrain/data"
)

// lease counts the users of a resource and closes it when the last one leaves.
type lease struct {
	mu    sync.Mutex
	users int
	close func() error
}

func newLease(done func() error) *lease { return &lease{users: 1, close: done} }

// join adds a user; the caller already is one.
func (l *lease) join() *lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.users++
	return l
}

func (l *lease) leave() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.users--; l.users > 0 {
		return nil
	}
	return l.close()
}

// Renew opens the split of x again as its files are now, and returns the new index and how many images it embedded. If
// nothing has changed, it returns x. Otherwise x still answers, and the caller closes it when it is not needed. Both
// share their embedders, which keep the embeddings of images with the same features and embed the others one by one,
// between queries. Networks that score pairs are opened again and encode all images.
func Renew(ctx context.Context, x *Index) (next *Index, embedded int, err error) {
	n := &Index{opt: x.opt, pool: x.pool, poolLease: x.poolLease.join()}
	defer func() {
		if next != n {
			err = errors.Join(err, n.Close())
		}
	}()
	checkpoints := x.opt.Checkpoints
	if x.shortlist != nil {
		checkpoints = append(slices.Clone(checkpoints), x.opt.Shortlist)
	}
	for i, old := range x.all() {
		var m member
		if e, ok := old.(*embedder); ok {
			m, err = e.renew(ctx, &n.opt, &embedded)
		} else {
			m, err = openMember(&n.opt, n.pool, checkpoints[i])
		}
		if err != nil {
			return nil, 0, err
		}
		if i < len(x.members) {
			n.members = append(n.members, m)
		} else {
			n.shortlist = m.(*embedder)
		}
	}
	if err := agree(n); err != nil {
		return nil, 0, err
	}
	same, err := sameSplits(x.split, n.split)
	if same {
		return x, embedded, nil
	}
	if err == nil && n.split.Regions() > 0 {
		if err = n.Prepare(ctx, TextQueries); err == nil {
			err = pack(ctx, n)
		}
	}
	if err != nil {
		return nil, 0, err
	}
	return n, embedded, nil
}

// sameSplits reports whether a split has not changed since it was opened.
func sameSplits(s, t *data.Split) (bool, error) {
	if s.Regions() == 0 || t.Regions() == 0 || s.NumImages() != t.NumImages() || data.Digest(s) != data.Digest(t) ||
		!slices.Equal(data.ImageIDs(s), data.ImageIDs(t)) {
		return false, nil
	}
	same, err := data.Unchanged(s, t)
	for i, j := range same {
		if int(j) != i {
			return false, err
		}
	}
	return true, err
}

// renew returns the embedder with the split as its files are now.
func (m *embedder) renew(ctx context.Context, o *Options, embedded *int) (*embedder, error) {
	r := o.trained("")
	t, err := r.Again(m.Network)
	if err != nil {
		return nil, err
	}
	n := &embedder{encoder: &encoder{Network: t, opt: o, pool: m.pool, mu: m.mu, lease: m.lease.join()}, dim: m.dim,
		bf16: m.bf16}
	rows, ready := m.images.made()
	if !ready || t.Split.Regions() == 0 {
		return n, nil
	}
	var count int
	n.images.all, count, err = n.takeOver(ctx, m.Split, rows, n.embed)
	if err != nil {
		return nil, errors.Join(err, t.Split.Close(), m.lease.leave())
	}
	*embedded += count
	n.images.ready = true
	return n, nil
}
