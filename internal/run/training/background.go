package training

import "vsetrain/models"

// background writes a checkpoint while the training goes on, one at a time. During a write, the archive's fields about
// checkpoints belong to the writer.
type background struct {
	memory *models.Copy // of the state; nil without
	looked bool         // for it
	end    <-chan error // of the write; nil where there is none
	// first marks the first checkpoint of the run. Until it is on disk, nothing is logged after its validation: this
	// tells a run that lost its checkpoint from one that never had any (neverSaved).
	first bool
}

// begin starts a write that runs during the next steps.
func (b *background) begin(first bool, write func() error) {
	end := make(chan error, 1)
	b.first, b.end = first, end
	go func() { end <- write() }()
}

// settle notes that a write has ended, and returns its error; with wait it waits for the end.
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

// close releases the memory once nothing is being written.
func (b *background) close() {
	if b.memory != nil {
		b.memory.Close()
	}
}
