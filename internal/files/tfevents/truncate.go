package tfevents

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"vsetrain/internal/files/disk"
)

// Truncate truncates every event file in dir at the first event that accept rejects, so that a session that repeats
// steps writes each of them once. Start events stay, because the validation of the step before may follow them. An
// unfinished or broken record, which a killed writer leaves at the end, is cut off too: TensorBoard stops reading
// there.
func Truncate(dir string, accept func(Event) bool) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("tfevents: %w", err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), Prefix) || !e.Type().IsRegular() {
			continue
		}
		path := filepath.Join(dir, e.Name())
		if err := truncate(path, accept); err != nil {
			return fmt.Errorf("tfevents: shorten %s: %w", path, err)
		}
	}
	return nil
}

func truncate(path string, accept func(Event) bool) error {
	f, err := disk.Now().Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	end, err := intact(f, accept)
	if err != nil || end == info.Size() {
		return err
	}
	if err := f.Truncate(end); err != nil {
		return err
	}
	return f.Sync()
}

// intact returns the length of the records before the first one that is broken or holds an event that accept rejects.
// An error means that reading failed, so that the rest is unknown.
func intact(r io.Reader, accept func(Event) bool) (end int64, err error) {
	in := bufio.NewReader(r)
	for {
		data, err := readRecord(in)
		if err == io.EOF || err == io.ErrUnexpectedEOF || errors.Is(err, errBroken) {
			return end, nil
		}
		if err != nil {
			return end, fmt.Errorf("read at byte %d: %w", end, err)
		}
		events, err := decode(data)
		if err != nil {
			return end, nil
		}
		for _, e := range events {
			if !e.Start && !accept(e) {
				return end, nil
			}
		}
		end += int64(len(data)) + 16
	}
}
