//go:build amd64 || arm64

package stage

// InitELF is the program, for its size.
var InitELF = initELF

// PID is the number of the spare's process.
func (s *Spare) PID() int { return s.pid }

// Used says whether it became a stage.
func (s *Spare) Used() bool { return s.used }

// HangUp closes our end of its socket.
func (s *Spare) HangUp() { s.conn.Close() }

// ClosedToOthers says whether a spare may be parked with the setting in a file.
var ClosedToOthers = closedToOthers
