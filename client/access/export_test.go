package access

// Kept is how many callers are kept.
func Kept(r *Resolver) int { return len(r.callers.kept) }
