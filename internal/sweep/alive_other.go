//go:build !unix

package sweep

// alive cannot tell here; the heartbeat decides.
func alive(int) bool { return true }
