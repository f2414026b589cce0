package search

import (
	"context"
	"errors"
	"slices"
	"sync"

	"vsetrain/data"
)

// lease is held by all that use a thing, and closes it when the last of them leaves.
type lease struct {
	mu    sync.Mutex
	users int
	close func() error
}

func newLease(done func() error) *lease { return &lease{users: 1, close: done} }

// join adds a user; the caller is one.
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

// Renewal is what Renew did.
type Renewal struct {
	Index    *Index // the one that was renewed where nothing has changed
	Embedded int    // images that the network embedded; the embeddings of the others were taken over
}

// Renew opens the split of an index as its files are now, beside the index, which goes on answering and is to be closed
// when it is needed no more. Embedders are shared, keep the embeddings of images whose features are the same, and embed
// the others one by one, between the queries. Networks that score pairs are opened anew, and encode all images.
func Renew(ctx context.Context, x *Index) (r Renewal, err error) {
	n := &Index{opt: x.opt, pool: x.pool, poolLease: x.poolLease.join()}
	defer func() {
		if err != nil || r.Index == x {
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
			m, err = e.renew(ctx, &n.opt, &r.Embedded)
		} else {
			m, err = openMember(&n.opt, n.pool, checkpoints[i])
		}
		if err != nil {
			return r, err
		}
		if i < len(x.members) {
			n.members = append(n.members, m)
		} else {
			n.shortlist = m.(*embedder)
		}
	}
	if err := agree(n); err != nil {
		return r, err
	}
	same, err := sameSplits(x.split, n.split)
	if err != nil {
		return r, err
	}
	if r.Index = n; same {
		r.Index = x
		return r, nil
	}
	if n.split.Regions() == 0 {
		return r, nil
	}
	if err := n.Prepare(ctx, TextQueries); err != nil {
		return r, err
	}
	return r, packed(ctx, n)
}

// sameSplits reports whether a split that was opened again is what it was.
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

// renew is the embedder with the split as its files are now.
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
