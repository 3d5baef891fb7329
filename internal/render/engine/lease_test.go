package engine

import (
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/consul-template/dependency"
)

// TestLeaseOf checks when secrets are read again.
func TestLeaseOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		num := func(n int64) json.Number { return json.Number(fmt.Sprint(n)) }
		for name, c := range map[string]struct {
			secret    *dependency.Secret
			from, to  time.Duration
			renewable bool
		}{
			"no secret":    {nil, 4*time.Minute + 16*time.Second, 4*time.Minute + 44*time.Second, false},
			"no lease":     {&dependency.Secret{}, 4*time.Minute + 16*time.Second, 4*time.Minute + 44*time.Second, false},
			"fixed":        {&dependency.Secret{LeaseID: "x", LeaseDuration: 100}, 85 * time.Second, 95 * time.Second, false},
			"renewable":    {&dependency.Secret{LeaseID: "x", LeaseDuration: 100, Renewable: true}, 85 * time.Second, 95 * time.Second, true},
			"without ID":   {&dependency.Secret{LeaseDuration: 100, Renewable: true}, 85 * time.Second, 95 * time.Second, false},
			"key-value 1":  {&dependency.Secret{LeaseDuration: 2764800}, 4*time.Minute + 16*time.Second, 4*time.Minute + 44*time.Second, false},
			"token":        {&dependency.Secret{Auth: &dependency.SecretAuth{ClientToken: "x", LeaseDuration: 100, Renewable: true}}, 85 * time.Second, 95 * time.Second, true},
			"batch token":  {&dependency.Secret{Auth: &dependency.SecretAuth{ClientToken: "x", LeaseDuration: 100}}, 85 * time.Second, 95 * time.Second, false},
			"certificate":  {&dependency.Secret{Data: map[string]any{"certificate": "x", "expiration": num(time.Now().Unix() + 100)}}, 85 * time.Second, 95 * time.Second, false},
			"expired":      {&dependency.Secret{Data: map[string]any{"certificate": "x", "expiration": num(1)}}, 4 * time.Minute, 5 * time.Minute, false},
			"secret_id":    {&dependency.Secret{Data: map[string]any{"secret_id": "x", "secret_id_ttl": num(99)}}, 85 * time.Second, 95 * time.Second, false},
			"rotated":      {&dependency.Secret{Data: map[string]any{"rotation_period": num(500), "ttl": num(99)}}, 100 * time.Second, 100 * time.Second, false},
			"other fields": {&dependency.Secret{Data: map[string]any{"secret_id": "x", "secret_id_ttl": "soon"}}, 4 * time.Minute, 5 * time.Minute, false},
			"huge":         {&dependency.Secret{LeaseID: "x", LeaseDuration: 1 << 62}, 8 * 365 * 24 * time.Hour, maxLease, false},
			"negative":     {&dependency.Secret{LeaseID: "x", LeaseDuration: -1 << 62}, 4 * time.Minute, 5 * time.Minute, false},
		} {
			for range 20 {
				l, err := leaseOf(c.secret, 5*time.Minute)
				if got := time.Until(l.end()); err != nil || got < c.from || got > c.to || l.renewable() != c.renewable {
					t.Fatalf("%s: read again after %v, renewable %v, %v", name, got, l.renewable(), err)
				}
				if at := time.Until(l.renewAt()); c.renewable && (at < 63*time.Second || at > 71*time.Second) {
					t.Fatalf("%s: renewed after %v", name, at)
				}
			}
		}
		rotates := &dependency.Secret{Data: map[string]any{"rotation_period": num(500), "ttl": num(0)}}
		if _, err := leaseOf(rotates, time.Minute); err != errRotates { //nolint:errorlint // the value itself
			t.Errorf("a rotation: %v", err)
		}
	})
}

// TestLeaseRenewed checks that a renewal which does not extend the lease is the last.
func TestLeaseRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLease("x", "", 90*time.Second)
		time.Sleep(60 * time.Second)
		if next := l.renewed(90 * time.Second); !next.renewable() || time.Until(next.end()) < 76*time.Second {
			t.Errorf("extended: %+v", next)
		}
		if next := l.renewed(31 * time.Second); next.renewable() || time.Until(next.end()) > 30*time.Second {
			t.Errorf("not extended: %+v", next)
		}
	})
}
