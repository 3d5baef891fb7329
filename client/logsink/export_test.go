package logsink

// Pumps returns the number of logs that are copied.
func Pumps(s *Set) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.pumps)
}
