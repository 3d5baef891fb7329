//go:build amd64 || arm64

package stage

import "time"

// InitELF is the program, for its size.
var InitELF = initELF

// PID is the number of the spare's process.
func (s *Spare) PID() int { return s.pid }

// Used says whether it became a stage.
func (s *Spare) Used() bool { return s.used }

// Await has a start wait for the spare, however busy the machine is.
func (s *Spare) Await() { s.limit = 2 * time.Minute }

// HangUp closes our end of its socket.
func (s *Spare) HangUp() { s.conn.Close() }

// ClosedToOthers says whether a spare may be parked with the setting in a file.
var ClosedToOthers = closedToOthers
