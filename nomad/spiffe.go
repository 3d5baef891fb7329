package nomad

import "time"

// The lifetimes of SVIDs, which are the identity documents of SPIFFE (open-nomad only).
const (
	SpiffeDefaultTTL = time.Hour // also the maximum
	SpiffeMinTTL     = 10 * time.Second
)

// TaskSpiffe requests the SPIFFE Workload API for a task (open-nomad only).
type TaskSpiffe struct {
	X509 bool
	JWT  bool
	TTL  time.Duration
	DNS  []string
}

// Lifetime returns the lifetime of an SVID.
func (s *TaskSpiffe) Lifetime() time.Duration {
	if s.TTL <= 0 || s.TTL > SpiffeDefaultTTL {
		return SpiffeDefaultTTL
	}
	return max(s.TTL, SpiffeMinTTL)
}

// UsesSpiffe reports whether a task of the job has a spiffe block.
func (j *Job) UsesSpiffe() bool {
	for _, tg := range j.TaskGroups {
		if tg.UsesSpiffe() {
			return true
		}
	}
	return false
}

// UsesSpiffe reports whether a task of the group has a spiffe block.
func (tg *TaskGroup) UsesSpiffe() bool {
	for _, t := range tg.Tasks {
		if t.Spiffe != nil {
			return true
		}
	}
	return false
}
