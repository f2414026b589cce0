package launch

import (
	"encoding/base64"
	"fmt"
)

// Meeting is the ranks of a training as their devices see them (device.Meeting): through it they learn where the others
// are, and what they wait for longer than for a step.
type Meeting struct{ member *Member }

// Meeting is that of this process, and whether its device sends values.
func (m *Member) Meeting() (Meeting, bool) { return Meeting{m}, m.o.Devices }

// Rank implements device.Job.
func (m Meeting) Rank() (rank, ranks int) { return m.member.Rank, m.member.Ranks }

// Lost implements device.Meeting.
func (m Meeting) Lost() <-chan struct{} { return m.member.failed }

// Share implements device.Meeting.
func (m Meeting) Share(text []byte) ([]byte, error) {
	if m.member.Rank == 0 {
		m.member.link.send(message{Kind: share, Text: base64.StdEncoding.EncodeToString(text)})
	}
	select {
	case s := <-m.member.shared:
		text, err := base64.StdEncoding.DecodeString(s)
		if err != nil {
			return nil, fmt.Errorf("what rank 0 shares: %w", err)
		}
		return text, nil
	case <-m.member.failed:
		return nil, m.member.failure
	}
}

// Wait implements device.Job.
func (m Meeting) Wait() error {
	m.member.waits++
	m.member.link.send(message{Kind: wait, Rank: m.member.Rank, Number: m.member.waits})
	for {
		select {
		case n := <-m.member.passed:
			if n == m.member.waits {
				return nil
			}
		case <-m.member.failed:
			return m.member.failure
		}
	}
}
