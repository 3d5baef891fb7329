package quota

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"

	"github.com/open-nomad/open-nomad/nomad"
)

// Amount is an amount of each allocation resource that quotas limit.
type Amount struct {
	CPU         int64 // nomad.MHz, including reserved cores
	Cores       int64
	MemoryMB    int64
	MemoryMaxMB int64
	Allocs      int64
}

// Add adds o multiplied by sign.
func (q *Amount) Add(o Amount, sign int64) {
	q.CPU += sign * o.CPU
	q.Cores += sign * o.Cores
	q.MemoryMB += sign * o.MemoryMB
	q.MemoryMaxMB += sign * o.MemoryMaxMB
	q.Allocs += sign * o.Allocs
}

// Below reports whether any amount is smaller than in o.
func (q Amount) Below(o Amount) bool {
	return q.CPU < o.CPU || q.Cores < o.Cores || q.MemoryMB < o.MemoryMB || q.MemoryMaxMB < o.MemoryMaxMB || q.Allocs < o.Allocs
}

// OfResources returns the amount that an allocation with the resources uses. It equals the scheduler's count on the node.
func OfResources(r *nomad.AllocatedResources) Amount {
	used := r.Flatten()
	out := Amount{CPU: used.CPU, Cores: int64(len(used.Cores)), MemoryMB: used.MemoryMB, MemoryMaxMB: used.MemoryMaxMB, Allocs: 1}
	if r == nil {
		return out
	}
	for _, t := range r.Tasks {
		if t.Memory.MemoryMaxMB == nomad.MemoryNoLimit {
			out.MemoryMaxMB = nomad.MemoryUnbounded
		}
	}
	return out
}

// Of returns the amount that the allocation currently uses. It is zero for a nil allocation, and if the
// allocation is terminal for the servers or the client.
func Of(a *nomad.Allocation) Amount {
	if a == nil || a.TerminalStatus() {
		return Amount{}
	}
	return OfResources(a.AllocatedResources)
}

// bound is one limit of a quota, with the current usage.
type bound struct {
	name       string
	limit      *int
	held, more int64
}

// Exceeded names the limits that would be exceeded if more were added to held. A resource that more does not request
// is ignored, even if its limit is already exceeded.
func (r *Resources) Exceeded(held, more Amount) []string {
	if r == nil {
		return nil
	}
	var out []string
	for _, b := range [...]bound{
		{"cpu", r.CPU, held.CPU, more.CPU},
		{"cores", r.Cores, held.Cores, more.Cores},
		{"memory", r.MemoryMB, held.MemoryMB, more.MemoryMB},
		{"memory_max", r.MemoryMaxMB, held.MemoryMaxMB, more.MemoryMaxMB},
		{"allocs", r.Allocs, held.Allocs, more.Allocs},
	} {
		if why := b.exceeded(); why != "" {
			out = append(out, why)
		}
	}
	return out
}

func (b bound) exceeded() string {
	if b.limit == nil || *b.limit == 0 || b.more <= 0 {
		return ""
	}
	limit, needed := max(int64(*b.limit), 0), b.held+b.more
	switch {
	case needed <= limit:
		return ""
	case needed >= nomad.MemoryUnbounded:
		return fmt.Sprintf("%s exhausted (unlimited requested > %d limit)", b.name, limit)
	}
	return fmt.Sprintf("%s exhausted (%d needed > %d limit)", b.name, needed, limit)
}

// Limit returns the limit of the quota in a region, or nil if there is none.
func (s *Spec) Limit(region string) *Limit {
	if s == nil {
		return nil
	}
	for _, l := range s.Limits {
		if l.Region == region {
			return l
		}
	}
	return nil
}

// Resources returns the limits for allocations in a region, or nil if there are none.
func (s *Spec) Resources(region string) *Resources {
	if l := s.Limit(region); l != nil {
		return l.RegionLimit
	}
	return nil
}

// VariablesMB returns the limit for variables. Zero means no limit. A negative value means that none are allowed.
func (l *Limit) VariablesMB() int {
	if r := l.RegionLimit; r != nil && r.Storage != nil && r.Storage.VariablesMB != 0 {
		return r.Storage.VariablesMB
	}
	if l.VariablesLimit != nil {
		return *l.VariablesLimit
	}
	return 0
}

// Variables returns the allowance for variables in a region, or nil if they are not limited.
func (s *Spec) Variables(region string) *VariablesAllowance {
	l := s.Limit(region)
	if l == nil || l.VariablesMB() == 0 {
		return nil
	}
	return &VariablesAllowance{Quota: s.Name, Bytes: min(max(int64(l.VariablesMB()), 0), 1<<40) * nomad.BytesInMegabyte}
}

// Key returns the key of the limit in Usage.Used.
func (l *Limit) Key() string { return base64.StdEncoding.EncodeToString(l.Hash) }

// SetHashes computes and stores the hash of each limit.
func (s *Spec) SetHashes() error {
	for _, l := range s.Limits {
		l.Hash = nil
		b, err := json.Marshal(l)
		if err != nil {
			return fmt.Errorf("hash of the limit of quota %q in region %q: %w", s.Name, l.Region, err)
		}
		sum := sha256.Sum256(b)
		l.Hash = sum[:]
	}
	return nil
}
