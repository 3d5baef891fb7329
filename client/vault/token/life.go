package token

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/hashicorp/vault/api"

	"github.com/open-nomad/open-nomad/client/state"
)

const (
	// minLife and maxLife limit the life that Vault gives a token. A token that has ended already would cause logins without a
	// pause.
	minLife, maxLife = time.Second, 10 * 365 * 24 * time.Hour
	// minAge is the age below which the loss of a token delays the next login.
	minAge = time.Minute
)

// life is how long a token is valid.
type life struct {
	from    time.Time     // the login, renewal or lookup
	lease   time.Duration // from then on
	expires time.Time     // zero for no end
	fixed   bool          // a renewal does not extend it
}

// seconds returns a duration of Vault's answer, 0 for no end.
func seconds(n int64) time.Duration {
	if n == 0 {
		return 0
	}
	return max(minLife, time.Duration(min(n, int64(maxLife/time.Second)))*time.Second)
}

// lasting returns the life that begins at a time, and does not end if the lease is 0.
func lasting(from time.Time, lease time.Duration, fixed bool) life {
	l := life{from: from, lease: lease, fixed: fixed}
	if lease > 0 {
		l.expires = from.Add(lease)
	}
	return l
}

// initial returns the life of a token from its login.
func initial(t *state.VaultToken) life { return lasting(t.Created, t.Lease, !t.Renewable) }

// errLookup and errRenewal are the errors for answers that are not about a token.
var (
	errLookup  = errors.New("the answer of the lookup does not describe a token")
	errRenewal = errors.New("the answer of the renewal has no token")
)

// described returns the life that a lookup describes.
func described(at time.Time, s *api.Secret) (life, error) {
	if s == nil {
		return life{}, errLookup
	}
	number, ok := s.Data["ttl"].(json.Number)
	ttl, err := number.Int64()
	if !ok || err != nil {
		return life{}, errLookup
	}
	renewable, _ := s.Data["renewable"].(bool)
	if kind, _ := s.Data["type"].(string); kind == "batch" {
		renewable = false
	}
	lease := seconds(ttl)
	if lease == 0 && s.Data["expire_time"] != nil {
		lease = minLife // rounded
	}
	return lasting(at, lease, !renewable), nil
}

// renewed returns the life that a renewal gave.
func renewed(at time.Time, s *api.Secret) (life, error) {
	if s == nil || s.Auth == nil {
		return life{}, errRenewal
	}
	return lasting(at, max(minLife, seconds(int64(s.Auth.LeaseDuration))), !s.Auth.Renewable), nil
}

// extends reports whether a renewal has added to the life of a token. One that is close to its maximum does not.
func (l life) extends(old life) bool {
	return l.expires.Sub(old.expires) > max(time.Second, l.lease/10)
}

// ended reports whether the life has ended.
func (l life) ended() bool { return !l.expires.IsZero() && !time.Now().Before(l.expires) }

// next returns when a token needs a renewal, or a new login if its life is fixed. The result is zero for never. spread is
// below 1 and random, so that tokens that began together are not renewed together.
func (l life) next(spread float64) time.Time {
	if l.expires.IsZero() {
		return time.Time{}
	}
	part := l.lease / 2
	if l.fixed {
		part = l.lease * 8 / 10
	}
	return l.from.Add(max(part+time.Duration(spread*float64(l.lease)/10), minLife))
}
