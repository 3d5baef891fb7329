package access

// Kept returns the number of cached callers.
func Kept(r *Resolver) int { return len(r.callers.kept) }
