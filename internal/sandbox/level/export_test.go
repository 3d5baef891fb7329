package level

// Needs returns the names of the conditions that a level adds to the one below.
func Needs(l Level) []string {
	var out []string
	for _, r := range rungs {
		for _, n := range r.needs {
			if r.level == l {
				out = append(out, n.name)
			}
		}
	}
	return out
}
