package testvault

import (
	"slices"
	"time"
)

// End is how a token ended.
type End string

// The ends of tokens. The zero value is that of a valid token.
const (
	Revoked End = "revoked" // by a call
	Expired End = "expired" // its TTL has ended
	Lost    End = "lost"    // by the test
)

// Record is the life of a token that a login has made.
type Record struct {
	ID, Role string
	Batch    bool
	Renewals int // that succeeded
	End      End
	Ended    time.Time // of the real clock
	// Late are the renewals that were tried after the token was revoked: how long after.
	Late []time.Duration
}

// Records returns the tokens of all logins, also those that have ended, by ID.
func (v *Vault) Records() map[string]Record {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.expire()
	out := map[string]Record{}
	for id, r := range v.records {
		one := *r
		one.Late = slices.Clone(r.Late)
		out[id] = one
	}
	return out
}

// record begins the record of a token of a login. The caller holds mu.
func (v *Vault) record(t *token) {
	v.records[t.id] = &Record{ID: t.id, Role: t.metadata["role"], Batch: t.kind == "batch"}
}

// recorded changes the record of a token, if it has one. The caller holds mu.
func (v *Vault) recorded(id string, change func(*Record)) {
	if r := v.records[id]; r != nil {
		change(r)
	}
}

// renewedLate records a renewal with a token that does not exist. The caller holds mu.
func (v *Vault) renewedLate(id string) {
	v.recorded(id, func(r *Record) {
		if r.End == Revoked {
			r.Late = append(r.Late, time.Since(r.Ended))
		}
	})
}
