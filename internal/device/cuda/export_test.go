package cuda

// LimitScratch lowers what is kept at once: bytes of BlockMatch and weights of self-attention. It returns what restores them.
func LimitScratch(match, weights int) (restore func()) {
	m, w := matchBytes, selfPlaces
	matchBytes, selfPlaces = match, weights
	return func() { matchBytes, selfPlaces = m, w }
}
