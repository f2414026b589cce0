package experiment

import "time"

func createEvents(dir string, started time.Time, host string) (scalars, error) { return nil, nil }
