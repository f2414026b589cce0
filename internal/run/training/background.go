package training

import "vsetrain/models"

// background writes a checkpoint while the training goes on, one at a time. Meanwhile the fields of the archive about
// checkpoints belong to the writer.
type background struct {
	memory *models.Copy // of the state; nil without
	looked bool         // for it
	end    <-chan error // of the write; nil where there is none
	// It is the first of the run: until it is there nothing is logged after its validation, by which a run that lost
	// its checkpoint is told from one that never had any (neverSaved).
	first bool
}

// begin starts to write while the next steps run.
func (b *background) begin(first bool, write func() error) {
	end := make(chan error, 1)
	b.first, b.end = first, end
	go func() { end <- write() }()
}

// settle takes in that a write has ended, and its error; with wait it waits for that.
func (b *background) settle(wait bool) (err error) {
	select {
	case err = <-b.end:
	default:
		if b.end == nil || !wait {
			return nil
		}
		err = <-b.end
	}
	b.end = nil
	return err
}

// close gives the memory back when nothing is being written.
func (b *background) close() {
	if b.memory != nil {
		b.memory.Close()
	}
}
